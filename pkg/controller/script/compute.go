package script

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks/script"
)

// Reasons of the condition Ready beside those of the Check duck type.
const (
	reasonApproved = "Approved"
	reasonRejected = "Rejected"
	reasonWaiting  = "NotYet"
)

// maxMessage is how many characters a message may have.
const maxMessage = 4096

func answered(check *approvalv1alpha1.ScriptCheck, answer script.Answer, again time.Duration) finding {
	rule := check.Spec.Request.Rule.Name
	switch answer {
	case script.Approve:
		return finding{duckv1alpha1.CheckApproved, reasonApproved, "The script of rule " + rule + " approves.", again}
	case script.Wait:
		return finding{duckv1alpha1.CheckPending, reasonWaiting, withWords(check, "The script of rule "+rule+" says not yet"), again}
	}
	text := "The script of rule " + rule + " does not approve"
	if check.Status.State == duckv1alpha1.CheckApproved {
		text = "The script of rule " + rule + " no longer approves"
	}
	return finding{duckv1alpha1.CheckRejected, reasonRejected, withWords(check, text), again}
}

// withWords adds what the rule has to say.
func withWords(check *approvalv1alpha1.ScriptCheck, text string) string {
	if check.Spec.Message == "" {
		return text + "."
	}
	return text + ": " + check.Spec.Message
}

func timedOut(check *approvalv1alpha1.ScriptCheck) finding {
	return finding{
		state: duckv1alpha1.CheckCancelled, reason: duckv1alpha1.CheckReasonTimedOut,
		message: "The script did not approve before " + deadline(check).UTC().Format(time.RFC3339) + ": ask again.",
	}
}

// failed says when the script is tried again: after as long as it has been failing.
func failed(check *approvalv1alpha1.ScriptCheck, now time.Time, reason, problem string) finding {
	wait := min(max(lasting(check, now), shortestRetry), longestRetry)
	suffix := "; it is tried again at " + now.Add(wait).Format(time.RFC3339) + "."
	text := []rune("The script cannot be evaluated: " + problem)
	return finding{duckv1alpha1.CheckError, reason, string(text[:min(len(text), maxMessage-len(suffix))]) + suffix, wait}
}

// compute is the whole status that follows from a finding.
func compute(check *approvalv1alpha1.ScriptCheck, found *finding, now time.Time) *approvalv1alpha1.ScriptCheckStatus {
	next := check.Status.DeepCopy()
	next.CheckStatus = duckv1alpha1.CheckStatus{State: found.state, Message: found.message, ObservedGeneration: check.Generation}
	ready := metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: found.reason,
		Message: found.message, ObservedGeneration: check.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	switch found.state {
	case duckv1alpha1.CheckApproved:
		ready.Status = metav1.ConditionTrue
	case duckv1alpha1.CheckPending:
		ready.Status = metav1.ConditionUnknown
		next.WaitingFor = []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForOther, Name: "the script of rule " + check.Spec.Request.Rule.Name}}
	case duckv1alpha1.CheckCancelled:
		next.Reason = found.reason
	}
	apimeta.SetStatusCondition(&next.Conditions, ready)
	return next
}
