package script

import (
	"context"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks/script"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// How long until a check is evaluated again.
const (
	// againWatched is for checks whose inputs announce their changes: a net under the watches.
	againWatched = 5 * time.Minute
	// againWaiting and againApproved are for those that nothing announces.
	againWaiting  = 15 * time.Second
	againApproved = time.Minute
	// A failure is tried again after as long as it has lasted, within these bounds.
	shortestRetry = 5 * time.Second
	longestRetry  = 10 * time.Minute
)

// finding is what an evaluation came to.
type finding struct {
	state           duckv1alpha1.CheckState
	reason, message string
	// again is the time until the next evaluation; 0 is never.
	again time.Duration
}

// isOver tells whether nothing changes the answer any more.
func isOver(check *approvalv1alpha1.ScriptCheck) bool {
	return check.Status.State == duckv1alpha1.CheckRejected || check.Status.State == duckv1alpha1.CheckCancelled
}

// evaluate fails only if the API server could not be asked; whatever is wrong with the check itself is a finding.
func (c *Controller) evaluate(ctx context.Context, check *approvalv1alpha1.ScriptCheck, now time.Time) (finding, error) {
	left := deadline(check).Sub(now)
	if left <= 0 && check.Status.State != duckv1alpha1.CheckApproved {
		return timedOut(check), nil
	}
	found, err := c.ask(ctx, check, now)
	if waits := found.state == duckv1alpha1.CheckPending || found.state == duckv1alpha1.CheckError; waits && (found.again == 0 || found.again > left) {
		found.again = left
	}
	return found, err
}

func (c *Controller) ask(ctx context.Context, check *approvalv1alpha1.ScriptCheck, now time.Time) (finding, error) {
	program, err := script.Compile(check.Spec.Expression)
	if err != nil {
		return failed(check, now, approvalv1alpha1.ReasonInvalidExpression, err.Error()), nil
	}
	in, problem, err := c.inputs(ctx, check, program)
	if err != nil {
		return finding{}, err
	}
	if problem != "" {
		return failed(check, now, approvalv1alpha1.ReasonError, problem), nil
	}
	in.Now = now
	answer, err := program.Run(ctx, in)
	if err != nil {
		return failed(check, now, approvalv1alpha1.ReasonError, err.Error()), nil
	}
	return answered(check, answer, again(check, program, answer)), nil
}

// again is how long the answer may stand unless a watch says otherwise.
func again(check *approvalv1alpha1.ScriptCheck, program *script.Program, answer script.Answer) time.Duration {
	changes := program.Uses(script.Now) || program.Uses(script.Object) || program.Uses(script.Resource)
	unannounced := program.Uses(script.Now) || program.Uses(script.Object) && !isConnector(&check.Spec.Request.Object)
	switch {
	case answer == script.Reject || !changes:
		return 0
	case !unannounced:
		return againWatched
	case answer == script.Wait:
		return againWaiting
	}
	return againApproved
}

// deadline is when a check that has not approved is given up.
func deadline(check *approvalv1alpha1.ScriptCheck) time.Time {
	timeout := quorum.DefaultTimeout
	if check.Spec.Timeout != nil {
		timeout = check.Spec.Timeout.Duration
	}
	end := check.CreationTimestamp.Add(timeout)
	if request := check.Spec.Request; request != nil && request.Deadline != nil && request.Deadline.Time.Before(end) {
		return request.Deadline.Time
	}
	return end
}

// lasting is how long the check has been failing.
func lasting(check *approvalv1alpha1.ScriptCheck, now time.Time) time.Duration {
	ready := apimeta.FindStatusCondition(check.Status.Conditions, approvalv1alpha1.ConditionReady)
	if check.Status.State != duckv1alpha1.CheckError || ready == nil {
		return 0
	}
	return now.Sub(ready.LastTransitionTime.Time)
}

// asMap is a Go value as expressions see it.
func asMap(value any) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(value)
}
