package policies

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The webhooks that keep the creator record where no policies do. Only the rules of the second may be widened: its
// conditions leave out what the first is asked about, and what is never kept.
const (
	objectsWebhook   = "objects.creators.authority.alaudadevops.io"
	workloadsWebhook = "workloads.creators.authority.alaudadevops.io"
)

// webhook is what both kinds of webhooks have.
type webhook struct {
	name  string
	rules []admissionregistrationv1.RuleWithOperations
}

// webhooksOf are those of a configuration that stands in for policies of the creator record.
func webhooksOf(object metav1.Object) (all []webhook) {
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			all = append(all, webhook{o.Webhooks[i].Name, o.Webhooks[i].Rules})
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			all = append(all, webhook{o.Webhooks[i].Name, o.Webhooks[i].Rules})
		}
	}
	if len(all) == 0 || object.GetName() != CreatorRecord {
		return nil
	}
	return all
}

// selectedBy is what some webhook selects.
func selectedBy(all []webhook) *admissionregistrationv1.MatchResources {
	selected := &admissionregistrationv1.MatchResources{ExcludeResourceRules: neverKept()}
	for _, webhook := range all {
		if webhook.name == objectsWebhook || webhook.name == workloadsWebhook {
			selected.ResourceRules = append(selected.ResourceRules, named(webhook.rules)...)
		}
	}
	return selected
}

// ofWorkloads is what the second webhook selects; nil if there is none.
func ofWorkloads(object metav1.Object) *admissionregistrationv1.MatchResources {
	for _, webhook := range webhooksOf(object) {
		if webhook.name == workloadsWebhook {
			return &admissionregistrationv1.MatchResources{ResourceRules: named(webhook.rules)}
		}
	}
	return nil
}

// named turns rules of webhooks into those of bindings. A webhook without rules selects nothing, a binding without any
// selects everything; so nothing is said by a rule that is empty.
func named(rules []admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.NamedRuleWithOperations {
	if len(rules) == 0 {
		return make([]admissionregistrationv1.NamedRuleWithOperations, 1)
	}
	result := make([]admissionregistrationv1.NamedRuleWithOperations, len(rules))
	for i := range rules {
		result[i].RuleWithOperations = rules[i]
	}
	return result
}

// withWorkloads is a copy of the configuration whose second webhook selects what is given; nil if there is none.
func withWorkloads(object metav1.Object, selection *admissionregistrationv1.MatchResources) metav1.Object {
	rules := make([]admissionregistrationv1.RuleWithOperations, len(selection.ResourceRules))
	for i := range rules {
		rules[i] = selection.ResourceRules[i].RuleWithOperations
	}
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		o = o.DeepCopy()
		for i := range o.Webhooks {
			if o.Webhooks[i].Name == workloadsWebhook {
				o.Webhooks[i].Rules = rules
			}
		}
		return o
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		o = o.DeepCopy()
		for i := range o.Webhooks {
			if o.Webhooks[i].Name == workloadsWebhook {
				o.Webhooks[i].Rules = rules
			}
		}
		return o
	default:
		return nil
	}
}

// neverKept is what the conditions of the second webhook leave out of every kind's objects.
func neverKept() []admissionregistrationv1.NamedRuleWithOperations {
	const all = admissionregistrationv1.OperationAll
	return []admissionregistrationv1.NamedRuleWithOperations{
		rule(all, "authentication.k8s.io", "*/*"), rule(all, "authorization.k8s.io", "*/*"),
		rule(all, "", "bindings"), rule(all, "", "endpoints"), rule(all, "", "events"),
		rule(all, "coordination.k8s.io", "leases"), rule(all, "discovery.k8s.io", "endpointslices"), rule(all, "events.k8s.io", "events"),
	}
}
