package policies

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Accepts says whether a live object does what the shipped one does: it is equal, or it selects at least the same where
// a selection may be widened: a binding of the creator record, or the webhook that stands in for it.
func Accepts(shipped, live metav1.Object) bool {
	if Equal(shipped, live) {
		return true
	}
	want, have := widenable(shipped), widenable(live)
	return want != nil && have != nil && Equal(shipped, reselected(live, want)) && Covers(have, want)
}

// Selection is what a binding of the creator record selects, or what the webhooks do that stand in for it; nil for every
// other object. Objects that webhooks leave alone for their namespace are selected all the same.
func Selection(object metav1.Object) *admissionregistrationv1.MatchResources {
	if all := webhooksOf(object); all != nil {
		return selectedBy(all)
	}
	return widenable(object)
}

// widenable is the part of a selection that may be widened; nil if there is none.
func widenable(object metav1.Object) *admissionregistrationv1.MatchResources {
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return selection(o.Spec.PolicyName, o.Spec.MatchResources)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return selection(o.Spec.PolicyName, o.Spec.MatchResources)
	default:
		return ofWorkloads(object)
	}
}

func selection(policy string, selected *admissionregistrationv1.MatchResources) *admissionregistrationv1.MatchResources {
	switch {
	case policy != CreatorRecord:
		return nil
	case selected == nil:
		return &admissionregistrationv1.MatchResources{}
	default:
		return selected
	}
}

// reselected is a copy of the object with another selection where it may be widened.
func reselected(object metav1.Object, selection *admissionregistrationv1.MatchResources) metav1.Object {
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		o = o.DeepCopy()
		o.Spec.MatchResources = selection
		return o
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		o = o.DeepCopy()
		o.Spec.MatchResources = selection
		return o
	default:
		return withWorkloads(object, selection)
	}
}

// Covers says whether a selection has every object that another one has. It is sure where it says yes: each rule of the
// other must lie within a single one here, and apart from everything that is excluded here. Selections by label cover
// nothing, because tenants set labels.
func Covers(selection, other *admissionregistrationv1.MatchResources) bool {
	if !everyObject(selection) {
		return false
	}
	return !slices.ContainsFunc(rules(other), func(named admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(atoms(&named), func(a atom) bool {
			return !a.within(rules(selection)) || a.meets(selection.ExcludeResourceRules)
		})
	})
}

// rules are those of a selection. One without any selects everything.
func rules(selection *admissionregistrationv1.MatchResources) []admissionregistrationv1.NamedRuleWithOperations {
	if len(selection.ResourceRules) > 0 {
		return selection.ResourceRules
	}
	return []admissionregistrationv1.NamedRuleWithOperations{rule(admissionregistrationv1.OperationAll, every, "*/*")}
}

// SelectsRecord says whether a selection has an object's creation and all its updates, in every version.
func SelectsRecord(selection *admissionregistrationv1.MatchResources, object schema.GroupResource) bool {
	return selection != nil && Covers(selection, &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
			rule(admissionregistrationv1.Create, object.Group, object.Resource),
			rule(admissionregistrationv1.Update, object.Group, object.Resource+"/*"),
		},
	})
}

func rule(operation admissionregistrationv1.OperationType, group, resource string) admissionregistrationv1.NamedRuleWithOperations {
	var named admissionregistrationv1.NamedRuleWithOperations
	named.Operations = []admissionregistrationv1.OperationType{operation}
	named.APIGroups, named.APIVersions, named.Resources = []string{group}, []string{every}, []string{resource}
	return named
}

// everyObject tells that no object is left out for its labels, its namespace's, or the version that it is written in.
func everyObject(selection *admissionregistrationv1.MatchResources) bool {
	return selectsAll(selection.NamespaceSelector) && selectsAll(selection.ObjectSelector) &&
		(selection.MatchPolicy == nil || *selection.MatchPolicy == admissionregistrationv1.Equivalent)
}

func selectsAll(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

const every = "*"

// atom is the least part of a rule: one of each.
type atom struct {
	operation, group, version, resource, subresource string
	scope                                            admissionregistrationv1.ScopeType
}

// atoms takes a rule apart. Names are no part of it: a rule with names is taken for one without, so only for a rule whose
// objects are to be covered this errs, and on the safe side.
func atoms(named *admissionregistrationv1.NamedRuleWithOperations) (all []atom) {
	for _, operation := range named.Operations {
		for _, group := range named.APIGroups {
			for _, version := range named.APIVersions {
				for _, resource := range named.Resources {
					name, sub, _ := strings.Cut(resource, "/")
					all = append(all, atom{string(operation), group, version, name, sub, scope(named)})
				}
			}
		}
	}
	return all
}

func scope(named *admissionregistrationv1.NamedRuleWithOperations) admissionregistrationv1.ScopeType {
	if named.Scope == nil {
		return admissionregistrationv1.AllScopes
	}
	return *named.Scope
}

// within tells that a single rule has all of the atom.
func (a atom) within(rules []admissionregistrationv1.NamedRuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(named admissionregistrationv1.NamedRuleWithOperations) bool {
		return len(named.ResourceNames) == 0 && slices.ContainsFunc(atoms(&named), func(b atom) bool {
			return a.compare(b, func(mine, theirs string) bool { return theirs == every || theirs == mine })
		})
	})
}

// meets tells that some rule has something of the atom.
func (a atom) meets(rules []admissionregistrationv1.NamedRuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(named admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(atoms(&named), func(b atom) bool {
			return a.compare(b, func(mine, theirs string) bool { return theirs == every || mine == every || theirs == mine })
		})
	})
}

// compare compares part by part.
func (a atom) compare(b atom, part func(mine, theirs string) bool) bool {
	return part(a.operation, b.operation) && part(a.group, b.group) && part(a.version, b.version) &&
		part(a.resource, b.resource) && part(a.subresource, b.subresource) && part(string(a.scope), string(b.scope))
}
