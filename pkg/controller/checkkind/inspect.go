package checkkind

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
)

// finding is what an inspection came to. The zero finding is a kind that can be relied on.
type finding struct{ reason, message string }

func (f finding) ready() bool { return f.reason == "" }

func (f finding) recheck() time.Duration {
	if f.ready() {
		return recheckReady
	}
	return recheckNotReady
}

// neededVerbs is what the controller does with checks of every kind.
var neededVerbs = []string{"get", "list", "watch", "create", "delete"}

// neededStatusVerbs is what it does with the status of the kinds that our own controllers answer.
var neededStatusVerbs = []string{"patch", "update"}

// inspect asks in the order in which a fault would be repaired. An error means that a question could not be asked.
func (c *Controller) inspect(ctx context.Context, kind *approvalv1alpha1.CheckKind) (finding, error) {
	if _, err := checks.Compile(kind); err != nil {
		return finding{approvalv1alpha1.ReasonInvalidExpression, err.Error()}, nil
	}
	served, err := c.lookUp(kind)
	if err != nil {
		return finding{}, err
	}
	if found := served.fault(kind); !found.ready() {
		return found, nil
	}
	found, err := c.permitted(ctx, kind, served)
	if err != nil || !found.ready() {
		return found, err
	}
	if ok, why := c.guard.Guarded(); !ok {
		return finding{approvalv1alpha1.ReasonStatusUnguarded,
			"the admission policies that guard the status of checks are not in force (" + why + "); install them as shipped"}, nil
	}
	return finding{}, nil
}

// served is what the API server offers of a kind.
type served struct {
	resource  *metav1.APIResource
	hasStatus bool
}

func (c *Controller) lookUp(kind *approvalv1alpha1.CheckKind) (served, error) {
	list, err := c.discovery.ServerResourcesForGroupVersion(kind.Spec.APIVersion)
	if apierrors.IsNotFound(err) {
		return served{}, nil
	}
	if err != nil {
		return served{}, fmt.Errorf("the API server does not say whether it serves %s: %w", kind.Spec.APIVersion, err)
	}
	var s served
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if r.Kind == kind.Spec.Kind && !strings.Contains(r.Name, "/") {
			s.resource = r
		}
	}
	for i := range list.APIResources {
		s.hasStatus = s.hasStatus || s.resource != nil && list.APIResources[i].Name == s.resource.Name+"/status"
	}
	return s, nil
}

func (s served) fault(kind *approvalv1alpha1.CheckKind) finding {
	name := kind.Spec.Kind + " of " + kind.Spec.APIVersion
	switch {
	case s.resource == nil:
		return finding{approvalv1alpha1.ReasonNotInstalled, "the API server does not serve the kind " + name + "; install its CRD, it is picked up by itself"}
	case !s.resource.Namespaced:
		return finding{approvalv1alpha1.ReasonInvalidSpec, "the kind " + name + " is cluster-scoped, but checks live in the namespace of the object; register a namespaced kind"}
	case !s.hasStatus:
		return finding{approvalv1alpha1.ReasonStatusUnguarded, "the kind " + name + " has no status subresource, so whoever may write the check could answer it; add the subresource to its CRD"}
	}
	return finding{}
}

// permitted asks what the controller may do, and names what it may not.
func (c *Controller) permitted(ctx context.Context, kind *approvalv1alpha1.CheckKind, s served) (finding, error) {
	gv, err := schema.ParseGroupVersion(kind.Spec.APIVersion)
	if err != nil {
		return finding{}, err
	}
	gvr := gv.WithResource(s.resource.Name)
	missing, err := c.missing(ctx, gvr, "", neededVerbs)
	if err != nil {
		return finding{}, err
	}
	if checks.IsBuiltIn(schema.GroupKind{Group: gv.Group, Kind: kind.Spec.Kind}) {
		ofStatus, err := c.missing(ctx, gvr, "status", neededStatusVerbs)
		if err != nil {
			return finding{}, err
		}
		missing = append(missing, ofStatus...)
	}
	if len(missing) == 0 {
		return finding{}, nil
	}
	return finding{approvalv1alpha1.ReasonForbidden, fmt.Sprintf(
		"the controller may not %s; grant it by a ClusterRole with the label approval.alaudadevops.io/aggregate-to-checks=true", strings.Join(missing, ", "))}, nil
}

func (c *Controller) missing(ctx context.Context, gvr schema.GroupVersionResource, subresource string, verbs []string) ([]string, error) {
	var missing []string
	resource := gvr.GroupResource().String()
	if subresource != "" {
		resource = gvr.Resource + "/" + subresource
	}
	for _, verb := range verbs {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Subresource: subresource, Verb: verb,
			},
		}}
		if err := c.client.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("the API server does not say whether the controller may %s %s: %w", verb, resource, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, verb+" "+resource)
		}
	}
	return missing, nil
}

func (c *Controller) nextStatus(kind *approvalv1alpha1.CheckKind, f finding) approvalv1alpha1.CheckKindStatus {
	next := approvalv1alpha1.CheckKindStatus{
		ObservedGeneration: kind.Generation,
		Conditions:         append([]metav1.Condition(nil), kind.Status.Conditions...),
	}
	condition := metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, ObservedGeneration: kind.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
		Status: metav1.ConditionTrue, Reason: approvalv1alpha1.ReasonReady, Message: readyMessage,
	}
	if !f.ready() {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, f.reason, f.message
	}
	apimeta.SetStatusCondition(&next.Conditions, condition)
	return next
}
