package quorum

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// counted is what most cases look at: state with its reason, approvals by policy, and who is waited for.
type counted struct {
	State     string
	Approvals []int32
	Waiting   []string
}

func summary(out Outcome) counted {
	c := counted{State: strings.TrimSuffix(string(out.State)+"/"+out.Reason, "/")}
	for _, p := range out.Policies {
		c.Approvals = append(c.Approvals, p.Approvals)
	}
	for _, w := range out.WaitingFor {
		c.Waiting = append(c.Waiting, w.Name)
	}
	return c
}

func TestCount(t *testing.T) {
	week := 7 * 24 * 3600
	tests := map[string]struct {
		spec    *specBuilder
		askers  []string
		answers []Answer
		now     time.Duration
		want    counted
	}{
		"nothing answered": {spec: makeSpec().Policy("p", 2, "alice", "@owners"),
			want: counted{"pending", []int32{0}, []string{"alice", "owners"}}},
		"one of two": {spec: makeSpec().Policy("p", 2, "alice", "@owners"), answers: []Answer{approve("alice", 1)},
			want: counted{"pending", []int32{1}, []string{"owners"}}},
		"two of two": {spec: makeSpec().Policy("p", 2, "alice", "@owners"), answers: []Answer{approve("alice", 1), approve("bob", 2, "owners")},
			want: counted{State: "approved", Approvals: []int32{2}}},
		"two answers of one person": {spec: makeSpec().Policy("p", 2, "alice", "@owners"),
			answers: []Answer{approve("alice", 1, "owners"), approve("alice", 2, "owners")},
			want:    counted{"pending", []int32{1}, []string{"owners"}}},
		"earlier approve of one person counts": {spec: makeSpec().Policy("p", 1, "alice"), answers: []Answer{reject("alice", 2), approve("alice", 1)},
			want: counted{State: "approved", Approvals: []int32{1}}},
		"earlier reject of one person counts": {spec: makeSpec().Policy("p", 1, "alice"), answers: []Answer{approve("alice", 2), reject("alice", 1)},
			want: counted{State: "rejected", Approvals: []int32{0}}},
		"same moment: the smaller UID counts": {spec: makeSpec().Policy("p", 1, "alice"), answers: []Answer{
			makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1).UID("b").Obj(), makeAnswer("alice", approvalv1alpha1.DecisionReject, 1).UID("a").Obj()},
			want: counted{State: "rejected", Approvals: []int32{0}}},
		"one reject decides": {spec: makeSpec().Policy("p", 1, "alice").Policy("q", 1, "bob"), answers: []Answer{approve("alice", 1), reject("bob", 2)},
			want: counted{State: "rejected", Approvals: []int32{1, 0}}},
		"reject of somebody else does not": {spec: makeSpec().Policy("p", 1, "alice"), answers: []Answer{reject("mallory", 1), approve("alice", 2)},
			want: counted{State: "approved", Approvals: []int32{1}}},
		"approval of who asked too does not count": {spec: makeSpec().Policy("p", 1, "alice", "bob"), askers: []string{"alice"}, answers: []Answer{approve("alice", 1)},
			want: counted{"pending", []int32{0}, []string{"bob"}}},
		"unknown decision": {spec: makeSpec().Policy("p", 1, "alice"), answers: []Answer{makeAnswer("alice", "Maybe", 1).Obj()},
			want: counted{"pending", []int32{0}, []string{"alice"}}},
		"no policies": {spec: makeSpec(), want: counted{State: "pending"}},

		"one answer serves one policy": {spec: makeSpec().Policy("p", 1, "alice").Policy("q", 1, "alice", "bob"), answers: []Answer{approve("alice", 1)},
			want: counted{"pending", []int32{1, 0}, []string{"bob"}}},
		"one answer serves two where shared": {spec: makeSpec().Policy("p", 1, "alice").Policy("q", 1, "alice", "bob").Shared(), answers: []Answer{approve("alice", 1)},
			want: counted{State: "approved", Approvals: []int32{1, 1}}},
		"an answer moves to the later policy": {spec: makeSpec().Policy("p", 1, "alice", "bob").Policy("q", 1, "alice"),
			answers: []Answer{approve("alice", 1), approve("bob", 2)},
			want:    counted{State: "approved", Approvals: []int32{1, 1}}},
		"ties in policy order": {spec: makeSpec().Policy("p", 2, "alice", "bob").Policy("q", 1, "alice"), answers: []Answer{approve("alice", 1)},
			want: counted{"pending", []int32{1, 0}, []string{"bob"}}},
		"a chain of moves": {spec: makeSpec().Policy("p", 1, "a", "b").Policy("q", 1, "b", "c").Policy("r", 1, "a"),
			answers: []Answer{approve("a", 1), approve("b", 2), approve("c", 3)},
			want:    counted{State: "approved", Approvals: []int32{1, 1, 1}}},

		"sequence waits for the first only": {spec: makeSpec().Policy("p", 1, "alice").Policy("q", 1, "bob").Sequential(),
			want: counted{"pending", []int32{0, 0}, []string{"alice"}}},
		"early answer to a later step waits": {spec: makeSpec().Policy("p", 1, "alice").Policy("q", 1, "bob").Sequential(), answers: []Answer{approve("bob", 1)},
			want: counted{"pending", []int32{0, 0}, []string{"alice"}}},
		"early answer counts once its step opens": {spec: makeSpec().Policy("p", 1, "alice").Policy("q", 1, "bob").Sequential(),
			answers: []Answer{approve("bob", 1), approve("alice", 2)},
			want:    counted{State: "approved", Approvals: []int32{1, 1}}},
		"early reject waits too": {spec: makeSpec().Policy("p", 1, "alice").Policy("q", 1, "bob").Sequential(), answers: []Answer{reject("bob", 1)},
			want: counted{"pending", []int32{0, 0}, []string{"alice"}}},
		"early reject counts once its step opens": {spec: makeSpec().Policy("p", 1, "alice").Policy("q", 1, "bob").Sequential(),
			answers: []Answer{reject("bob", 1), approve("alice", 2)},
			want:    counted{State: "rejected", Approvals: []int32{1, 0}}},
		"reject of a step that is met": {spec: makeSpec().Policy("p", 1, "alice", "carol").Policy("q", 1, "bob").Sequential(),
			answers: []Answer{approve("alice", 1), reject("carol", 2)},
			want:    counted{State: "rejected", Approvals: []int32{1, 0}}},

		"timeout": {spec: makeSpec().Policy("p", 1, "alice").Timeout(time.Hour), now: time.Hour,
			want: counted{State: "cancelled/TimedOut", Approvals: []int32{0}}},
		"before the timeout": {spec: makeSpec().Policy("p", 1, "alice").Timeout(time.Hour), now: time.Hour - 1,
			want: counted{"pending", []int32{0}, []string{"alice"}}},
		"default timeout": {spec: makeSpec().Policy("p", 1, "alice"), now: time.Duration(week) * time.Second,
			want: counted{State: "cancelled/TimedOut", Approvals: []int32{0}}},
		"answered in time, seen late": {spec: makeSpec().Policy("p", 1, "alice").Timeout(time.Hour), answers: []Answer{approve("alice", 3599)}, now: 2 * time.Hour,
			want: counted{State: "approved", Approvals: []int32{1}}},
		"answered too late": {spec: makeSpec().Policy("p", 1, "alice").Timeout(time.Hour), answers: []Answer{approve("alice", 3600)}, now: 2 * time.Hour,
			want: counted{State: "cancelled/TimedOut", Approvals: []int32{0}}},
		"deadline of the question": {spec: makeSpec().Policy("p", 1, "alice").With(func(s *approvalv1alpha1.ApprovalRequestSpec) {
			s.Request.Deadline = &metav1.Time{Time: start.Add(time.Minute)}
		}), now: time.Minute, want: counted{State: "cancelled/TimedOut", Approvals: []int32{0}}},

		"owner revokes while pending": {spec: makeSpec().Policy("p", 1, "alice"), answers: []Answer{revoke("owner1", 1).AsOwner().Obj()},
			want: counted{State: "cancelled/Revoked", Approvals: []int32{0}}},
		"own approve revoked while pending": {spec: makeSpec().Policy("p", 2, "alice", "bob"), answers: []Answer{approve("alice", 1), revoke("alice", 2).Obj()},
			want: counted{State: "cancelled/Revoked", Approvals: []int32{1}}},
		"revoke goes before reject": {spec: makeSpec().Policy("p", 1, "alice"), answers: []Answer{reject("alice", 1), revoke("owner1", 2).AsOwner().Obj()},
			want: counted{State: "cancelled/Revoked", Approvals: []int32{0}}},
		"revoke without an approve of one's own": {spec: makeSpec().Policy("p", 1, "alice", "bob"), answers: []Answer{approve("alice", 1), revoke("bob", 2).Obj()},
			want: counted{State: "approved", Approvals: []int32{1}}},
		"revoke of an approve that nobody asked for": {spec: makeSpec().Policy("p", 1, "alice"), answers: []Answer{approve("mallory", 1), revoke("mallory", 2).Obj()},
			want: counted{"pending", []int32{0}, []string{"alice"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := Count(Input{Spec: tt.spec.Obj(), Askers: tt.askers, Answers: tt.answers, StartedAt: start, Now: start.Add(tt.now)})
			assert.Empty(t, cmp.Diff(tt.want, summary(out)))
			assert.Equal(t, out.State == duckv1alpha1.CheckPending, !out.Next.IsZero(), "only what waits changes by itself")
			assert.NotEmpty(t, out.Message)
		})
	}
}

