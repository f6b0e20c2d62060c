package policies

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// shippedSelection is a copy of what the shipped binding selects.
func shippedSelection(t *testing.T) *admissionregistrationv1.MatchResources {
	t.Helper()
	selected := Selection(Current()[Key{KindMutatingBinding, CreatorRecord}])
	require.NotNil(t, selected)
	return selected.DeepCopy()
}

func TestAcceptsEverySelectionThatCoversTheShippedOne(t *testing.T) {
	all := rule(admissionregistrationv1.OperationAll, "*", "*/*")
	pods := func(selected *admissionregistrationv1.MatchResources) *admissionregistrationv1.NamedRuleWithOperations {
		i := slices.IndexFunc(selected.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool { return r.Resources[0] == "pods" })
		return &selected.ResourceRules[i]
	}
	tests := map[string]struct {
		edit func(*admissionregistrationv1.MatchResources)
		want bool
	}{
		"as shipped": {func(*admissionregistrationv1.MatchResources) {}, true},
		"one kind more": {func(s *admissionregistrationv1.MatchResources) {
			s.ResourceRules = append(s.ResourceRules, rule("CREATE", "", "configmaps"))
		}, true},
		"another order": {func(s *admissionregistrationv1.MatchResources) { slices.Reverse(s.ResourceRules) }, true},
		"everything": {func(s *admissionregistrationv1.MatchResources) {
			s.ResourceRules = []admissionregistrationv1.NamedRuleWithOperations{all}
		}, true},
		"no rule at all":   {func(s *admissionregistrationv1.MatchResources) { s.ResourceRules = nil }, true},
		"subresources too": {func(s *admissionregistrationv1.MatchResources) { pods(s).Resources = []string{"pods/*"} }, true},
		"leases left out": {func(s *admissionregistrationv1.MatchResources) {
			s.ResourceRules = []admissionregistrationv1.NamedRuleWithOperations{all}
			s.ExcludeResourceRules = []admissionregistrationv1.NamedRuleWithOperations{rule("*", "coordination.k8s.io", "leases")}
		}, true},
		"one kind less":    {func(s *admissionregistrationv1.MatchResources) { s.ResourceRules = s.ResourceRules[1:] }, false},
		"a named pod only": {func(s *admissionregistrationv1.MatchResources) { pods(s).ResourceNames = []string{"mine"} }, false},
		"one version only": {func(s *admissionregistrationv1.MatchResources) { pods(s).APIVersions = []string{"v1"} }, false},
		"another operation": {func(s *admissionregistrationv1.MatchResources) {
			pods(s).Operations = []admissionregistrationv1.OperationType{"DELETE"}
		}, false},
		"cluster-scoped only": {func(s *admissionregistrationv1.MatchResources) {
			pods(s).Scope = ptr.To(admissionregistrationv1.ClusterScope)
		}, false},
		"exact": {func(s *admissionregistrationv1.MatchResources) { s.MatchPolicy = ptr.To(admissionregistrationv1.Exact) }, false},
		"subresources left out": {func(s *admissionregistrationv1.MatchResources) {
			s.ExcludeResourceRules = append(s.ExcludeResourceRules, rule("UPDATE", "*", "*/status"))
		}, false},
		"named pods left out": {func(s *admissionregistrationv1.MatchResources) {
			r := rule("CREATE", "", "pods")
			r.ResourceNames = []string{"mine"}
			s.ExcludeResourceRules = append(s.ExcludeResourceRules, r)
		}, false},
		"our kinds left out": {func(s *admissionregistrationv1.MatchResources) {
			s.ExcludeResourceRules = append(s.ExcludeResourceRules, rule("CREATE", "approval.alaudadevops.io", "approvalrequests"))
		}, false},
		"namespaces by label": {func(s *admissionregistrationv1.MatchResources) {
			s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, false},
		"objects by label": {func(s *admissionregistrationv1.MatchResources) {
			s.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "DoesNotExist"}}}
		}, false},
		"everything but workloads": {func(s *admissionregistrationv1.MatchResources) {
			s.ResourceRules = []admissionregistrationv1.NamedRuleWithOperations{all}
			s.ExcludeResourceRules = append(s.ExcludeResourceRules, rule("*", "apps", "*"))
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{KindMutatingBinding, KindValidatingBinding} {
				shipped := Current()[Key{kind, CreatorRecord}]
				selected := shippedSelection(t)
				tc.edit(selected)
				assert.Equal(t, tc.want, Accepts(shipped, reselected(shipped, selected)), kind)
			}
		})
	}
}

func TestAcceptsNothingElse(t *testing.T) {
	key := Key{KindValidatingBinding, CreatorRecord}
	shipped := Current()[key].(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	wide := reselected(shipped, &admissionregistrationv1.MatchResources{}).(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	require.True(t, Accepts(shipped, wide))

	warning := wide.DeepCopy()
	warning.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
	assert.False(t, Accepts(shipped, warning), "it must deny")
	parameters := wide.DeepCopy()
	parameters.Spec.ParamRef = &admissionregistrationv1.ParamRef{Name: "a"}
	assert.False(t, Accepts(shipped, parameters))
	elsewhere := wide.DeepCopy()
	elsewhere.Spec.PolicyName = "theirs"
	assert.False(t, Accepts(shipped, elsewhere))
	without := wide.DeepCopy()
	without.Spec.MatchResources = nil
	assert.True(t, Accepts(shipped, without), "it is everything")

	other := Current()[Key{KindValidatingBinding, "countersign-deletion"}].(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).DeepCopy()
	other.Spec.MatchResources = &admissionregistrationv1.MatchResources{}
	assert.False(t, Accepts(Current()[Key{KindValidatingBinding, "countersign-deletion"}], other), "other bindings stay as they are")
	assert.False(t, Accepts(nil, wide))
}

func TestSelectsRecord(t *testing.T) {
	shipped := shippedSelection(t)
	for object, want := range map[schema.GroupResource]bool{
		{Resource: "pods"}: true,
		{Group: "tekton.dev", Resource: "pipelineruns"}:    true,
		{Group: "approval.alaudadevops.io", Resource: "x"}: true,
		{Resource: "configmaps"}:                           false,
		{Group: "extensions", Resource: "pods"}:            false,
	} {
		assert.Equal(t, want, SelectsRecord(shipped, object), object)
		assert.True(t, SelectsRecord(&admissionregistrationv1.MatchResources{}, object), object)
		assert.False(t, SelectsRecord(nil, object), object)
	}
}
