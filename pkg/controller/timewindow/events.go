package timewindow

import (
	corev1 "k8s.io/api/core/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// action is what the controller did when it tells of something.
const action = "Watch"

// tell reports a transition.
func (c *Controller) tell(check *approvalv1alpha1.TimeWindowCheck, next *approvalv1alpha1.TimeWindowCheckStatus) {
	before := check.Status.State
	if before == next.State || before == "" && next.State == duckv1alpha1.CheckPending {
		return
	}
	severity := corev1.EventTypeNormal
	if next.State == duckv1alpha1.CheckError {
		severity = corev1.EventTypeWarning
	}
	reason := readyReason(&next.CheckStatus)
	c.recorder.Eventf(check, nil, severity, reason, action, "%s", next.Message)
	answers.WithLabelValues(string(next.State), reason).Inc()
}
