package policies

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
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
		"no rule at all": {func(s *admissionregistrationv1.MatchResources) { s.ResourceRules = nil }, true},
		"subresources too": {func(s *admissionregistrationv1.MatchResources) {
			pods(s).Resources = append(pods(s).Resources, "pods/*")
		}, true},
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
		{Resource: "pods"}:                                             true,
		{Resource: "replicationcontrollers"}:                           true,
		{Group: "appstudio.redhat.com", Resource: "releasestrategies"}: true,
		{Group: "tekton.dev", Resource: "pipelineruns"}:                true,
		{Group: "approval.alaudadevops.io", Resource: "x"}:             true,
		{Resource: "configmaps"}:                                       false,
		{Group: "extensions", Resource: "pods"}:                        false,
	} {
		assert.Equal(t, want, SelectsRecord(shipped, object), object)
		assert.True(t, SelectsRecord(&admissionregistrationv1.MatchResources{}, object), object)
		assert.False(t, SelectsRecord(nil, object), object)
	}
}

// twoWebhooks are copies of the shipped webhooks of the creator record.
func twoWebhooks(t *testing.T) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	mutating, ok := webhooks()[Key{KindMutatingWebhook, CreatorRecord}].(*admissionregistrationv1.MutatingWebhookConfiguration)
	require.True(t, ok)
	validating, ok := webhooks()[Key{KindValidatingWebhook, CreatorRecord}].(*admissionregistrationv1.ValidatingWebhookConfiguration)
	require.True(t, ok)
	return mutating.DeepCopy(), validating.DeepCopy()
}

func TestAcceptsWebhooksThatSelectMore(t *testing.T) {
	everything := []admissionregistrationv1.RuleWithOperations{rule(admissionregistrationv1.OperationAll, "*", "*/*").RuleWithOperations}
	type rules = []admissionregistrationv1.RuleWithOperations
	tests := map[string]struct {
		objects, workloads func(rules) rules
		want               bool
	}{
		"as shipped":            {want: true},
		"everything":            {workloads: func(rules) rules { return everything }, want: true},
		"one kind more":         {workloads: func(r rules) rules { return append(r, rule("CREATE", "", "configmaps").RuleWithOperations) }, want: true},
		"one kind less":         {workloads: func(r rules) rules { return r[1:] }},
		"nothing":               {workloads: func(rules) rules { return nil }},
		"more objects":          {objects: func(rules) rules { return everything }},
		"fewer objects":         {objects: func(r rules) rules { return r[1:] }},
		"objects as workloads":  {objects: func(rules) rules { return nil }, workloads: func(rules) rules { return everything }},
		"one version only":      {workloads: func(r rules) rules { r[0].APIVersions = []string{"v1"}; return r }},
		"cluster-scoped only":   {workloads: func(r rules) rules { r[0].Scope = ptr.To(admissionregistrationv1.ClusterScope); return r }},
		"updates of pods only":  {workloads: func(r rules) rules { r[0].Operations = r[1].Operations; return r }},
		"workloads in disorder": {workloads: func(r rules) rules { slices.Reverse(r); return r }, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			mutating, validating := twoWebhooks(t)
			for i, edit := range []func(rules) rules{tc.objects, tc.workloads} {
				if edit != nil {
					mutating.Webhooks[i].Rules, validating.Webhooks[i].Rules = edit(mutating.Webhooks[i].Rules), edit(validating.Webhooks[i].Rules)
				}
			}
			assert.Equal(t, tc.want, Accepts(webhooks()[Key{KindMutatingWebhook, CreatorRecord}], mutating), "mutating")
			assert.Equal(t, tc.want, Accepts(webhooks()[Key{KindValidatingWebhook, CreatorRecord}], validating), "validating")
		})
	}
}

