package script

import (
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
)

// action is what the controller did when it tells of something.
const action = "Evaluate"

// tell reports a transition; the event's reason is that of the condition Ready.
func (c *Controller) tell(check *approvalv1alpha1.ScriptCheck, next *approvalv1alpha1.ScriptCheckStatus) {
	before := check.Status.State
	if before == next.State || before == "" && next.State == duckv1alpha1.CheckPending {
		return
	}
	severity := corev1.EventTypeWarning
	if next.State == duckv1alpha1.CheckApproved {
		severity = corev1.EventTypeNormal
	}
	reason := apimeta.FindStatusCondition(next.Conditions, approvalv1alpha1.ConditionReady).Reason
	c.recorder.Eventf(check, nil, severity, reason, action, "%s", announce.Note(next.Message))
	answers.WithLabelValues(string(next.State), reason).Inc()
}
