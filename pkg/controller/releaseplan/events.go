package releaseplan

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
)

// Actions of the events on plans. The reasons are those of the conditions.
const (
	actionVerify = "Verify"
	actionMatch  = "Match"
)

// announce tells of transitions.
func (c *Controller) announce(plan *releasev1alpha1.ReleasePlan, next *releasev1alpha1.ReleasePlanStatus) {
	for kind, action := range map[string]string{
		releasev1alpha1.ConditionStandingAttributionValid: actionVerify, releasev1alpha1.ConditionMatched: actionMatch,
	} {
		was, is := apimeta.FindStatusCondition(plan.Status.Conditions, kind), apimeta.FindStatusCondition(next.Conditions, kind)
		if is != nil && (was == nil || was.Status != is.Status || was.Reason != is.Reason) {
			c.event(plan, is, action)
		}
	}
}

// advise tells of who stands for a plan whose status is another product's.
func (c *Controller) advise(ctx context.Context, plan *releasev1alpha1.ReleasePlan, next *releasev1alpha1.ReleasePlanStatus) {
	is := apimeta.FindStatusCondition(next.Conditions, releasev1alpha1.ConditionStandingAttributionValid)
	if is == nil {
		c.told.Forget(plan.UID)
		return
	}
	if c.told.Say(ctx, c.client, plan, is.Reason) {
		c.event(plan, is, actionVerify)
	}
}

func (c *Controller) event(plan *releasev1alpha1.ReleasePlan, condition *metav1.Condition, action string) {
	severity := corev1.EventTypeNormal
	if condition.Status == metav1.ConditionFalse {
		severity = corev1.EventTypeWarning
	}
	c.recorder.Eventf(plan, nil, severity, condition.Reason, action, "%s", announce.Note(condition.Message))
	transitions.WithLabelValues(condition.Type, condition.Reason).Inc()
}
