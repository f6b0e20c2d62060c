package origin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestDefaultConfigIsValidAndRoundTrips(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	data, err := yaml.Marshal(DefaultConfig())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "origins.yaml")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	loaded, err := LoadConfig(path)
	require.NoError(t, err)
	assert.Equal(t, DefaultConfig(), loaded)
}

func TestKindsAreThoseOnTheWayToARun(t *testing.T) {
	assert.ElementsMatch(t, []schema.GroupKind{
		{Kind: "Pod"}, {Group: "batch", Kind: "Job"}, {Group: "tekton.dev", Kind: "TaskRun"}, {Group: "tekton.dev", Kind: "PipelineRun"},
		{Group: "appstudio.redhat.com", Kind: "Release"},
	}, DefaultConfig().Kinds())

	between := Config{
		Runs: []GroupKind{{"x", "Campaign"}},
		Hops: []ConfiguredHop{
			{GroupKind{"", "Pod"}, GroupKind{"batch", "Job"}, []string{"a"}},
			{GroupKind{"batch", "Job"}, GroupKind{"x", "Campaign"}, []string{"b"}},
			{GroupKind{"", "Pod"}, GroupKind{"apps", "ReplicaSet"}, []string{"c"}},
			{GroupKind{"y", "Other"}, GroupKind{"x", "Campaign"}, []string{"d"}},
		},
	}
	assert.ElementsMatch(t, []schema.GroupKind{{Kind: "Pod"}, {Group: "batch", Kind: "Job"}, {Group: "x", Kind: "Campaign"}}, between.Kinds())
}

func TestLoadConfigRefuses(t *testing.T) {
	tests := map[string]string{
		"no runs":          `hops: []`,
		"unknown field":    `{runs: [{kind: Job, group: batch}], hop: []}`,
		"run without kind": `{runs: [{group: batch}]}`,
		"hop without kind": `{runs: [{kind: Job, group: batch}], hops: [{child: {kind: Pod}, controllers: [a]}]}`,
		"no controller":    `{runs: [{kind: Job, group: batch}], hops: [{child: {kind: Pod}, owner: {kind: Job, group: batch}}]}`,
		"empty controller": `{runs: [{kind: Job, group: batch}], hops: [{child: {kind: Pod}, owner: {kind: Job, group: batch}, controllers: [""]}]}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "origins.yaml")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := LoadConfig(path)
			assert.Error(t, err)
		})
	}
	_, err := LoadConfig(filepath.Join(t.TempDir(), "missing"))
	assert.Error(t, err)
}
