package approvalrequest

import (
	corev1 "k8s.io/api/core/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
)

// action is what the controller did when it tells of something.
const action = "Count"

// tell reports a transition; the event's reason is that of the condition Ready.
func (c *Controller) tell(check *approvalv1alpha1.ApprovalRequest, next *approvalv1alpha1.ApprovalRequestStatus, reason string) {
	before := check.Status.State
	if before == next.State || before == "" && next.State == duckv1alpha1.CheckPending {
		return
	}
	severity := corev1.EventTypeWarning
	if next.State == duckv1alpha1.CheckApproved {
		severity = corev1.EventTypeNormal
	}
	c.recorder.Eventf(check, nil, severity, reason, action, "%s", announce.Note(next.Message))
	decided.WithLabelValues(string(next.State), reason).Inc()
	if before != duckv1alpha1.CheckApproved {
		waited.Observe(c.clock.Since(next.StartedAt.Time).Seconds())
	}
}
