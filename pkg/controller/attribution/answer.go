package attribution

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// How long until a check that waits is looked at again.
const (
	// retryUnseen is for what cannot be seen yet, and retryProblem for what somebody must repair.
	retryUnseen  = 5 * time.Second
	retryProblem = 30 * time.Second
	// The directory says itself when to ask again, within these bounds.
	shortestRetry = time.Second
	longestRetry  = time.Minute
)

// finding is what a look at a check came to.
type finding struct {
	state           duckv1alpha1.CheckState
	reason, message string
	// waitingFor is set while the check is pending.
	waitingFor string
	// again is the time until the next look; 0 is never.
	again time.Duration
	// who is accountable, as far as known; without a name nobody.
	author   approvalv1alpha1.Author
	source   approvalv1alpha1.AttributionSource
	standing *attribution.Standing
	// verifiedAt is when the directory said so; nil if it was not asked or did not.
	verifiedAt *metav1.Time
}

// isOver tells whether nothing changes the answer any more.
func isOver(check *approvalv1alpha1.AttributionCheck) bool {
	switch check.Status.State {
	case duckv1alpha1.CheckApproved, duckv1alpha1.CheckRejected, duckv1alpha1.CheckCancelled:
		return true
	}
	return false
}

// answer fails only if the API server could not be asked.
func (c *Controller) answer(ctx context.Context, check *approvalv1alpha1.AttributionCheck, now time.Time) (finding, error) {
	end := deadline(check)
	left := end.Sub(now)
	if left <= 0 {
		return finding{
			state: duckv1alpha1.CheckCancelled, reason: duckv1alpha1.CheckReasonTimedOut,
			message: "It could not be found out before " + end.UTC().Format(time.RFC3339) + " who is accountable: ask again.",
		}, nil
	}
	found, err := c.find(ctx, check, now)
	if found.again > left {
		found.again = left
	}
	return found, err
}

// deadline is when a check that was not answered is given up.
func deadline(check *approvalv1alpha1.AttributionCheck) time.Time {
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

// find finds who is accountable, and lets the directory confirm it.
func (c *Controller) find(ctx context.Context, check *approvalv1alpha1.AttributionCheck, now time.Time) (finding, error) {
	verdict, err := c.verdict(ctx, check, now)
	var waits *unseenError
	var wrong *problemError
	switch {
	case errors.As(err, &waits):
		return waits.finding(), nil
	case errors.As(err, &wrong):
		return finding{state: duckv1alpha1.CheckError, reason: approvalv1alpha1.ReasonError, message: wrong.Error() + "; it is tried again.", again: retryProblem}, nil
	case err != nil:
		return finding{}, err
	}
	found := finding{
		state: duckv1alpha1.CheckRejected, reason: verdict.Reason, message: verdict.Message + ".",
		author: approvalv1alpha1.Author{Username: verdict.Author}, source: verdict.Source, standing: verdict.Standing,
	}
	switch {
	case !verdict.Attributed():
		return found, nil
	case !requireHuman(check):
		found.state = duckv1alpha1.CheckApproved
		found.message = verdict.Message + ", and the rule does not ask whether that is a person."
		return found, nil
	case !verdict.settled.IsZero():
		found.state, found.verifiedAt = duckv1alpha1.CheckApproved, &metav1.Time{Time: verdict.settled}
		found.message = verdict.Message + ", which was verified for the Release already."
		return found, nil
	}
	return c.confirm(ctx, verdict, found), nil
}

func requireHuman(check *approvalv1alpha1.AttributionCheck) bool {
	return check.Spec.RequireHuman == nil || *check.Spec.RequireHuman
}

// confirm asks the directory. A name that is never a person's does not get here, whatever the directory would say.
func (c *Controller) confirm(ctx context.Context, v verdict, found finding) finding {
	if attribution.IsRobot(v.Author) {
		found.reason, found.message = approvalv1alpha1.ReasonOnlyRobot, fmt.Sprintf("%s, and that is no person: let a person do it.", v.Message)
		return found
	}
	answer, err := c.People.Lookup(ctx, v.Author)
	switch {
	case err == nil:
		return known(v, found, answer)
	case errors.Is(err, directory.ErrUnknown):
		found.reason = approvalv1alpha1.ReasonAuthorUnknown
		found.message = fmt.Sprintf("%s, but is not known to the directory (%s): %s.", v.Message, err.Error(), mend(&v))
		return found
	}
	found.state, found.reason = duckv1alpha1.CheckPending, approvalv1alpha1.ReasonDirectoryUnavailable
	found.message = fmt.Sprintf("%s, and it waits for the directory to say whether that is a person (%s).", v.Message, err.Error())
	found.waitingFor, found.again = "the directory of people", retryAfter(err)
	return found
}

func known(v verdict, found finding, answer directory.Answer) finding {
	person := answer.Person
	found.state = duckv1alpha1.CheckApproved
	found.author.UID, found.author.DisplayName, found.author.Email = person.UID, person.DisplayName, person.Email
	found.verifiedAt = &metav1.Time{Time: answer.At.UTC().Truncate(time.Second)}
	shown := v.Message
	if rest, ok := strings.CutPrefix(v.Message, v.Author); ok && person.DisplayName != "" {
		shown = fmt.Sprintf("%s (%s)%s", v.Author, person.DisplayName, rest)
	}
	found.message = shown + " and is known to the directory."
	return found
}

// mend says what to do about an author who has left.
func mend(v *verdict) string {
	if v.Source == approvalv1alpha1.SourceStanding {
		return "let somebody else accept the ReleasePlan, then make it anew"
	}
	if v.asked {
		return "ask an administrator to enter you in the directory, or let somebody else ask"
	}
	return "let somebody whom the directory knows make it anew"
}

func retryAfter(err error) time.Duration {
	var unavailable *directory.UnavailableError
	if errors.As(err, &unavailable) {
		return min(max(unavailable.RetryAfter, shortestRetry), longestRetry)
	}
	return retryUnseen
}
