package policies

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func TestEveryPolicyIsBoundUnderItsName(t *testing.T) {
	set := Current()
	require.Len(t, set, 36)
	for key, object := range set {
		assert.Truef(t, strings.HasPrefix(key.Name, "countersign-"), "%s: policies are named countersign-<topic>", key)
		switch o := object.(type) {
		case *admissionregistrationv1.MutatingAdmissionPolicy:
			assert.Contains(t, set, Key{KindMutatingBinding, key.Name})
			assert.Equal(t, ptr.To(admissionregistrationv1.Fail), o.Spec.FailurePolicy, key)
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			assert.Contains(t, set, Key{KindValidatingBinding, key.Name})
			assert.Equal(t, ptr.To(admissionregistrationv1.Fail), o.Spec.FailurePolicy, key)
			assertMessages(t, key, o.Spec.Validations)
		case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
			assert.Equal(t, key.Name, o.Spec.PolicyName)
			assert.Contains(t, set, Key{KindValidatingPolicy, key.Name}, "what a mutation sets is asserted again")
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			assert.Equal(t, key.Name, o.Spec.PolicyName)
			assert.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, o.Spec.ValidationActions)
		}
	}
}

// assertMessages holds every refusal to one sentence that says what to do.
func assertMessages(t *testing.T, key Key, validations []admissionregistrationv1.Validation) {
	t.Helper()
	for _, validation := range validations {
		assert.Containsf(t, validation.Message, ": ", "%s: what happened, then what to do: %s", key, validation.Message)
		assert.NotContainsf(t, validation.Message, "\n", "%s", key)
		assert.NotNilf(t, validation.Reason, "%s", key)
	}
}

func TestTheRecordIsReadTheSameWayEverywhere(t *testing.T) {
	record := variables(t, Key{KindMutatingPolicy, "countersign-creator-record"})
	for name, key := range map[string]Key{
		"asserted":           {KindValidatingPolicy, "countersign-creator-record"},
		"of checks":          {KindMutatingPolicy, "countersign-request-label"},
		"of checks asserted": {KindValidatingPolicy, "countersign-request-label"},
	} {
		t.Run(name, func(t *testing.T) {
			there := variables(t, key)
			require.GreaterOrEqual(t, len(there), len(record))
			assert.Equal(t, record, there[:len(record)])
		})
	}
	assert.Equal(t, variables(t, Key{KindMutatingPolicy, "countersign-ownership"}), variables(t, Key{KindValidatingPolicy, "countersign-ownership"}))
}

func TestMutationAndAssertionMatchTheSameRequests(t *testing.T) {
	for key, object := range Current() {
		mutating, ok := object.(*admissionregistrationv1.MutatingAdmissionPolicy)
		if !ok {
			continue
		}
		validating := Current()[Key{KindValidatingPolicy, key.Name}].(*admissionregistrationv1.ValidatingAdmissionPolicy)
		assert.Equal(t, mutating.Spec.MatchConstraints, validating.Spec.MatchConstraints, key)
	}
}

func TestRequestImmutabilityNamesEveryField(t *testing.T) {
	policy := Current()[Key{KindValidatingPolicy, "countersign-request-immutability"}].(*admissionregistrationv1.ValidatingAdmissionPolicy)
	expression := policy.Spec.Validations[0].Expression
	fields := reflect.TypeFor[approvalv1alpha1.ResourceCheckRequestSpec]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		if name == "revoked" {
			continue
		}
		assert.Contains(t, expression, "object.spec.?"+name+" == oldObject.spec.?"+name)
	}
}

// A set that the policies do not name is not guarded; the names in the policies are constants elsewhere.
func TestPoliciesUseTheNamesOfTheAPI(t *testing.T) {
	for name, want := range map[string]string{
		"creator-record.yaml":      approvalv1alpha1.AnnotationCreatedBy,
		"request-label.yaml":       approvalv1alpha1.AnnotationContext,
		"status-guard.yaml":        approvalv1alpha1.LabelRequestUID,
		"deletion.yaml":            "group('" + approvalv1alpha1.AuthorityGroup + "').resource('" + approvalv1alpha1.ResourceEvidence + "').check('" + approvalv1alpha1.VerbPurge + "')",
		"mint.yaml":                "group('" + approvalv1alpha1.AuthorityGroup + "').resource('" + approvalv1alpha1.ResourceTokens + "').check('" + approvalv1alpha1.VerbMint + "')",
		"release-attribution.yaml": "'" + approvalv1alpha1.AnnotationStanding + "'",
		"check-creation.yaml":      "group('" + approvalv1alpha1.AuthorityGroup + "').resource('" + approvalv1alpha1.ResourceChecks + "').check('" + approvalv1alpha1.VerbDecide + "')",
	} {
		content, err := files.ReadFile(name)
		require.NoError(t, err)
		assert.Contains(t, string(content), want, name)
	}
}

func TestParseRefuses(t *testing.T) {
	const binding = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: a}\n"
	tests := map[string]struct {
		content string
		wantErr string
	}{
		"another kind":    {"apiVersion: v1\nkind: Secret\n", "no policy or binding"},
		"another version": {strings.Replace(binding, "/v1", "/v1beta1", 1), "no policy or binding"},
		"unknown field":   {binding + "spec: {policy: a}\n", "unknown field"},
		"the same twice":  {binding + "---\n" + binding, "twice"},
		"no YAML":         {"a: [", "converting YAML"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(fstest.MapFS{"a.yaml": {Data: []byte(tc.content)}}, "*.yaml")
			assert.ErrorContains(t, err, tc.wantErr)
		})
	}
}

func TestEqual(t *testing.T) {
	key := Key{KindMutatingBinding, "countersign-ownership"}
	original := Current()[key].(*admissionregistrationv1.MutatingAdmissionPolicyBinding)
	live := original.DeepCopy()
	live.UID, live.Generation = "a", 3
	assert.True(t, Equal(original, live), "only the spec counts")
	live.Spec.ParamRef = &admissionregistrationv1.ParamRef{Name: "a"}
	assert.False(t, Equal(original, live))
	assert.False(t, Equal(original, Current()[Key{KindValidatingBinding, key.Name}]), "another kind")
	assert.False(t, Equal(nil, nil))
}

func variables(t *testing.T, key Key) []admissionregistrationv1.Variable {
	t.Helper()
	switch o := Current()[key].(type) {
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return o.Spec.Variables
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return o.Spec.Variables
	default:
		t.Fatalf("%s is no policy", key)
		return nil
	}
}
