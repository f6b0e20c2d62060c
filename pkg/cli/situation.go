package cli

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
)

// Words for what a request has come to.
const (
	stateNew      = "new" // no controller has taken it up
	statePending  = "pending"
	stateGranted  = "granted"
	stateRejected = "rejected"
	stateRevoked  = "revoked"
	stateEnded    = "ended"
)

// situation is what a request has come to, in the words of this program.
type situation struct {
	state   string
	reason  string
	message string
	// until is the grant's end, zero if there is no grant.
	until   time.Time
	waiting []duckv1alpha1.CheckWaiting
}

// code is the exit code of a verb that waits for the grant.
func (s situation) code() int {
	switch s.state {
	case stateGranted:
		return ExitDone
	case stateNew, statePending:
		return ExitPending
	}
	return ExitDenied
}

func (s situation) final() bool { return s.code() != ExitPending }

// line is the situation in one line.
func (s situation) line(now time.Time) string {
	text := s.state
	if s.reason != "" && s.state != stateGranted {
		text += " (" + showName(s.reason) + ")"
	}
	if !s.until.IsZero() {
		text += " until " + momentText(s.until, now)
	}
	if s.message != "" {
		text += ": " + show(s.message)
	}
	return text
}

func situationOf(req *approvalv1alpha1.ResourceCheckRequest, now time.Time) situation {
	if reason, _, ended := decision.Ended(req, now); ended {
		return situation{state: endState(reason), reason: reason, message: endMessage(req)}
	}
	ready := apimeta.FindStatusCondition(req.Status.Conditions, approvalv1alpha1.ConditionReady)
	if ready == nil {
		return situation{state: stateNew, message: "no controller has taken it up yet"}
	}
	s := situation{state: statePending, reason: ready.Reason, message: ready.Message, waiting: waitingOf(req)}
	switch {
	case ready.Status == metav1.ConditionTrue:
		s.state, s.until, s.waiting = stateGranted, validUntil(req), nil
	case ready.Status == metav1.ConditionFalse && ready.Reason != approvalv1alpha1.ReasonError:
		s.state = endState(ready.Reason)
	}
	return s
}

func endState(reason string) string {
	switch reason {
	case approvalv1alpha1.ReasonChecksRejected:
		return stateRejected
	case approvalv1alpha1.ReasonRevoked:
		return stateRevoked
	}
	return stateEnded
}

func endMessage(req *approvalv1alpha1.ResourceCheckRequest) string {
	switch {
	case req.Status.Ended != nil:
		return req.Status.Ended.Message
	case req.Spec.Revoked != nil && req.Spec.Revoked.By != "":
		return "revoked by " + req.Spec.Revoked.By + ", who says: " + words(req.Spec.Revoked.Reason)
	}
	return ""
}

func validUntil(req *approvalv1alpha1.ResourceCheckRequest) time.Time {
	if req.Status.Validity == nil {
		return time.Time{}
	}
	return req.Status.Validity.NotAfter.Time
}

// waitingOf joins what the pending checks wait for.
func waitingOf(req *approvalv1alpha1.ResourceCheckRequest) []duckv1alpha1.CheckWaiting {
	var waiting []duckv1alpha1.CheckWaiting
	for _, result := range req.Status.Results {
		if result.State != duckv1alpha1.CheckApproved {
			waiting = append(waiting, result.WaitingFor...)
		}
	}
	return waiting
}
