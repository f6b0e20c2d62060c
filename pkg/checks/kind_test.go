package checks

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/apis/duck"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func TestBuiltInKindsAreChecks(t *testing.T) {
	for _, instance := range []any{&approvalv1alpha1.ApprovalRequest{}, &approvalv1alpha1.TimeWindowCheck{}, &approvalv1alpha1.ScriptCheck{}} {
		assert.NoError(t, duck.VerifyType(instance, &duckv1alpha1.CheckStatus{}))
	}
}

func TestCompileRefuses(t *testing.T) {
	cases := map[string]struct {
		edit func(*approvalv1alpha1.CheckKind)
		want string
	}{
		"an expression with a typo": {func(ck *approvalv1alpha1.CheckKind) { ck.Spec.State = &approvalv1alpha1.StateReader{CEL: "self."} }, "does not compile"},
		"an expression over other things": {
			func(ck *approvalv1alpha1.CheckKind) {
				ck.Spec.State = &approvalv1alpha1.StateReader{CEL: "object.status"}
			}, "undeclared reference",
		},
		"an expression that yields true": {func(ck *approvalv1alpha1.CheckKind) { ck.Spec.State = &approvalv1alpha1.StateReader{CEL: "true"} }, "yields bool"},
		"a question in a list":           {func(ck *approvalv1alpha1.CheckKind) { ck.Spec.RequestField = ".spec.a[*].b" }, "goes through a list"},
		"expansion outside of the spec":  {func(ck *approvalv1alpha1.CheckKind) { ck.Spec.Expand = []string{".metadata.name"} }, "below .spec"},
		"expansion in a script": {
			func(ck *approvalv1alpha1.CheckKind) {
				ck.Spec.APIVersion, ck.Spec.Kind = "approval.alaudadevops.io/v1alpha1", "ScriptCheck"
				ck.Spec.Expand = []string{".spec.message"}
			}, "CEL variables",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(makeCheckKind(c.edit))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestBuild(t *testing.T) {
	kind := compile(t, func(ck *approvalv1alpha1.CheckKind) {
		ck.Spec.RequestField = ".spec.question"
		ck.Spec.Expand = []string{".spec.description", ".spec.steps[*].text"}
	})
	in := &BuildInput{
		Namespace: "prod", Name: "check-1", RequestUID: "r-1",
		Template: &approvalv1alpha1.CheckTemplate{
			Metadata: &approvalv1alpha1.CheckTemplateMetadata{
				Labels:      map[string]string{"team": "blue", approvalv1alpha1.LabelRequestUID: "forged"},
				Annotations: map[string]string{approvalv1alpha1.AnnotationCreatedBy: "forged", "note": "$(object.name)"},
			},
			Spec: runtime.RawExtension{Raw: []byte(`{"description":"use of $(object.name)","expression":"'$(object.name)'","n":3,"steps":[{"text":"$(resource.kind)"}],"question":{"forged":true}}`)},
		},
		Context:  sampleContext(),
		Question: &approvalv1alpha1.CheckRequest{Reason: "because", Subject: approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "u"}},
	}
	check, err := kind.Build(in)
	require.NoError(t, err)

	assert.Equal(t, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gate"}, check.GroupVersionKind())
	assert.Equal(t, map[string]string{"team": "blue", approvalv1alpha1.LabelRequestUID: "r-1"}, check.GetLabels())
	assert.Equal(t, "$(object.name)", check.GetAnnotations()["note"])
	assert.NotContains(t, check.GetAnnotations(), approvalv1alpha1.AnnotationCreatedBy)

	spec := check.Object["spec"].(map[string]any)
	assert.Equal(t, "use of prod-harbor", spec["description"])
	assert.Equal(t, "'$(object.name)'", spec["expression"], "a field that is not listed is not touched")
	assert.Equal(t, []any{map[string]any{"text": "PipelineRun"}}, spec["steps"])
	assert.Equal(t, int64(3), spec["n"])
	assert.NotContains(t, spec["question"], "forged")
	assert.Equal(t, "because", spec["question"].(map[string]any)["reason"])

	var context approvalv1alpha1.CheckContext
	require.NoError(t, json.Unmarshal([]byte(check.GetAnnotations()[approvalv1alpha1.AnnotationContext]), &context))
	assert.Empty(t, cmp.Diff(*sampleContext(), context))
}

func TestBuildWritesNoNulls(t *testing.T) {
	kind := compile(t, func(ck *approvalv1alpha1.CheckKind) { ck.Spec.RequestField = ".spec.request" })
	check, err := kind.Build(&BuildInput{
		Template: &approvalv1alpha1.CheckTemplate{}, Context: sampleContext(),
		Question: &approvalv1alpha1.CheckRequest{Rule: approvalv1alpha1.RuleSnapshot{Name: "r"}},
	})
	require.NoError(t, err)
	text, err := check.MarshalJSON()
	require.NoError(t, err)
	assert.NotContains(t, string(text), "null")
}

func TestBuildRefusesATemplateThatIsNoObject(t *testing.T) {
	_, err := compile(t).Build(&BuildInput{
		Template: &approvalv1alpha1.CheckTemplate{Spec: runtime.RawExtension{Raw: []byte(`["a"]`)}}, Context: sampleContext(),
	})
	assert.ErrorContains(t, err, "no JSON object")
}

func TestReadiness(t *testing.T) {
	cases := map[string]struct {
		edit func(*approvalv1alpha1.CheckKind)
		want string
	}{
		"ready":         {func(*approvalv1alpha1.CheckKind) {}, ""},
		"not looked at": {func(ck *approvalv1alpha1.CheckKind) { ck.Status.Conditions = nil }, "has not been looked at yet"},
		"changed since": {func(ck *approvalv1alpha1.CheckKind) { ck.Generation = 2 }, "has not been looked at yet"},
		"not installed": {func(ck *approvalv1alpha1.CheckKind) {
			ck.Status.Conditions[0] = metav1.Condition{
				Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: 1,
				Reason: approvalv1alpha1.ReasonNotInstalled, Message: "install it",
			}
		}, "NotInstalled): install it"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := compile(t, c.edit).Ready()
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
}