func TestAcceptsNoOtherChangeOfWiderWebhooks(t *testing.T) {
	shipped := webhooks()[Key{KindMutatingWebhook, CreatorRecord}]
	wide, _ := twoWebhooks(t)
	wide.Webhooks[1].Rules = []admissionregistrationv1.RuleWithOperations{rule("*", "*", "*/*").RuleWithOperations}
	require.True(t, Accepts(shipped, wide))
	for name, edit := range map[string]func(*admissionregistrationv1.MutatingWebhook){
		"ignored when it fails": func(w *admissionregistrationv1.MutatingWebhook) { *w.FailurePolicy = admissionregistrationv1.Ignore },
		"without a condition":   func(w *admissionregistrationv1.MutatingWebhook) { w.MatchConditions = nil },
		"another condition":     func(w *admissionregistrationv1.MutatingWebhook) { w.MatchConditions[0].Expression = "false" },
		"not for some namespaces": func(w *admissionregistrationv1.MutatingWebhook) {
			w.NamespaceSelector.MatchExpressions[0].Values[0] = "theirs"
		},
		"another server": func(w *admissionregistrationv1.MutatingWebhook) { w.ClientConfig.Service.Name = "theirs" },
		"another name":   func(w *admissionregistrationv1.MutatingWebhook) { w.Name = "theirs.example.com" },
	} {
		t.Run(name, func(t *testing.T) {
			altered := wide.DeepCopy()
			edit(&altered.Webhooks[1])
			assert.False(t, Accepts(shipped, altered))
		})
	}
	renamed := wide.DeepCopy()
	renamed.Name = "theirs"
	assert.Nil(t, Selection(renamed))
}

// What stands in for policies must select what they do, ask about it once, and decide by the same words.
func TestPoliciesAndWebhooksSelectTheSame(t *testing.T) {
	shipped := shippedSelection(t)
	asserted := Selection(Current()[Key{KindValidatingBinding, CreatorRecord}])
	assert.Equal(t, shipped, asserted)
	mutating, validating := twoWebhooks(t)
	for kind, object := range map[string]metav1.Object{KindMutatingWebhook: mutating, KindValidatingWebhook: validating} {
		selected := Selection(object)
		assert.True(t, Covers(selected, shipped), kind)
		assert.True(t, Covers(shipped, &admissionregistrationv1.MatchResources{ResourceRules: selected.ResourceRules}), kind)
	}
	words := Current()[Key{KindMutatingPolicy, CreatorRecord}].(*admissionregistrationv1.MutatingAdmissionPolicy).Spec.MatchConditions
	require.Len(t, words, 1)
	for i := range 2 {
		ofMutating, ofValidating := mutating.Webhooks[i], validating.Webhooks[i]
		assert.Equal(t, ofMutating.Name, ofValidating.Name)
		assert.Equal(t, ofMutating.Rules, ofValidating.Rules, ofMutating.Name)
		assert.Equal(t, ofMutating.MatchConditions, ofValidating.MatchConditions, ofMutating.Name)
		assert.Equal(t, ofMutating.NamespaceSelector, ofValidating.NamespaceSelector, ofMutating.Name)
		assert.Equal(t, ofMutating.ObjectSelector, ofValidating.ObjectSelector, ofMutating.Name)
		assert.Equal(t, words[0], ofMutating.MatchConditions[0], ofMutating.Name)
	}
}

