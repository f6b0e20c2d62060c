package quorum

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// DefaultTimeout is how long a check waits if its spec does not say.
const DefaultTimeout = 7 * 24 * time.Hour

// Answer is one ApprovalResponse, as it is stored.
type Answer struct {
	UID       types.UID
	Responder approvalv1alpha1.Identity
	Decision  approvalv1alpha1.ApprovalDecision
	Comment   string
	GrantFor  *time.Duration
	// At is when the API server created it.
	At time.Time
	// AsOwner says that a Revoke rests on the verb revoke.
	AsOwner bool
}

// Input is everything that an ApprovalRequest's status follows from.
type Input struct {
	Spec *approvalv1alpha1.ApprovalRequestSpec
	// Askers are the users who asked for the same, beside requestedBy.
	Askers  []string
	Answers []Answer
	// StartedAt is when the controller first took the check up.
	StartedAt time.Time
	Now       time.Time
	// Previous is the stored status: what it says was decided stays decided.
	Previous *approvalv1alpha1.ApprovalRequestStatus
}

// Outcome is what the answers come to, in the words of ApprovalRequestStatus.
type Outcome struct {
	State      duckv1alpha1.CheckState
	Reason     string
	Message    string
	Policies   []approvalv1alpha1.PolicyStatus
	DecidedBy  []duckv1alpha1.CheckDecision
	WaitingFor []duckv1alpha1.CheckWaiting
	GrantFor   *metav1.Duration
	Revocation *approvalv1alpha1.CheckRevocation
	// Next is when the outcome changes by itself; zero if it does not.
	Next time.Time
}

// maxListed is how many entries the lists of the status take.
const maxListed = 128

// Count folds the answers into an outcome. A Revoke that counts goes before everything but an earlier end; then one
// eligible Reject decides; then the approvals, if every policy has its own; then the timeout. Answers given at or after
// the timeout do not count.
func Count(in Input) Outcome {
	if stays(in.Previous) {
		return previous(in.Previous)
	}
	if revoke, ok := revocation(in); ok {
		return revoked(in, revoke)
	}
	if in.Previous != nil && in.Previous.State == duckv1alpha1.CheckApproved {
		return previous(in.Previous)
	}
	return newTally(in).outcome()
}

// stays tells whether nothing changes the state any more, not even a Revoke.
func stays(status *approvalv1alpha1.ApprovalRequestStatus) bool {
	return status != nil && (status.State == duckv1alpha1.CheckRejected || status.State == duckv1alpha1.CheckCancelled)
}

func previous(status *approvalv1alpha1.ApprovalRequestStatus) Outcome {
	return Outcome{
		State: status.State, Reason: status.Reason, Message: status.Message, Policies: status.Policies,
		DecidedBy: status.DecidedBy, WaitingFor: status.WaitingFor, GrantFor: status.GrantFor, Revocation: status.Revocation,
	}
}

// Deadline is when the check is given up.
func Deadline(spec *approvalv1alpha1.ApprovalRequestSpec, startedAt time.Time) time.Time {
	timeout := DefaultTimeout
	if spec.Timeout != nil {
		timeout = spec.Timeout.Duration
	}
	deadline := startedAt.Add(timeout)
	if spec.Request != nil && spec.Request.Deadline != nil && spec.Request.Deadline.Time.Before(deadline) {
		return spec.Request.Deadline.Time
	}
	return deadline
}

// oldestFirst sorts a copy by time, then by UID, so that the order of the input does not matter.
func oldestFirst(answers []Answer) []Answer {
	return slices.SortedFunc(slices.Values(answers), func(a, b Answer) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.UID, b.UID))
	})
}

// revocation finds the Revoke that counts: an owner's before one's own, because it also holds new requests back; then
// the oldest.
func revocation(in Input) (Answer, bool) {
	answers := oldestFirst(in.Answers)
	for _, isOwners := range []bool{true, false} {
		i := slices.IndexFunc(answers, func(a Answer) bool {
			return a.Decision == approvalv1alpha1.DecisionRevoke && a.AsOwner == isOwners && (isOwners || approved(in, a.Responder.Username))
		})
		if i >= 0 {
			return answers[i], true
		}
	}
	return Answer{}, false
}

// approved tells whether the user has an Approve to take back. It asks for no independence: who became part of the
// question later may still close what he opened.
func approved(in Input, user string) bool {
	return slices.ContainsFunc(in.Answers, func(a Answer) bool {
		return a.Decision == approvalv1alpha1.DecisionApprove && a.Responder.Username == user && !refusesAsserted(in.Spec, a.Responder) &&
			slices.ContainsFunc(in.Spec.Policies, func(p approvalv1alpha1.ApprovalPolicy) bool { return names(p, a.Responder) })
	})
}

func revoked(in Input, revoke Answer) Outcome {
	out := newTally(in).base()
	if in.Previous != nil && in.Previous.State == duckv1alpha1.CheckApproved {
		out.Policies, out.DecidedBy = in.Previous.Policies, slices.Clone(in.Previous.DecidedBy)
	}
	out.State, out.Reason = duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonRevoked
	out.Message = bounded("Revoked by " + shownResponder(revoke.Responder) + shownComment(revoke.Comment) + ".")
	out.DecidedBy = append(out.DecidedBy[:min(len(out.DecidedBy), maxListed-1)], decision(revoke))
	out.Revocation = &approvalv1alpha1.CheckRevocation{
		Username: revoke.Responder.Username, Asserted: revoke.Responder.Asserted(), ByOwner: revoke.AsOwner, At: metav1.NewTime(revoke.At), Comment: revoke.Comment,
	}
	return out
}

func decision(a Answer) duckv1alpha1.CheckDecision {
	return duckv1alpha1.CheckDecision{
		Username: a.Responder.Username, Decision: string(a.Decision), Time: metav1.NewTime(a.At), Comment: a.Comment,
		Asserted: a.Responder.Asserted(),
	}
}
