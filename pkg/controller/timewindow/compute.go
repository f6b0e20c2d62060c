package timewindow

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks/timewindow"
)

// Reasons of the condition Ready beside those of the Check duck type.
const (
	reasonWindowOpen   = "WindowOpen"
	reasonBeforeWindow = "BeforeWindow"
)

const (
	// retryBroken is when a schedule that cannot be read is tried again: a newer controller may know the time zone.
	retryBroken = time.Hour
	// lookAgain is when a check that never opens within the horizon is looked at again.
	lookAgain = 24 * time.Hour
)

// compute is the status that the check has now, and when it changes by itself (zero: it does not).
func compute(check *approvalv1alpha1.TimeWindowCheck, now time.Time) (*approvalv1alpha1.TimeWindowCheckStatus, time.Time) {
	next := check.Status.DeepCopy()
	next.ObservedGeneration = check.Generation
	again := advance(&check.Spec, next, now)
	setReady(next, check.Generation, now)
	return next, again
}

// advance moves the state on. A check never opens twice: what was granted ends with its window.
func advance(spec *approvalv1alpha1.TimeWindowCheckSpec, status *approvalv1alpha1.TimeWindowCheckStatus, now time.Time) time.Time {
	switch status.State {
	case duckv1alpha1.CheckCancelled, duckv1alpha1.CheckRejected:
		return time.Time{}
	case duckv1alpha1.CheckApproved:
		return hold(status, now)
	}
	s, err := timewindow.Parse(spec)
	if err != nil {
		again := now.Add(retryBroken)
		set(status, duckv1alpha1.CheckError, approvalv1alpha1.ReasonInvalidSpec,
			"The time window cannot be read: "+err.Error()+"; it is tried again at "+shown(again, time.UTC)+".")
		return again
	}
	return answer(s, status, now)
}

// hold keeps an approval until its window closes.
func hold(status *approvalv1alpha1.TimeWindowCheckStatus, now time.Time) time.Time {
	if status.NotAfter == nil || now.Before(status.NotAfter.Time) {
		return timeOf(status.NotAfter)
	}
	set(status, duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonWindowClosed,
		"The time window closed at "+shown(status.NotAfter.Time, time.UTC)+": ask again for the next one.")
	return time.Time{}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// answer is the first answer, or that to a check which waits.
func answer(s *timewindow.Schedule, status *approvalv1alpha1.TimeWindowCheckStatus, now time.Time) time.Time {
	open, change := s.At(now)
	status.OpensAt, status.NotAfter = nil, nil
	if open {
		set(status, duckv1alpha1.CheckApproved, "", "The time window is open"+until(change, s.Zone())+".")
		status.NotAfter = optional(change)
		return change
	}
	status.OpensAt = optional(change)
	if change.IsZero() {
		set(status, duckv1alpha1.CheckPending, "", "The time window does not open within the next year: change its holidays or weekdays in the rule.")
		return now.Add(lookAgain)
	}
	set(status, duckv1alpha1.CheckPending, "", "The time window opens at "+shown(change, s.Zone())+".")
	return change
}

func until(change time.Time, zone *time.Location) string {
	if change.IsZero() {
		return ""
	}
	return " until " + shown(change, zone)
}

func optional(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC()}
}

// set also says what is waited for, which follows from the state.
func set(status *approvalv1alpha1.TimeWindowCheckStatus, state duckv1alpha1.CheckState, reason, message string) {
	status.State, status.Reason, status.Message, status.WaitingFor = state, reason, message, nil
	if state == duckv1alpha1.CheckPending {
		status.WaitingFor = []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForOther, Name: "its time window"}}
	}
}

func setReady(status *approvalv1alpha1.TimeWindowCheckStatus, generation int64, now time.Time) {
	ready := metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: readyReason(&status.CheckStatus),
		Message: status.Message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	}
	switch status.State {
	case duckv1alpha1.CheckApproved:
		ready.Status = metav1.ConditionTrue
	case duckv1alpha1.CheckPending:
		ready.Status = metav1.ConditionUnknown
	}
	apimeta.SetStatusCondition(&status.Conditions, ready)
}

func readyReason(status *duckv1alpha1.CheckStatus) string {
	switch {
	case status.Reason != "":
		return status.Reason
	case status.State == duckv1alpha1.CheckApproved:
		return reasonWindowOpen
	case status.State == duckv1alpha1.CheckPending:
		return reasonBeforeWindow
	}
	return string(status.State)
}

// shown is a moment for people: on their clock, with its distance from UTC.
func shown(t time.Time, zone *time.Location) string { return t.In(zone).Format(time.RFC3339) }
