package attribution

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// action is what the controller did when it tells of something.
const action = "Attribute"

// maxNote is how many bytes an event's note may have.
const maxNote = 1024

// tell reports a transition: to another state, or to waiting for another reason.
func (c *Controller) tell(check *approvalv1alpha1.AttributionCheck, next *approvalv1alpha1.AttributionCheckStatus) {
	if check.Status.State == next.State && check.Status.Reason == next.Reason {
		return
	}
	severity := corev1.EventTypeWarning
	if next.State == duckv1alpha1.CheckApproved {
		severity = corev1.EventTypeNormal
	}
	c.Recorder.Eventf(check, nil, severity, next.Reason, action, "%s", note(next.Message))
	answers.WithLabelValues(string(next.State), next.Reason).Inc()
}

// note cuts a message for an Event, never inside a rune.
func note(message string) string {
	if len(message) <= maxNote {
		return message
	}
	return strings.ToValidUTF8(message[:maxNote], "")
}