// The webhook for workloads may be asked about everything, so its conditions name what is the other's, and what is never
// kept.
func TestConditionsOfTheWebhookForWorkloadsLeaveOutWhatTheySay(t *testing.T) {
	mutating, _ := twoWebhooks(t)
	conditions := map[string]string{}
	for _, condition := range mutating.Webhooks[1].MatchConditions {
		conditions[condition.Name] = condition.Expression
	}
	objects := &admissionregistrationv1.MatchResources{ResourceRules: named(mutating.Webhooks[0].Rules)}
	workloads := &admissionregistrationv1.MatchResources{ResourceRules: named(mutating.Webhooks[1].Rules)}
	kept := &admissionregistrationv1.MatchResources{ExcludeResourceRules: neverKept()}
	for _, object := range []schema.GroupResource{
		{Resource: "pods"}, {Resource: "replicationcontrollers"}, {Resource: "configmaps"}, {Resource: "endpoints"}, {Resource: "events"}, {Resource: "bindings"},
		{Group: "events.k8s.io", Resource: "events"}, {Group: "coordination.k8s.io", Resource: "leases"}, {Group: "discovery.k8s.io", Resource: "endpointslices"},
		{Group: "authentication.k8s.io", Resource: "tokenreviews"}, {Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, {Group: "apps", Resource: "deployments"}, {Group: "batch", Resource: "jobs"},
		{Group: "tekton.dev", Resource: "pipelineruns"}, {Group: "tekton.dev", Resource: "taskruns"}, {Group: "tekton.dev", Resource: "customruns"}, {Group: "tekton.dev", Resource: "pipelines"},
		{Group: "appstudio.redhat.com", Resource: "releases"}, {Group: "appstudio.redhat.com", Resource: "releaseplans"}, {Group: "appstudio.redhat.com", Resource: "releaseplanadmissions"},
		{Group: "appstudio.redhat.com", Resource: "releasestrategies"}, {Group: "appstudio.redhat.com", Resource: "releaseserviceconfigs"}, {Group: "appstudio.redhat.com", Resource: "snapshots"},
		{Group: "approval.alaudadevops.io", Resource: "any"}, {Group: "connectors.alaudadevops.io", Resource: "any"},
	} {
		assert.Equal(t, SelectsRecord(kept, object), holds(t, conditions["is-kept"], object, "alice"), object)
		assert.Equal(t, SelectsRecord(objects, object), !holds(t, conditions["is-not-for-the-webhook-for-objects"], object, "alice"), object)
		assert.True(t, holds(t, conditions["is-not-written-by-the-api-server-to-start"], object, "alice"), object)
		assert.Equal(t, SelectsRecord(workloads, object), holds(t, conditions["is-not-written-by-the-api-server-to-start"], object, "system:apiserver"), object)
	}
}

// Where webhooks leave Countersign's own namespace out, a policy refuses records: no more, and no less.
func TestRecordsAreRefusedWhereTheWebhookForWorkloadsIsNotAsked(t *testing.T) {
	mutating, _ := twoWebhooks(t)
	workloads := mutating.Webhooks[1]
	exempt := webhooks()[Key{KindValidatingPolicy, CreatorRecord + "-exempt"}].(*admissionregistrationv1.ValidatingAdmissionPolicy)
	left := workloads.NamespaceSelector.MatchExpressions[0]
	assert.Equal(t, map[string]string{left.Key: left.Values[0]}, exempt.Spec.MatchConstraints.NamespaceSelector.MatchLabels)
	require.Len(t, exempt.Spec.MatchConditions, 1)
	assert.Contains(t, workloads.MatchConditions, exempt.Spec.MatchConditions[0])
}

// A kind that is added to what is shipped must be added to the selection.
func TestEveryShippedKindIsSelected(t *testing.T) {
	shipped := shippedSelection(t)
	for _, pattern := range []string{"../crd/bases/*.yaml", "../crd/release/*_*.yaml"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			var definition apiextensionsv1.CustomResourceDefinition
			require.NoError(t, yaml.Unmarshal(content, &definition))
			kind := schema.GroupResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural}
			assert.True(t, SelectsRecord(shipped, kind), kind)
		}
	}
}

// holds evaluates a condition about a request.
func holds(t *testing.T, expression string, object schema.GroupResource, user string) bool {
	t.Helper()
	environment, err := cel.NewEnv(cel.Variable("request", cel.DynType), cel.OptionalTypes())
	require.NoError(t, err)
	ast, issues := environment.Compile(expression)
	require.NoError(t, issues.Err())
	program, err := environment.Program(ast)
	require.NoError(t, err)
	value, _, err := program.Eval(map[string]any{"request": map[string]any{
		"resource": map[string]any{"group": object.Group, "resource": object.Resource}, "userInfo": map[string]any{"username": user},
	}})
	require.NoError(t, err)
	return value.Value().(bool)
}
