package request

import (
	"strings"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// checkWords checks what the client alone decides: reason, times, use.
func checkWords(caller *admit.Caller, spec *approvalv1alpha1.ResourceCheckRequestSpec, now time.Time) error {
	if spec.Revoked != nil {
		return admit.Invalid("spec.revoked", "a new request cannot be revoked yet: leave it out")
	}
	if caller.IsPerson() && strings.TrimSpace(spec.Reason) == "" {
		return admit.Invalid("spec.reason", "say in a few words what it is for: the approvers read it")
	}
	return first(checkTimes(spec.TimeRange, now), checkUse(spec.Use))
}

func checkTimes(r *approvalv1alpha1.TimeRange, now time.Time) error {
	switch {
	case r == nil:
		return nil
	case r.Duration != nil && r.Duration.Duration <= 0:
		return admit.Invalid("spec.timeRange.duration", "it must be longer than nothing: give a duration such as 2h")
	case r.Before != nil && !r.Before.After(now):
		return admit.Invalid("spec.timeRange.before", "it has passed: give a time that is still to come")
	case r.Before != nil && r.After != nil && !r.After.Time.Before(r.Before.Time):
		return admit.Invalid("spec.timeRange.after", "it must lie before timeRange.before")
	}
	return nil
}

// checkUse refuses patterns that cannot be read: such a request would cover nothing, and ask every rule.
func checkUse(use *approvalv1alpha1.OperationSelector) error {
	if use == nil || use.HTTP == nil {
		return nil
	}
	if _, err := operation.NewHTTPMatch(use.HTTP.Methods, use.HTTP.Paths); err != nil {
		return admit.Invalid("spec.use.http", err.Error())
	}
	return nil
}
