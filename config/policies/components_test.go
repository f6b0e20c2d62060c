package policies

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// built is what is installed by who adds one line to all that is shipped.
func built(t *testing.T, components ...string) resmap.ResMap {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	require.NoError(t, fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			return err
		}
		return memory.WriteFile("/config/"+path, content)
	}))
	mine := "resources: [../default]\ncomponents: [../components/" + strings.Join(components, ", ../components/") + "]\n"
	require.NoError(t, memory.WriteFile("/config/mine/kustomization.yaml", []byte(mine)))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/config/mine")
	require.NoError(t, err)
	return resources
}

// installed are the policies and bindings among the resources, and the webhook configurations that stand in for some.
func installed(t *testing.T, resources resmap.ResMap) Set {
	t.Helper()
	set := Set{}
	for _, resource := range resources.Resources() {
		isWebhook := strings.HasSuffix(resource.GetKind(), "WebhookConfiguration")
		if newObject(resource.GetKind()) == nil || isWebhook && resource.GetName() != CreatorRecord {
			continue
		}
		content, err := resource.AsYAML()
		require.NoError(t, err)
		require.NoError(t, set.parseDocument(content))
	}
	return set
}

// assertAccepted holds what is installed to what consumers want, no more and no less.
func assertAccepted(t *testing.T, want, have Set) {
	t.Helper()
	for key := range have {
		assert.Containsf(t, want, key, "%s is installed", key)
	}
	for key, shipped := range want {
		if assert.Containsf(t, have, key, "%s is wanted", key) {
			assert.Truef(t, Accepts(shipped, have[key]), "%s is not as it should be", key)
		}
	}
}

// assertEverything holds the selections of both kinds to everything but what machines write without end.
func assertEverything(t *testing.T, have Set, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		selected := Selection(have[Key{kind, CreatorRecord}])
		for object, want := range map[schema.GroupResource]bool{
			{Resource: "configmaps"}: true,
			{Resource: "secrets"}:    true,
			{Resource: "namespaces"}: true,
			{Resource: "pods"}:       true,
			{Group: "rbac.authorization.k8s.io", Resource: "roles"}: true,
			{Group: "their.example.com", Resource: "things"}:        true,
			{Group: "tekton.dev", Resource: "pipelineruns"}:         true,
			{Group: "tekton.dev", Resource: "pipelines"}:            true,
			{Group: "coordination.k8s.io", Resource: "leases"}:      false,
			{Group: "discovery.k8s.io", Resource: "endpointslices"}: false,
			{Group: "events.k8s.io", Resource: "events"}:            false,
			{Resource: "events"}:                                    false,
		} {
			assert.Equalf(t, want, SelectsRecord(selected, object), "%s %s", kind, object)
		}
	}
}

func TestOneLineWidensTheSelectionToEverything(t *testing.T) {
	have := installed(t, built(t, "creators-everywhere"))
	assertAccepted(t, Accepted(Options{Releases: true})[0], have)
	assertEverything(t, have, KindMutatingBinding, KindValidatingBinding)
}

// Whoever writes both lines gets both, whichever he writes first.
func TestTwoLinesHaveWebhooksRecordEverything(t *testing.T) {
	for _, components := range [][]string{{"creator-webhook", "creators-everywhere"}, {"creators-everywhere", "creator-webhook"}} {
		t.Run(strings.Join(components, " then "), func(t *testing.T) {
			have := installed(t, built(t, components...))
			assertAccepted(t, Accepted(Options{Releases: true, CreatorWebhook: true})[0], have)
			assertEverything(t, have, KindMutatingWebhook, KindValidatingWebhook)
		})
	}
}

func TestOneLineHasWebhooksWriteTheRecord(t *testing.T) {
	resources := built(t, "creator-webhook")
	have := installed(t, resources)
	assertAccepted(t, Accepted(Options{Releases: true, CreatorWebhook: true})[0], have)
	for key := range have {
		assert.NotContains(t, []string{KindMutatingPolicy, KindMutatingBinding}, key.Kind, "the API server may know none")
	}
	told := 0
	for _, resource := range resources.Resources() {
		if resource.GetKind() == "Deployment" {
			text, err := resource.AsYAML()
			require.NoError(t, err)
			told += strings.Count(string(text), "- --creator-record="+CreatorRecordWebhook)
		}
	}
	assert.Equal(t, 2, told, "the controller and the proxy")
}