func statusOf(out Outcome) *approvalv1alpha1.ApprovalRequestStatus {
	return &approvalv1alpha1.ApprovalRequestStatus{
		CheckStatus: duckv1alpha1.CheckStatus{State: out.State, Reason: out.Reason, Message: out.Message, DecidedBy: out.DecidedBy,
			WaitingFor: out.WaitingFor, GrantFor: out.GrantFor},
		Policies: out.Policies, Revocation: out.Revocation,
	}
}

func TestCountKeepsWhatWasDecided(t *testing.T) {
	spec := makeSpec().Policy("p", 1, "alice", "bob").Obj()
	count := func(previous *Outcome, now time.Duration, answers ...Answer) Outcome {
		in := Input{Spec: spec, Answers: answers, StartedAt: start, Now: start.Add(now)}
		if previous != nil {
			in.Previous = statusOf(*previous)
		}
		return Count(in)
	}
	approved := count(nil, 0, approve("alice", 2))
	rejected := count(nil, 0, reject("alice", 2))
	timedOut := count(nil, 8*24*time.Hour)

	t.Run("a reject after the approval, though dated before it", func(t *testing.T) {
		assert.Empty(t, cmp.Diff(approved, count(&approved, 0, approve("alice", 2), reject("bob", 1))))
	})
	t.Run("the timeout after the approval", func(t *testing.T) {
		assert.Empty(t, cmp.Diff(approved, count(&approved, 9*24*time.Hour, approve("alice", 2))))
	})
	t.Run("an approval whose answers are gone", func(t *testing.T) {
		assert.Empty(t, cmp.Diff(approved, count(&approved, 0)))
	})
	t.Run("an approve after the rejection", func(t *testing.T) {
		assert.Empty(t, cmp.Diff(rejected, count(&rejected, 0, reject("alice", 2), approve("bob", 1))))
	})
	t.Run("a revoke after the rejection", func(t *testing.T) {
		assert.Empty(t, cmp.Diff(rejected, count(&rejected, 0, reject("alice", 2), revoke("owner1", 3).AsOwner().Obj())))
	})
	t.Run("an approve after the timeout", func(t *testing.T) {
		assert.Empty(t, cmp.Diff(timedOut, count(&timedOut, 0, approve("alice", 2))))
	})
	t.Run("own approval revoked", func(t *testing.T) {
		out := count(&approved, time.Hour, approve("alice", 2), revoke("alice", 5).Obj())
		assert.Equal(t, duckv1alpha1.CheckCancelled, out.State)
		assert.Equal(t, duckv1alpha1.CheckReasonRevoked, out.Reason)
		assert.Equal(t, []string{"Approve", "Revoke"}, []string{out.DecidedBy[0].Decision, out.DecidedBy[1].Decision})
		assert.Equal(t, &approvalv1alpha1.CheckRevocation{Username: "alice", At: metav1.NewTime(start.Add(5 * time.Second)), Comment: "leaked"}, out.Revocation)
		assert.Equal(t, `Revoked by alice, who says: "leaked".`, out.Message)
		assert.Empty(t, cmp.Diff(out, count(&out, 2*time.Hour, approve("bob", 1))))
	})
	t.Run("revoked by an owner and by himself: the owner's counts", func(t *testing.T) {
		out := count(&approved, time.Hour, approve("alice", 2), revoke("alice", 5).Obj(), revoke("owner1", 6).AsOwner().Obj())
		assert.Equal(t, "owner1", out.Revocation.Username)
		assert.True(t, out.Revocation.ByOwner)
	})
}

