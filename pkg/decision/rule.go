package decision

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// RuleRef is a rule as it stands at one moment. The API server keeps UID and generation, so a result that names them
// cannot be carried over to an edited or re-created rule.
type RuleRef struct {
	Name       string
	UID        types.UID
	Generation int64
}

// Rule is a ResourceCheckRule as decisions need it.
type Rule struct {
	RuleRef
	When operation.When
	// NotReady says why the rule cannot ask anybody now; empty if it can.
	NotReady string
}

// FromRule never fails: a condition that cannot be read is one that matches everything.
func FromRule(rule *approvalv1alpha1.ResourceCheckRule) Rule {
	return Rule{
		RuleRef:  RuleRef{Name: rule.Name, UID: rule.UID, Generation: rule.Generation},
		When:     When(rule.Spec.When),
		NotReady: notReady(rule),
	}
}

// Refs are the references of the rules, in the same order, for Input.Refs.
func Refs(rules []Rule) []RuleRef {
	refs := make([]RuleRef, len(rules))
	for i := range rules {
		refs[i] = rules[i].RuleRef
	}
	return refs
}

// notReady believes a condition only if it speaks of the present spec: an older one may have been repaired, and results
// for it do not count anyway.
func notReady(rule *approvalv1alpha1.ResourceCheckRule) string {
	ready := apimeta.FindStatusCondition(rule.Status.Conditions, approvalv1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.ObservedGeneration != rule.Generation {
		return ""
	}
	return ready.Reason + ": " + ready.Message
}

// When compiles a rule's condition. What cannot be read makes it match everything.
func When(selector *approvalv1alpha1.OperationSelector) operation.When {
	classes, http := compile(selector)
	return operation.When{Operations: classes, HTTP: http}
}

// Use compiles what a request is for. What cannot be read makes it cover nothing and ask every rule.
func Use(selector *approvalv1alpha1.OperationSelector) operation.Use {
	classes, http := compile(selector)
	return operation.Use{Operations: classes, HTTP: http, Invalid: http != nil && http.Invalid}
}

func compile(selector *approvalv1alpha1.OperationSelector) ([]operation.Class, *operation.HTTPMatch) {
	if selector == nil {
		return nil, nil
	}
	var classes []operation.Class
	for _, class := range selector.Operations {
		classes = append(classes, operation.Class(class))
	}
	if selector.HTTP == nil {
		return classes, nil
	}
	// The error is for who writes the selector, at admission; here the match is marked invalid.
	http, _ := operation.NewHTTPMatch(selector.HTTP.Methods, selector.HTTP.Paths)
	return classes, &http
}

// AppliesTo tells whether a request for this use must ask the rule: unless they cannot have an operation in common.
func AppliesTo(rule *Rule, use operation.Use) bool { return operation.Overlaps(rule.When, use) }
