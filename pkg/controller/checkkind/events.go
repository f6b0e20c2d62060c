package checkkind

import (
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
)

// actionInspect is the action of all events of this controller; their reasons are those of the condition Ready.
const actionInspect = "Inspect"

const readyMessage = "checks of this kind can be made and relied on"

// announce tells of a transition only.
func (c *Controller) announce(kind *approvalv1alpha1.CheckKind, f finding) {
	reason, message, level := approvalv1alpha1.ReasonReady, readyMessage, corev1.EventTypeNormal
	if !f.ready() {
		reason, message, level = f.reason, f.message, corev1.EventTypeWarning
	}
	before := apimeta.FindStatusCondition(kind.Status.Conditions, approvalv1alpha1.ConditionReady)
	if before == nil || before.Reason != reason {
		c.recorder.Eventf(kind, nil, level, reason, actionInspect, "%s", announce.Note(message))
	}
}
