package release

import (
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
)

// Actions of the events on Releases. The reasons are those of the conditions.
const (
	actionValidate = "Validate"
	actionRelease  = "Release"
	actionAdvise   = "Advise"
)

// announce tells of transitions, in events and in numbers. A Release that ends because it is not valid says so once.
func (c *Controller) announce(f *facts, next *releasev1alpha1.ReleaseStatus) {
	if c.announceOne(f, next, releasev1alpha1.ConditionValidated, actionValidate) == metav1.ConditionFalse {
		return
	}
	c.announceOne(f, next, releasev1alpha1.ConditionReleased, actionRelease)
}

// announceOne returns the condition's new status if it changed.
func (c *Controller) announceOne(f *facts, next *releasev1alpha1.ReleaseStatus, kind, action string) metav1.ConditionStatus {
	was := apimeta.FindStatusCondition(f.release.Status.Conditions, kind)
	is := apimeta.FindStatusCondition(next.Conditions, kind)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason || was == nil && kind == releasev1alpha1.ConditionReleased && is.Status == metav1.ConditionUnknown {
		return ""
	}
	c.event(f, is, action)
	transitions.WithLabelValues(kind, is.Reason).Inc()
	if kind == releasev1alpha1.ConditionValidated && is.Status == metav1.ConditionTrue {
		validationSeconds.Observe(f.now.Sub(f.release.CreationTimestamp.Time).Seconds())
	}
	return is.Status
}

func (c *Controller) event(f *facts, condition *metav1.Condition, action string) {
	severity := corev1.EventTypeNormal
	if condition.Status == metav1.ConditionFalse {
		severity = corev1.EventTypeWarning
	}
	c.recorder.Eventf(f.release, nil, severity, condition.Reason, action, "%s", announce.Note(condition.Message))
}

// started tells that the run was made, which the status names already.
func (c *Controller) started(f *facts) {
	c.recorder.Eventf(f.release, nil, corev1.EventTypeNormal, releasev1alpha1.ReasonProgressing, actionRelease,
		"%s", announce.Note("the pipeline run "+f.release.Status.ManagedProcessing.PipelineRun+" was started"))
}
