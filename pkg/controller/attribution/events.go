package attribution

import (
	corev1 "k8s.io/api/core/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
)

// action is what the controller did when it tells of something.
const action = "Attribute"

// tell reports a transition: to another state, or to waiting for another reason.
func (c *Controller) tell(check *approvalv1alpha1.AttributionCheck, next *approvalv1alpha1.AttributionCheckStatus) {
	if check.Status.State == next.State && check.Status.Reason == next.Reason {
		return
	}
	severity := corev1.EventTypeWarning
	if next.State == duckv1alpha1.CheckApproved {
		severity = corev1.EventTypeNormal
	}
	c.Recorder.Eventf(check, nil, severity, next.Reason, action, "%s", announce.Note(next.Message))
	answers.WithLabelValues(string(next.State), next.Reason).Inc()
}
