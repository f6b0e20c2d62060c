package quorum

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// tally is the count of a check that nothing has ended yet.
type tally struct {
	in          Input
	policies    []approvalv1alpha1.ApprovalPolicy
	independent independence
	deadline    time.Time
	// approvals and rejections are the answers that count, one of each person, oldest first.
	approvals  []Answer
	rejections []Answer
	// filled is the number of approvals of each policy; only the first open policies count answers.
	filled []int
	open   int
}

func newTally(in Input) *tally {
	t := &tally{
		in: in, policies: in.Spec.Policies,
		independent: newIndependence(in.Spec, in.Askers), deadline: Deadline(in.Spec, in.StartedAt),
	}
	t.sort()
	t.fill()
	return t
}

// sort keeps the first answer of each person that is eligible and in time.
func (t *tally) sort() {
	answered := map[string]bool{}
	for _, a := range oldestFirst(t.in.Answers) {
		user := a.Responder.Username
		if answered[user] || !a.At.Before(t.deadline) || t.independent.eligible(t.in.Spec, a.Responder) != nil {
			continue
		}
		switch a.Decision {
		case approvalv1alpha1.DecisionApprove:
			t.approvals = append(t.approvals, a)
		case approvalv1alpha1.DecisionReject:
			t.rejections = append(t.rejections, a)
		default:
			continue
		}
		answered[user] = true
	}
}

// fill counts approvals policy by policy. In sequence, a policy opens once all before it are met; an answer that came
// earlier counts from then on.
func (t *tally) fill() {
	t.filled = make([]int, len(t.policies))
	m := newMatching(len(t.approvals))
	for i, policy := range t.policies {
		t.open = i + 1
		if t.in.Spec.SharedApprovers == approvalv1alpha1.SharedApproversAllow {
			m = newMatching(len(t.approvals))
		}
		for range policy.NumberOfApprovalsRequired {
			if m.add(func(answer int) bool { return names(policy, t.approvals[answer].Responder) }) {
				t.filled[i]++
			}
		}
		if t.in.Spec.Order == approvalv1alpha1.OrderSequential && !t.met(i) {
			return
		}
	}
}

func (t *tally) met(policy int) bool {
	return t.filled[policy] >= int(t.policies[policy].NumberOfApprovalsRequired)
}

// allMet is false without policies: nobody was asked, so nobody approved.
func (t *tally) allMet() bool {
	for i := range t.policies {
		if !t.met(i) {
			return false
		}
	}
	return len(t.policies) > 0
}

// counts tells whether the answer belongs to a policy that is open.
func (t *tally) counts(a Answer) bool {
	for _, policy := range t.policies[:t.open] {
		if names(policy, a.Responder) {
			return true
		}
	}
	return false
}

func (t *tally) outcome() Outcome {
	out := t.base()
	if i := t.firstRejection(); i >= 0 {
		a := t.rejections[i]
		out.State = duckv1alpha1.CheckRejected
		out.Message = bounded("Rejected by " + shownResponder(a.Responder) + shownComment(a.Comment) + ".")
		return out
	}
	switch {
	case t.allMet():
		out.State, out.GrantFor = duckv1alpha1.CheckApproved, t.shortestGrant()
		out.Message = t.approvedMessage()
	case !t.in.Now.Before(t.deadline):
		out.State, out.Reason = duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonTimedOut
		out.Message = "Nobody decided before " + t.deadline.UTC().Format(time.RFC3339) + ": ask again."
	default:
		out.State, out.Next = duckv1alpha1.CheckPending, t.deadline
		out.Message, out.WaitingFor = t.pendingMessage(), t.waitingFor()
	}
	return out
}

func (t *tally) firstRejection() int {
	for i := range t.rejections {
		if t.counts(t.rejections[i]) {
			return i
		}
	}
	return -1
}

// base is what every outcome tells of the answers.
func (t *tally) base() Outcome {
	var out Outcome
	for i, policy := range t.policies {
		out.Policies = append(out.Policies, approvalv1alpha1.PolicyStatus{
			Name: policy.Name, Approvals: int32(t.filled[i]), Rejections: t.rejectionsOf(i), Met: t.met(i),
		})
	}
	for _, a := range oldestFirst(append(append([]Answer(nil), t.approvals...), t.rejections...)) {
		if t.counts(a) && len(out.DecidedBy) < maxListed {
			out.DecidedBy = append(out.DecidedBy, decision(a))
		}
	}
	return out
}

func (t *tally) rejectionsOf(policy int) int32 {
	if policy >= t.open {
		return 0
	}
	var n int32
	for _, a := range t.rejections {
		if names(t.policies[policy], a.Responder) {
			n++
		}
	}
	return n
}

// shortestGrant looks at every approval that counts, because each approver may shorten the grant.
func (t *tally) shortestGrant() *metav1.Duration {
	var shortest *metav1.Duration
	for _, a := range t.approvals {
		if a.GrantFor != nil && (shortest == nil || *a.GrantFor < shortest.Duration) {
			shortest = &metav1.Duration{Duration: *a.GrantFor}
		}
	}
	return shortest
}

// waitingFor lists who may still answer, policy by policy.
func (t *tally) waitingFor() []duckv1alpha1.CheckWaiting {
	answered := map[string]bool{}
	for _, a := range t.approvals {
		answered[a.Responder.Username] = true
	}
	var list waitingList
	for i, policy := range t.policies[:t.open] {
		missing := policy.NumberOfApprovalsRequired - int32(t.filled[i])
		for _, approver := range policy.Approvers {
			if approver.Type == approvalv1alpha1.ApproverUser && (answered[approver.Name] || t.independent.check(approver.Name) != nil) {
				continue
			}
			if missing > 0 {
				list.add(approver, missing)
			}
		}
	}
	return list
}

type waitingList []duckv1alpha1.CheckWaiting

// add joins what several policies wait for from the same user or group. One user gives one answer.
func (l *waitingList) add(approver approvalv1alpha1.Approver, missing int32) {
	kind := duckv1alpha1.WaitingForGroup
	if approver.Type == approvalv1alpha1.ApproverUser {
		kind, missing = duckv1alpha1.WaitingForUser, 1
	}
	name := cut(approver.Name, maxWaitingName)
	for i := range *l {
		if (*l)[i].Kind == kind && (*l)[i].Name == name {
			if kind == duckv1alpha1.WaitingForGroup {
				(*l)[i].Missing += missing
			}
			return
		}
	}
	if len(*l) < maxListed {
		*l = append(*l, duckv1alpha1.CheckWaiting{Kind: kind, Name: name, Missing: missing})
	}
}
