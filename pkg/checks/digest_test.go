package checks

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func answeredBySpec(ck *approvalv1alpha1.CheckKind) {
	ck.Spec.Answers = []string{".spec.approvers[*].input", ".spec.approvers[*].message"}
}

func TestSpecDigest(t *testing.T) {
	asked := `{"spec":{"approvers":[{"name":"a","input":"pending"},{"name":"b","input":"pending"}],"required":1}}`
	cases := map[string]struct {
		now  string
		same bool
	}{
		"untouched":                {`{"spec":{"required":1,"approvers":[{"input":"pending","name":"a"},{"name":"b","input":"pending"}]}}`, true},
		"answered":                 {`{"spec":{"approvers":[{"name":"a","input":"approve","message":"ok"},{"name":"b","input":"pending"}],"required":1}}`, true},
		"another status":           {`{"spec":{"approvers":[{"name":"a"},{"name":"b"}],"required":1},"status":{"state":"approved"}}`, true},
		"an approver added":        {`{"spec":{"approvers":[{"name":"a"},{"name":"b"},{"name":"me","input":"approve"}],"required":1}}`, false},
		"an approver replaced":     {`{"spec":{"approvers":[{"name":"a"},{"name":"me"}],"required":1}}`, false},
		"approvers in other order": {`{"spec":{"approvers":[{"name":"b"},{"name":"a"}],"required":1}}`, false},
		"fewer required":           {`{"spec":{"approvers":[{"name":"a"},{"name":"b"}],"required":0}}`, false},
		"no spec":                  {`{}`, false},
	}
	kind := compile(t, answeredBySpec)
	want := kind.SpecDigest(parse(t, asked))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := parse(t, c.now)
			before := now.DeepCopy()
			assert.Equal(t, c.same, kind.SpecDigest(now) == want)
			assert.Equal(t, before, now, "the live object is not changed")
		})
	}
}

func TestS8_AForeignCheckBelongsToOneRegistration(t *testing.T) {
	again := func(ck *approvalv1alpha1.CheckKind) { ck.UID = "ck-2" }
	edited := func(ck *approvalv1alpha1.CheckKind) { ck.Generation = 2 }
	builtIn := func(ck *approvalv1alpha1.CheckKind) {
		ck.Spec.APIVersion, ck.Spec.Kind = approvalv1alpha1.GroupVersion.String(), "ApprovalRequest"
	}
	check := parse(t, `{"spec":{"required":1}}`)
	was := compile(t).SpecDigest(check)
	assert.NotEqual(t, was, compile(t, again).SpecDigest(check))
	assert.Equal(t, was, compile(t, edited).SpecDigest(check))
	assert.Equal(t, compile(t, builtIn).SpecDigest(check), compile(t, builtIn, again).SpecDigest(check),
		"statuses of built-in kinds are guarded without a registration")
}

func FuzzSpecDigest(f *testing.F) {
	f.Add(`{"approvers":[{"name":"a","input":"x"}],"n":1}`)
	f.Add(`{"approvers":{"input":1}}`)
	f.Add(`{"a":1e400,"b":1.0,"c":10000000000000000000000}`)
	f.Add(`null`)
	kind, err := Compile(makeCheckKind(answeredBySpec))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, spec string) {
		var value any
		if utiljson.Unmarshal([]byte(spec), &value) != nil {
			return
		}
		check := &unstructured.Unstructured{Object: map[string]any{"spec": value}}
		digest := kind.SpecDigest(check)
		require.NotEmpty(t, digest)
		again, err := json.Marshal(check.Object)
		require.NoError(t, err)
		assert.Equal(t, digest, kind.SpecDigest(parse(t, string(again))), "a round trip through the API server changes nothing")
	})
}
