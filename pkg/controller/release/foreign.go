package release

import (
	"context"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// advise asks who answers for a Release of another product, and says so in events. The status is that product's, and so is
// the pipeline; the record stands in the request and its check.
func (c *Controller) advise(ctx context.Context, f *facts) (ctrl.Result, error) {
	last := c.told.Last(f.release.UID)
	if last == releasev1alpha1.ReasonSucceeded || last == releasev1alpha1.ReasonValidationError {
		return ctrl.Result{}, nil
	}
	s := compute(f)
	if s.decisive(&releasev1alpha1.ReleaseStatus{}) {
		confirmed, step, current, err := c.confirm(ctx, f.release, s.status.Request)
		if err != nil || !current {
			return ctrl.Result{}, err
		}
		f, s = confirmed, step
	}
	if err := c.prepare(ctx, f, s); err != nil {
		return ctrl.Result{}, err
	}
	validated := apimeta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionValidated)
	if validated != nil && c.told.Say(ctx, c.client, f.release, validated.Reason) && (last != "" || !f.askedBefore(c.begun)) {
		c.event(f, validated, actionAdvise)
		transitions.WithLabelValues(releasev1alpha1.ConditionValidated, validated.Reason).Inc()
	}
	return ctrl.Result{RequeueAfter: s.again}, nil
}

// askedBefore tells whether the request was as it is now at a moment: then whoever led until that moment has said so.
func (f *facts) askedBefore(moment time.Time) bool {
	if f.request == nil {
		return false
	}
	since := f.request.CreationTimestamp.Time
	switch status := &f.request.Status; {
	case status.Ended != nil:
		since = status.Ended.At.Time
	case status.Validity != nil:
		since = status.Validity.NotBefore.Time
	}
	return since.Before(moment)
}
