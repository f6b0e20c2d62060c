package request

import (
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
	"github.com/AlaudaDevops/countersign/pkg/decision"
)

// Actions of the events on requests. The reasons of actionFold are those of the condition Ready.
const (
	actionFold    = "Fold"
	actionArchive = "Archive"
)

// Reasons of events about the archive.
const (
	reasonArchiveFailing = "ArchiveFailing"
	reasonArchiveTakes   = "ArchiveTakesEvidence"
)

// announce tells of a transition of Ready, in an event and in numbers.
func (c *Controller) announce(request *approvalv1alpha1.ResourceCheckRequest, plan *decision.Plan) {
	ready := apimeta.FindStatusCondition(plan.Status.Conditions, approvalv1alpha1.ConditionReady)
	if !plan.Transition || ready == nil {
		return
	}
	level := corev1.EventTypeNormal
	if ready.Status == metav1.ConditionFalse {
		level = corev1.EventTypeWarning
	}
	c.Recorder.Eventf(request, nil, level, ready.Reason, actionFold, "%s", announce.Note(ready.Message))
	c.metrics.transitions.WithLabelValues(ready.Reason).Inc()
	if request.Status.Validity == nil && plan.Status.Validity != nil && plan.Status.Follows == nil {
		c.metrics.grantSeconds.Observe(c.Clock.Now().Sub(request.CreationTimestamp.Time).Seconds())
	}
}
