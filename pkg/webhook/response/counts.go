package response

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// counts refuses an answer that the fold would not count.
func (w *Webhook) counts(ctx context.Context, a *answer) error {
	if grantFor := a.response.Spec.GrantFor; grantFor != nil && grantFor.Duration <= 0 {
		return admit.Invalid("spec.grantFor", "it must be longer than nothing: leave it out, or reject")
	}
	earlier, err := w.earlier(ctx, a)
	if err != nil {
		return err
	}
	if a.response.Spec.Decision == approvalv1alpha1.DecisionRevoke {
		return a.revokes(earlier)
	}
	if err := a.open(); err != nil {
		return err
	}
	askers, err := w.askers(ctx, a)
	if err != nil {
		return err
	}
	if err := quorum.Eligible(&a.check.Spec, askers, *a.response.Spec.Responder); err != nil {
		return admit.Because(approvalv1alpha1.ReasonNotPermitted, err.Error())
	}
	if earlier != nil {
		return admit.Invalid("spec.decision", fmt.Sprintf("you have answered already (%s, in %s), and the first answer counts: to take an approval back, answer Revoke",
			earlier.Spec.Decision, earlier.Name))
	}
	return nil
}

// open refuses answers to what is decided.
func (a *answer) open() error {
	switch state := a.check.Status.State; state {
	case duckv1alpha1.CheckApproved, duckv1alpha1.CheckRejected, duckv1alpha1.CheckCancelled:
		return admit.Invalid("spec.requestRef", fmt.Sprintf("it is %s already (%s): there is nothing left to answer",
			state, plaintext.Line(a.check.Status.Message, 2*maxShown)))
	}
	return nil
}

// revokes lets owners take any approval back, and people their own.
func (a *answer) revokes(earlier *approvalv1alpha1.ApprovalResponse) error {
	if a.check != nil {
		if state := a.check.Status.State; state == duckv1alpha1.CheckRejected || state == duckv1alpha1.CheckCancelled {
			return admit.Invalid("spec.requestRef", fmt.Sprintf("it is %s already: there is nothing to revoke", state))
		}
	}
	own := earlier != nil && earlier.Spec.Decision == approvalv1alpha1.DecisionApprove
	if a.response.Spec.AsOwner || own {
		return nil
	}
	return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
		"you have not approved this, and lack the verb %q on resourcecheckrules in namespace %s: ask an owner to revoke it",
		approvalv1alpha1.VerbRevoke, a.namespace))
}

// earlier is the caller's own answer to this check, nil if he has given none; the earliest if there are several.
func (w *Webhook) earlier(ctx context.Context, a *answer) (*approvalv1alpha1.ApprovalResponse, error) {
	var list approvalv1alpha1.ApprovalResponseList
	err := w.Live.List(ctx, &list, client.InNamespace(a.namespace), client.MatchingFields{fieldCheckUID: string(a.meta.GetUID())})
	if err != nil {
		return nil, admit.Unavailable("it cannot be told now who has answered already: try again in a moment", err)
	}
	var found *approvalv1alpha1.ApprovalResponse
	for i := range list.Items {
		r := &list.Items[i]
		mine := r.Spec.Responder != nil && r.Spec.Responder.Username == a.caller.Username
		if mine && r.Spec.Decision != approvalv1alpha1.DecisionRevoke && (found == nil || before(r, found)) {
			found = r
		}
	}
	return found, nil
}

func before(a, b *approvalv1alpha1.ApprovalResponse) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// askers are those who asked for the same beside the requester. Where the request is gone, nobody waits any more.
func (w *Webhook) askers(ctx context.Context, a *answer) ([]string, error) {
	question := a.check.Spec.Request
	if question == nil {
		return nil, admit.Invalid("spec.requestRef", "the check does not say who asks: only checks that Countersign made can be answered")
	}
	var request approvalv1alpha1.ResourceCheckRequest
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: question.Ref.Namespace, Name: question.Ref.Name}, &request)
	if apierrors.IsNotFound(err) || err == nil && request.UID != question.Ref.UID {
		return nil, admit.Invalid("spec.requestRef", "the request is gone: nobody waits for an answer any more")
	}
	if err != nil {
		return nil, admit.Unavailable("it cannot be told now who asks: try again in a moment", err)
	}
	if request.Status.Ended != nil {
		return nil, admit.Invalid("spec.requestRef", fmt.Sprintf("the request has ended (%s): nobody waits for an answer any more", request.Status.Ended.Reason))
	}
	return request.Status.Askers, nil
}
