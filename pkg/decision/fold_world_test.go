package decision

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

var foldStart = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// world is what a controller has around one request: it does what a plan says, on objects in memory.
type world struct {
	t       testing.TB
	request *approvalv1alpha1.ResourceCheckRequest
	now     time.Time
	object  FoldObject
	context FoldContext
	require bool
	rules   map[string]FoldRule
	checks  map[types.UID]*FoldCheck
	leader  *approvalv1alpha1.ResourceCheckRequest
	// refuse makes asking fail.
	refuse string
	made   int
	writes int
	last   Plan
}

func newWorld(t testing.TB, rules ...string) *world {
	w := &world{
		t: t, now: foldStart, object: FoldObject{UID: "object-1", Generation: 1},
		rules: map[string]FoldRule{}, checks: map[types.UID]*FoldCheck{},
		request: &approvalv1alpha1.ResourceCheckRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "r", UID: "request-1", Generation: 1},
			Spec: approvalv1alpha1.ResourceCheckRequestSpec{
				ObjectRef: approvalv1alpha1.ObjectReference{Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "object-1"},
				TimeRange: &approvalv1alpha1.TimeRange{},
			},
		},
	}
	for _, name := range rules {
		w.setRule(name)
	}
	return w
}

// setRule adds a rule, or edits it.
func (w *world) setRule(name string, edit ...func(*FoldRule)) {
	rule, ok := w.rules[name]
	if !ok {
		w.made++
		rule = FoldRule{RuleSnapshot: approvalv1alpha1.RuleSnapshot{Name: name, UID: types.UID(fmt.Sprintf("rule-%d", w.made))}}
	}
	rule.Generation++
	for _, e := range edit {
		e(&rule)
	}
	w.rules[name] = rule
}

func maxDuration(d time.Duration) func(*FoldRule) {
	return func(r *FoldRule) { r.Spec.Grant = &approvalv1alpha1.Grant{MaxDuration: &metav1.Duration{Duration: d}} }
}

func (w *world) input() *FoldInput {
	in := &FoldInput{
		Request: w.request, Fingerprint: "v1abc", Now: w.now, Object: w.object, Context: w.context,
		RequireChecks: w.require, Leader: w.leader,
	}
	for _, rule := range w.rules {
		in.Rules = append(in.Rules, rule)
	}
	referenced := map[types.UID]bool{}
	for _, ref := range w.request.Status.RequestRefs {
		referenced[ref.UID] = true
		check := FoldCheck{Ref: ref, Gone: true}
		if live := w.checks[ref.UID]; live != nil {
			check = *live
		}
		in.Checks = append(in.Checks, check)
	}
	for uid, check := range w.checks {
		if !referenced[uid] {
			in.Strays = append(in.Strays, *check)
		}
	}
	return in
}

// step is one reconcile.
func (w *world) step() *approvalv1alpha1.ResourceCheckRequestStatus {
	in := w.input()
	plan := Fold(in)
	if len(plan.Ask) > 0 {
		for _, rule := range plan.Ask {
			in.Asked = append(in.Asked, w.ask(rule))
		}
		plan = Fold(in)
	}
	if !equalStatus(&w.request.Status, &plan.Status) {
		w.writes++
		w.request.Status = *plan.Status.DeepCopy()
	}
	for _, ref := range plan.Cancel {
		w.checks[ref.UID].Status = duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckCancelled, Reason: duckv1alpha1.CheckReasonRequestEnded}
	}
	w.last = plan
	return &w.request.Status
}

func (w *world) ask(rule approvalv1alpha1.RuleSnapshot) FoldAsked {
	if w.refuse != "" {
		return FoldAsked{Rule: rule.Name, Problem: w.refuse}
	}
	w.made++
	check := &FoldCheck{Ref: approvalv1alpha1.CheckReference{
		Name: rule.Name, Kind: "ApprovalRequest", Namespace: "prod", ObjectName: fmt.Sprintf("check-%d", w.made),
		UID: types.UID(fmt.Sprintf("check-%d", w.made)), SpecDigest: "sha256:asked",
	}, Status: duckv1alpha1.CheckStatus{
		State: duckv1alpha1.CheckPending, WaitingFor: []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForGroup, Name: "owners", Missing: 2}},
	}}
	w.checks[check.Ref.UID] = check
	copied := *check
	return FoldAsked{Rule: rule.Name, Check: &copied}
}

// check is the one that answers the rule now.
func (w *world) check(rule string) *FoldCheck {
	w.t.Helper()
	ref := byName(w.request.Status.RequestRefs, rule)
	require.NotNil(w.t, ref, "no check for rule %s", rule)
	return w.checks[ref.UID]
}

func (w *world) answer(rule string, state duckv1alpha1.CheckState, edit ...func(*duckv1alpha1.CheckStatus)) {
	w.t.Helper()
	status := duckv1alpha1.CheckStatus{State: state, DecidedBy: []duckv1alpha1.CheckDecision{{Username: "owner", Decision: string(state)}}}
	for _, e := range edit {
		e(&status)
	}
	w.check(rule).Status = status
}

func (w *world) approve(rules ...string) {
	w.t.Helper()
	for _, rule := range rules {
		w.answer(rule, duckv1alpha1.CheckApproved)
	}
}

func because(reason string) func(*duckv1alpha1.CheckStatus) {
	return func(s *duckv1alpha1.CheckStatus) { s.Reason = reason }
}

func grantFor(d time.Duration) func(*duckv1alpha1.CheckStatus) {
	return func(s *duckv1alpha1.CheckStatus) { s.GrantFor = &metav1.Duration{Duration: d} }
}

func endsAt(at time.Time) func(*duckv1alpha1.CheckStatus) {
	return func(s *duckv1alpha1.CheckStatus) { s.NotAfter = &metav1.Time{Time: at} }
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// ready is Ready's status and reason in short.
func ready(s *approvalv1alpha1.ResourceCheckRequestStatus) string {
	c := apimeta.FindStatusCondition(s.Conditions, approvalv1alpha1.ConditionReady)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func readyMessage(s *approvalv1alpha1.ResourceCheckRequestStatus) string {
	return apimeta.FindStatusCondition(s.Conditions, approvalv1alpha1.ConditionReady).Message
}

func (w *world) states() map[string]duckv1alpha1.CheckState {
	states := map[string]duckv1alpha1.CheckState{}
	for _, r := range w.request.Status.Results {
		states[r.Name] = r.State
	}
	return states
}

func (w *world) open() int {
	open := 0
	for _, c := range w.checks {
		if isOpen(c.Status.State) {
			open++
		}
	}
	return open
}