func TestCountMarksAssertedAnswers(t *testing.T) {
	count := func(spec *specBuilder, answers ...Answer) Outcome {
		return Count(Input{Spec: spec.Obj(), Answers: answers, StartedAt: start, Now: start.Add(time.Hour)})
	}
	bySome := func(decision approvalv1alpha1.ApprovalDecision, second int) *answerBuilder {
		return makeAnswer("alice", decision, second).Comment("x").Asserted()
	}
	spec := makeSpec().Policy("p", 2, "alice", "bob")
	t.Run("in what was decided", func(t *testing.T) {
		out := count(spec, bySome(approvalv1alpha1.DecisionApprove, 1).Obj(), approve("bob", 2))
		assert.Equal(t, "Approved by alice (asserted) and bob.", out.Message)
		assert.Equal(t, []bool{true, false}, []bool{out.DecidedBy[0].Asserted, out.DecidedBy[1].Asserted})
	})
	t.Run("in a rejection", func(t *testing.T) {
		out := count(spec, bySome(approvalv1alpha1.DecisionReject, 1).Obj())
		assert.Equal(t, `Rejected by alice (asserted), who says: "x".`, out.Message)
		assert.True(t, out.DecidedBy[0].Asserted)
	})
	t.Run("in a revocation", func(t *testing.T) {
		out := count(spec, approve("alice", 1), bySome(approvalv1alpha1.DecisionRevoke, 2).Obj())
		assert.Equal(t, `Revoked by alice (asserted), who says: "x".`, out.Message)
		assert.True(t, out.Revocation.Asserted)
	})
}

