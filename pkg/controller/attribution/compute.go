package attribution

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

const (
	// maxMessage is how many characters a message may have.
	maxMessage = 4096
	// maxUsername is how many characters of a user name the schema takes. A longer one stays in the message only, because a
	// shortened name might be another's.
	maxUsername = 4096
)

// compute is the whole status that follows from a finding.
func compute(check *approvalv1alpha1.AttributionCheck, found *finding, now time.Time) *approvalv1alpha1.AttributionCheckStatus {
	message := plaintext.Line(found.message, maxMessage)
	next := &approvalv1alpha1.AttributionCheckStatus{
		CheckStatus: duckv1alpha1.CheckStatus{State: found.state, Reason: found.reason, Message: message, ObservedGeneration: check.Generation},
		Source:      found.source, Standing: reference(found.standing), Verified: found.verifiedAt != nil, VerifiedAt: found.verifiedAt,
		Conditions: check.DeepCopy().Status.Conditions,
	}
	if username := found.author.Username; username != "" && len([]rune(username)) <= maxUsername {
		next.Author = &found.author
	}
	ready := metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: found.reason,
		Message: message, ObservedGeneration: check.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	switch found.state {
	case duckv1alpha1.CheckApproved:
		ready.Status = metav1.ConditionTrue
	case duckv1alpha1.CheckPending:
		ready.Status = metav1.ConditionUnknown
		next.WaitingFor = []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForOther, Name: found.waitingFor}}
	}
	apimeta.SetStatusCondition(&next.Conditions, ready)
	return next
}

func reference(s *attribution.Standing) *approvalv1alpha1.StandingReference {
	if s == nil {
		return nil
	}
	ref := &approvalv1alpha1.StandingReference{Kind: s.Kind, Name: s.Name, UID: s.UID}
	if !s.AcceptedAt.IsZero() {
		ref.AcceptedAt = &metav1.Time{Time: s.AcceptedAt}
	}
	if s.ExpiresAt != nil {
		ref.ExpiresAt = &metav1.Time{Time: *s.ExpiresAt}
	}
	return ref
}
