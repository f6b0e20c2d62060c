package approvalrequest

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// Reasons of the condition Ready beside those of the Check duck type.
const (
	reasonApproved  = "Approved"
	reasonRejected  = "Rejected"
	reasonPending   = "Pending"
	reasonCancelled = "Cancelled"
)

// compute is the whole status that follows from an outcome.
func compute(check *approvalv1alpha1.ApprovalRequest, in *quorum.Input, out *quorum.Outcome) *approvalv1alpha1.ApprovalRequestStatus {
	next := check.Status.DeepCopy()
	next.CheckStatus = duckv1alpha1.CheckStatus{
		State: out.State, Reason: out.Reason, Message: out.Message, ObservedGeneration: check.Generation,
		DecidedBy: out.DecidedBy, WaitingFor: out.WaitingFor, GrantFor: out.GrantFor,
	}
	next.Policies, next.Revocation = out.Policies, out.Revocation
	next.StartedAt = &metav1.Time{Time: in.StartedAt}
	ready := metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: reason(out),
		Message: out.Message, ObservedGeneration: check.Generation, LastTransitionTime: metav1.NewTime(in.Now),
	}
	switch out.State {
	case duckv1alpha1.CheckApproved:
		ready.Status = metav1.ConditionTrue
	case duckv1alpha1.CheckRejected, duckv1alpha1.CheckCancelled:
		ready.Status = metav1.ConditionFalse
	}
	apimeta.SetStatusCondition(&next.Conditions, ready)
	return next
}

func reason(out *quorum.Outcome) string {
	if out.Reason != "" {
		return out.Reason
	}
	switch out.State {
	case duckv1alpha1.CheckApproved:
		return reasonApproved
	case duckv1alpha1.CheckRejected:
		return reasonRejected
	case duckv1alpha1.CheckCancelled:
		return reasonCancelled
	}
	return reasonPending
}