func TestCountRefusesAssertedAnswers(t *testing.T) {
	asserted := func(user string, decision approvalv1alpha1.ApprovalDecision, second int) Answer {
		return makeAnswer(user, decision, second).Comment("x").Asserted().Obj()
	}
	tests := map[string]struct {
		answers []Answer
		want    counted
	}{
		"an approve does not count": {[]Answer{asserted("alice", approvalv1alpha1.DecisionApprove, 1)}, counted{"pending", []int32{0}, []string{"alice"}}},
		"a reject does not count":   {[]Answer{asserted("alice", approvalv1alpha1.DecisionReject, 1)}, counted{"pending", []int32{0}, []string{"alice"}}},
		"nor does it stand before one's own answer": {[]Answer{asserted("alice", approvalv1alpha1.DecisionReject, 1), approve("alice", 2)},
			counted{State: "approved", Approvals: []int32{1}}},
		"an approve that does not count is not taken back": {
			[]Answer{asserted("alice", approvalv1alpha1.DecisionApprove, 1), asserted("alice", approvalv1alpha1.DecisionRevoke, 2)},
			counted{"pending", []int32{0}, []string{"alice"}}},
		"one's own approve is taken back": {[]Answer{approve("alice", 1), asserted("alice", approvalv1alpha1.DecisionRevoke, 2)},
			counted{State: "cancelled/Revoked", Approvals: []int32{1}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := makeSpec().Policy("p", 1, "alice").ForbidAsserted().Obj()
			out := Count(Input{Spec: spec, Answers: tt.answers, StartedAt: start, Now: start.Add(time.Hour)})
			assert.Empty(t, cmp.Diff(tt.want, summary(out)))
		})
	}
}

