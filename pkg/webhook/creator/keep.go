package creator

import (
	"context"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// collectors are the names of garbage collection: the controller manager runs it under an account of its own or not.
var collectors = []string{"system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager"}

// MutateLabelled writes the creator record of a check of any kind, and puts back what marks it.
func (w *Webhook) MutateLabelled(ctx context.Context, r *admit.Review) error {
	if err := w.Mutate(ctx, r); err != nil {
		return err
	}
	if r.Old == nil {
		return nil
	}
	uid, labelled := r.Old.GetLabels()[approvalv1alpha1.LabelRequestUID]
	if !labelled {
		return nil // who may label it is asked by the validating policy
	}
	keepLabel(r.Object, uid)
	record{approvalv1alpha1.AnnotationContext: r.Old.GetAnnotations()[approvalv1alpha1.AnnotationContext]}.write(r.Object)
	if !slices.Contains(collectors, r.Caller.Username) && !sameOwners(r.Object, r.Old) {
		r.Object.SetOwnerReferences(r.Old.GetOwnerReferences())
	}
	return nil
}

func keepLabel(u *unstructured.Unstructured, uid string) {
	labels := u.GetLabels()
	if is, found := labels[approvalv1alpha1.LabelRequestUID]; found && is == uid {
		return
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[approvalv1alpha1.LabelRequestUID] = uid
	u.SetLabels(labels)
}

// MutateOwnership empties owner references and finalizers of requests, checks and answers on create, and puts them back
// on update; finalizers may only go.
func (w *Webhook) MutateOwnership(ctx context.Context, r *admit.Review) error {
	old := r.Old
	if old == nil {
		old = &unstructured.Unstructured{Object: map[string]any{}}
	}
	keeps, err := w.keepsOwners(ctx, r, old)
	if err != nil {
		return err
	}
	if !keeps {
		r.Object.SetOwnerReferences(old.GetOwnerReferences())
	}
	if before := old.GetFinalizers(); !onlyFewer(r.Object.GetFinalizers(), before) {
		r.Object.SetFinalizers(before)
	}
	return nil
}

// keepsOwners tells that the owner references that were sent may stand. The controller owns what it creates, an answer
// gets its owner from its own webhook, a request has none.
func (w *Webhook) keepsOwners(ctx context.Context, r *admit.Review, old *unstructured.Unstructured) (bool, error) {
	switch {
	case sameOwners(r.Object, old):
		return true, nil
	case r.Operation != admissionv1.Create:
		return slices.Contains(collectors, r.Caller.Username), nil
	case r.Resource.Resource != "resourcecheckrequests":
		return true, nil
	default:
		return w.holds(ctx, r, approvalv1alpha1.ResourceChecks, approvalv1alpha1.VerbDecide)
	}
}

// onlyFewer tells that no finalizer is new. Comparing the sizes first bounds the walk by the stored list.
func onlyFewer(now, before []string) bool {
	return len(now) <= len(before) && !slices.ContainsFunc(now, func(f string) bool { return !slices.Contains(before, f) })
}

func sameOwners(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}
