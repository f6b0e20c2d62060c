package response

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// Paths at which the steps are served.
const (
	MutatePath   = "/mutate/approvalresponses"
	ValidatePath = "/validate/approvalresponses"
)

// fieldCheckUID lists answers by the check that they answer; the CRD declares it selectable.
const fieldCheckUID = "spec.requestRef.uid"

// Access answers whether a user may do something; an error is a no.
type Access interface {
	Allowed(ctx context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (allowed bool, reason string, err error)
}

// Deps is what the webhook needs.
type Deps struct {
	// Live asks the API server; it must not be a cache.
	Live   client.Reader
	Mapper apimeta.RESTMapper
	Access Access
}

// Webhook admits answers.
type Webhook struct{ Deps }

// New returns a Webhook.
func New(deps Deps) *Webhook { return &Webhook{deps} }

// Register serves both steps.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(MutatePath, &admission.Webhook{Handler: admit.Mutating(w.Mutate)})
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
}

// asserted are the fields that the mutating step sets.
var asserted = [][]string{
	{"metadata", "ownerReferences"}, {"metadata", "finalizers"},
	{"spec", "requestRef"}, {"spec", "responder"}, {"spec", "asOwner"}, {"spec"},
}

// Mutate captures who answers, and puts back what an update lacks.
func (w *Webhook) Mutate(ctx context.Context, r *admit.Review) error {
	if r.Operation == admissionv1.Update {
		restore(r.Object, r.Old, &r.Caller)
		return nil
	}
	_, err := w.complete(ctx, &r.Caller, r.Object, r.Namespace)
	return err
}

// Validate asserts what Mutate set, and refuses answers that would not count.
func (w *Webhook) Validate(ctx context.Context, r *admit.Review) error {
	want := r.Object.DeepCopy()
	if r.Operation == admissionv1.Update {
		restore(want, r.Old, &r.Caller)
		if err := admit.Untouched(r.Object, want, asserted); err != nil {
			return err
		}
		return admit.Unchanged(r.Object, r.Old, "an answer cannot be changed: take it back with an answer that says Revoke")
	}
	a, err := w.complete(ctx, &r.Caller, want, r.Namespace)
	if err != nil {
		return err
	}
	if err := admit.Untouched(r.Object, want, asserted); err != nil {
		return err
	}
	if err := w.counts(ctx, a); err != nil {
		return err
	}
	if a.response.Spec.Responder.Asserted() {
		r.Warn("your answer came without a credential of your own, as with impersonation: it is shown as asserted")
	}
	return nil
}

func restore(u, old *unstructured.Unstructured, caller *admit.Caller) {
	admit.PutBack(u, old, "spec")
	admit.KeepOwnership(u, old, caller)
}

// complete settles who answers, which check, and as what.
func (w *Webhook) complete(ctx context.Context, caller *admit.Caller, u *unstructured.Unstructured, namespace string) (*answer, error) {
	a := &answer{caller: caller, namespace: namespace}
	if err := admit.Decode(u, &a.response); err != nil {
		return nil, err
	}
	if caller.IsAnonymous() {
		return nil, admit.Forbidden("nobody is logged in: log in, and answer as somebody")
	}
	if err := w.findCheck(ctx, a); err != nil {
		return nil, err
	}
	if err := w.settleOwner(ctx, a); err != nil {
		return nil, err
	}
	spec := &a.response.Spec
	responder := caller.Identity(a.named)
	spec.Responder = &responder
	spec.RequestRef.UID = a.meta.GetUID()
	return a, a.writeTo(u)
}

// writeTo puts what was settled into the object. The check owns its answers, so that they go together.
func (a *answer) writeTo(u *unstructured.Unstructured) error {
	u.SetFinalizers(nil)
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: a.gvk.GroupVersion().String(), Kind: a.gvk.Kind, Name: a.meta.GetName(), UID: a.meta.GetUID(),
	}})
	spec := &a.response.Spec
	for field, value := range map[string]any{"requestRef": spec.RequestRef, "responder": spec.Responder} {
		if err := admit.Set(u, value, "spec", field); err != nil {
			return err
		}
	}
	if !spec.AsOwner {
		unstructured.RemoveNestedField(u.Object, "spec", "asOwner")
		return nil
	}
	return admit.Set(u, true, "spec", "asOwner")
}

var approvalRequestKind = approvalv1alpha1.GroupVersion.WithKind("ApprovalRequest")