func TestCountShortensTheGrant(t *testing.T) {
	spec := makeSpec().Policy("p", 2, "alice", "bob").Obj()
	long := makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1).GrantFor(2 * time.Hour).Obj()
	short := makeAnswer("bob", approvalv1alpha1.DecisionApprove, 2).GrantFor(time.Hour).Obj()
	out := Count(Input{Spec: spec, Answers: []Answer{long, short}, StartedAt: start, Now: start})
	assert.Equal(t, &metav1.Duration{Duration: time.Hour}, out.GrantFor)
	assert.Equal(t, "Approved by alice and bob.", out.Message)
}

func TestCountExplainsWaiting(t *testing.T) {
	tests := map[string]struct {
		spec *specBuilder
		want string
	}{
		"plain":    {makeSpec().Policy("owners", 2, "@prod-owners"), "Waiting for approvals: policy owners has 0 of 2."},
		"sequence": {makeSpec().Policy("a", 1, "alice").Policy("b", 1, "bob").Sequential(), "Waiting for approvals: policy a has 0 of 1; 1 more to be asked after that."},
		"nobody else may answer": {makeSpec().Policy("a", 2, "dev1", "alice"), "Waiting for approvals: policy a has 0 of 2, " +
			"and only 1 of those it names may answer, because nobody answers for himself: name more approvers in the rule."},
		"unknown creator": {makeSpec().Policy("a", 1, "alice").With(func(s *approvalv1alpha1.ApprovalRequestSpec) { s.Request.UnknownCreator = true }),
			"Nobody can answer, because the creator of an object behind this request is not known, so nobody can be shown to be independent of it: " +
				"ask from a run whose creators are recorded, or set selfApproval: Allow in the rule."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Count(Input{Spec: tt.spec.Obj(), StartedAt: start, Now: start}).Message)
		})
	}
}

func TestCountBoundsAndEscapesTexts(t *testing.T) {
	nasty := "eve\u202e\x1b[31m" + strings.Repeat("ö", 5000)
	spec := makeSpec().Policy("p", 1, nasty[:999], nasty).SelfApproval().Obj()
	answer := makeAnswer(nasty, approvalv1alpha1.DecisionReject, 1).Comment(strings.Repeat("\x07", 1024)).Obj()

	rejected := Count(Input{Spec: spec, Answers: []Answer{answer}, StartedAt: start, Now: start})
	assert.LessOrEqual(t, utf8.RuneCountInString(rejected.Message), 4096)
	assert.NotContains(t, rejected.Message, "\x1b")
	assert.NotContains(t, rejected.Message, "\u202e")
	assert.Equal(t, nasty, rejected.DecidedBy[0].Username, "the exact name is kept")

	pending := Count(Input{Spec: spec, StartedAt: start, Now: start})
	for _, w := range pending.WaitingFor {
		assert.LessOrEqual(t, utf8.RuneCountInString(w.Name), 512)
		assert.True(t, utf8.ValidString(w.Name))
	}
}

func TestCountBoundsLists(t *testing.T) {
	b := makeSpec()
	var answers []Answer
	for p := range 16 {
		var users []string
		for u := range 64 {
			users = append(users, string(rune('a'+p))+strings.Repeat("x", u))
		}
		b.Policy(string(rune('a'+p)), 64, users...)
		for i, u := range users[:20] {
			answers = append(answers, approve(u, i))
		}
	}
	out := Count(Input{Spec: b.Obj(), Answers: answers, StartedAt: start, Now: start.Add(time.Hour)})
	assert.Len(t, out.WaitingFor, 128)
	assert.Len(t, out.DecidedBy, 128)
	out = Count(Input{Spec: b.Obj(), Answers: append(answers, revoke("owner1", 99).AsOwner().Obj()), StartedAt: start, Now: start.Add(time.Hour)})
	assert.Len(t, out.DecidedBy, 128)
	assert.Equal(t, "Revoke", out.DecidedBy[127].Decision)
}

func TestWaitingForJoinsPolicies(t *testing.T) {
	spec := makeSpec().Policy("p", 2, "@owners", "alice").Policy("q", 1, "@owners", "alice").Obj()
	out := Count(Input{Spec: spec, StartedAt: start, Now: start})
	assert.Equal(t, []duckv1alpha1.CheckWaiting{
		{Kind: duckv1alpha1.WaitingForGroup, Name: "owners", Missing: 3},
		{Kind: duckv1alpha1.WaitingForUser, Name: "alice", Missing: 1},
	}, out.WaitingFor)
}
