package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// revokedSkew is how far the recorded time of a revocation may lie from the moment of its assertion.
const revokedSkew = time.Minute

// putBack lets a full update by a tool that does not know every field succeed, and says who revokes, and when.
func (w *Webhook) putBack(r *admit.Review) error {
	_, hadRevoked, _ := unstructured.NestedFieldNoCopy(r.Old.Object, "spec", "revoked")
	restore(r.Object, r.Old, &r.Caller)
	if _, revokes, _ := unstructured.NestedMap(r.Object.Object, "spec", "revoked"); hadRevoked || !revokes {
		return nil
	}
	return first(
		admit.Set(r.Object, r.Caller.Username, "spec", "revoked", "by"),
		admit.Set(r.Object, metav1.NewTime(w.Clock.Now().UTC().Truncate(time.Second)), "spec", "revoked", "at"),
	)
}

func restore(u, old *unstructured.Unstructured, caller *admit.Caller) {
	admit.PutBack(u, old, "spec")
	admit.KeepLabels(u, old, serverLabels...)
	admit.KeepOwnership(u, old, caller)
}

// validateUpdate refuses every change but a revocation by somebody who may revoke.
func (w *Webhook) validateUpdate(ctx context.Context, r *admit.Review) error {
	want := r.Object.DeepCopy()
	restore(want, r.Old, &r.Caller)
	if err := admit.Untouched(r.Object, want, asserted); err != nil {
		return err
	}
	was, hadRevoked := without(r.Old)
	is, hasRevoked := without(r.Object)
	if !equality.Semantic.DeepEqual(was, is) {
		return admit.Invalid("spec", "a request cannot be changed: revoke this one and make another")
	}
	if hadRevoked {
		before, _, _ := unstructured.NestedFieldNoCopy(r.Old.Object, "spec", "revoked")
		after, _, _ := unstructured.NestedFieldNoCopy(r.Object.Object, "spec", "revoked")
		if !equality.Semantic.DeepEqual(before, after) {
			return admit.Invalid("spec.revoked", "the request is revoked already, and that cannot be changed")
		}
		return nil
	}
	if !hasRevoked {
		return nil
	}
	return w.validateRevocation(ctx, r)
}

// without is the spec without the revocation, and whether there is one.
func without(u *unstructured.Unstructured) (spec map[string]any, revoked bool) {
	spec, _, _ = unstructured.NestedMap(u.Object, "spec")
	_, revoked = spec["revoked"]
	delete(spec, "revoked")
	return spec, revoked
}

func (w *Webhook) validateRevocation(ctx context.Context, r *admit.Review) error {
	var req approvalv1alpha1.ResourceCheckRequest
	if err := admit.Decode(r.Object, &req); err != nil {
		return err
	}
	revoked := req.Spec.Revoked
	if revoked.By != r.Caller.Username || revoked.At == nil || w.Clock.Now().Sub(revoked.At.Time).Abs() > revokedSkew {
		return admit.Invalid("spec.revoked", "by and at are set by the server, and another admission webhook changed them: leave them alone")
	}
	return w.mayRevoke(ctx, &r.Caller, &req.Spec)
}

// mayRevoke lets the subject, the requester and the creator of the run revoke.
func (w *Webhook) mayRevoke(ctx context.Context, caller *admit.Caller, spec *approvalv1alpha1.ResourceCheckRequestSpec) error {
	if caller.Is(spec.Context.Subject) || isRequester(caller, spec.RequestedBy) {
		return nil
	}
	created, err := w.createdRun(ctx, caller, spec.Context.Resource)
	if err != nil {
		return err
	}
	if !created {
		return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
			"only the subject, who asked, and who started the run may revoke a request: an owner revokes the approval with an ApprovalResponse that says %s",
			approvalv1alpha1.DecisionRevoke))
	}
	return nil
}

func isRequester(caller *admit.Caller, by *approvalv1alpha1.Identity) bool {
	return by != nil && by.Username == caller.Username && (by.UID == "" || caller.UID == "" || by.UID == caller.UID)
}

func (w *Webhook) createdRun(ctx context.Context, caller *admit.Caller, ref *approvalv1alpha1.ObjectReference) (bool, error) {
	if ref == nil {
		return false, nil
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	run, err := w.Origins.Get(ctx, kind, ref.Namespace, ref.Name)
	if errors.Is(err, origin.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, admit.Unavailable("it cannot be told now who started the run: try again in a moment", err)
	}
	return run.UID == ref.UID && w.started(caller, run), nil
}
