package decision

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func equalStatus(a, b *approvalv1alpha1.ResourceCheckRequestStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}

const (
	readyGranted = "True AllChecksApproved"
	readyPending = "Unknown ChecksPending"
)

func TestFoldReady(t *testing.T) {
	cases := map[string]struct {
		rules  []string
		before func(*world)
		// act happens after the first step.
		act  func(*world)
		want string
		// message must be part of Ready's message.
		message string
	}{
		"no rules":                    {want: "True NoChecksNeeded", message: "valid until 2030-01-02T13:00:00Z"},
		"no rules on a closed object": {before: func(w *world) { w.require = true }, want: "False NoRules", message: "closed to every write"},
		"a read of a closed object without rules": {
			before: func(w *world) {
				w.require = true
				w.request.Spec.Use = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationRead}}
			}, want: "True NoChecksNeeded",
		},
		"asked":               {rules: []string{"a"}, want: readyPending, message: `rule "a" waits for group "owners" (2 answers)`},
		"one of two approved": {rules: []string{"a", "b"}, act: func(w *world) { w.approve("a") }, want: readyPending, message: `rule "b" waits`},
		"all approved":        {rules: []string{"a", "b"}, act: func(w *world) { w.approve("a", "b") }, want: readyGranted},
		"one rejected":        {rules: []string{"a", "b"}, act: func(w *world) { w.approve("a"); w.answer("b", duckv1alpha1.CheckRejected) }, want: "False ChecksRejected"},
		"an error":            {rules: []string{"a", "b"}, act: func(w *world) { w.approve("a"); w.answer("b", duckv1alpha1.CheckError) }, want: "False Error"},
		"an unknown state":    {rules: []string{"a"}, act: func(w *world) { w.check("a").Problem = "the kind is not registered" }, want: "False Error", message: "not registered"},
		"timed out":           {rules: []string{"a"}, act: func(w *world) { w.answer("a", duckv1alpha1.CheckCancelled, because(duckv1alpha1.CheckReasonTimedOut)) }, want: "False Expired"},
		"window closed": {rules: []string{"a"}, act: func(w *world) {
			w.answer("a", duckv1alpha1.CheckCancelled, because(duckv1alpha1.CheckReasonWindowClosed))
		}, want: "False Expired"},
		"revoked":             {rules: []string{"a"}, act: func(w *world) { w.answer("a", duckv1alpha1.CheckCancelled, because(duckv1alpha1.CheckReasonRevoked)) }, want: "False Revoked"},
		"cancelled by nobody": {rules: []string{"a"}, act: func(w *world) { w.answer("a", duckv1alpha1.CheckCancelled) }, want: "False Revoked"},
		"rejected and revoked": {rules: []string{"a", "b"}, act: func(w *world) {
			w.answer("a", duckv1alpha1.CheckCancelled, because("Revoked"))
			w.answer("b", duckv1alpha1.CheckRejected)
		}, want: "False ChecksRejected"},
		"a rule that cannot ask": {
			rules: []string{"a"}, before: func(w *world) { w.setRule("b", func(r *FoldRule) { r.NotReady = "UnknownCheckKind: no such kind" }) },
			want: "False RuleNotReady", message: "UnknownCheckKind",
		},
		"a rule that broke after it approved": {
			rules: []string{"a"},
			act: func(w *world) {
				w.approve("a")
				w.step()
				r := w.rules["a"]
				r.NotReady = "NotInstalled: gone"
				w.rules["a"] = r
			}, want: "False RuleNotReady",
		},
		"cannot be asked": {rules: []string{"a"}, before: func(w *world) { w.refuse = "the check x belongs to somebody else" }, want: "False Error", message: "belongs to somebody else"},
		"changed spec":    {rules: []string{"a"}, act: func(w *world) { w.approve("a"); w.check("a").Ref.SpecDigest = "sha256:other" }, want: "False Error", message: "was changed after it was made"},
		"no digest":       {rules: []string{"a"}, act: func(w *world) { w.approve("a"); w.check("a").Ref.SpecDigest = "" }, want: "False Error"},
		"a foreign check revoked": {
			rules: []string{"a"},
			act: func(w *world) {
				w.approve("a")
				w.check("a").Revocation = &approvalv1alpha1.CheckRevocation{Username: "boss", ByOwner: true, Comment: "no\x1b[2J"}
			}, want: "False Revoked", message: `revoked by "boss": "no\x1b[2J"`,
		},
		"object not to be seen": {rules: []string{"a"}, act: func(w *world) { w.approve("a"); w.object = FoldObject{Problem: "forbidden"} }, want: "False Error", message: "the Connector prod/harbor cannot be looked at: forbidden"},
		"object gone":           {rules: []string{"a"}, act: func(w *world) { w.object = FoldObject{Gone: true} }, want: "False ObjectGone"},
		"run over":              {rules: []string{"a"}, act: func(w *world) { w.approve("a"); w.context = FoldContext{Ended: true, Why: "it has finished (Failed)"} }, want: "False ContextEnded", message: "it has finished (Failed)"},
		"requester took it back": {
			rules: []string{"a"},
			act: func(w *world) {
				w.approve("a")
				w.request.Spec.Revoked = &approvalv1alpha1.Revocation{By: "dev", Reason: "not needed"}
			}, want: "False Revoked", message: `revoked by "dev": "not needed"`,
		},
		"the last moment passed unanswered": {
			rules: []string{"a"}, before: func(w *world) { w.request.Spec.TimeRange.Before = &metav1.Time{Time: foldStart.Add(time.Minute)} },
			act: func(w *world) { w.pass(time.Minute) }, want: "False Expired", message: "last moment",
		},
		"too many rules": {
			before: func(w *world) {
				for i := range maxRules + 1 {
					w.setRule(strings.Repeat("x", i+1))
				}
			}, want: "False Error", message: "at most 64",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.rules...)
			if c.before != nil {
				c.before(w)
			}
			w.step()
			if c.act != nil {
				c.act(w)
				w.step()
			}
			assert.Equal(t, c.want, ready(&w.request.Status))
			assert.Contains(t, readyMessage(&w.request.Status), c.message)
			if w.request.Status.Ended != nil {
				assert.Zero(t, w.open(), "no inbox holds dead questions")
				assert.Zero(t, w.last.Wake)
			}
			writes := w.writes
			w.step()
			assert.Equal(t, writes, w.writes, "nothing changed, so nothing is written")
		})
	}
}

func TestFoldWritesOfOneHumanApproval(t *testing.T) {
	w := newWorld(t, "a")
	w.step()
	w.step()
	w.approve("a")
	w.pass(5 * time.Second)
	w.step()
	w.step()
	assert.Equal(t, 2, w.writes, "pending, granted")
	assert.Len(t, w.checks, 1)
	assert.True(t, w.last.Wake.Equal(w.now.Add(time.Hour)))
}

func TestFoldValidity(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: foldStart.Add(d)} }
	hours := func(h int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(h) * time.Hour} }
	cases := map[string]struct {
		spec     func(*approvalv1alpha1.ResourceCheckRequestSpec)
		rule     []func(*FoldRule)
		answer   []func(*duckv1alpha1.CheckStatus)
		from, to time.Duration
		want     string
	}{
		"a person": {to: time.Hour},
		"a run": {spec: func(s *approvalv1alpha1.ResourceCheckRequestSpec) {
			s.Context.Resource = &approvalv1alpha1.ObjectReference{}
		}, to: 24 * time.Hour},
		"asked for two hours":  {spec: func(s *approvalv1alpha1.ResourceCheckRequestSpec) { s.TimeRange.Duration = hours(2) }, to: 2 * time.Hour},
		"the rule gives less":  {spec: func(s *approvalv1alpha1.ResourceCheckRequestSpec) { s.TimeRange.Duration = hours(8) }, rule: []func(*FoldRule){maxDuration(4 * time.Hour)}, to: 4 * time.Hour},
		"the rule gives more":  {rule: []func(*FoldRule){maxDuration(4 * time.Hour)}, to: time.Hour},
		"an approver less":     {answer: []func(*duckv1alpha1.CheckStatus){grantFor(10 * time.Minute)}, to: 10 * time.Minute},
		"an approver more":     {answer: []func(*duckv1alpha1.CheckStatus){grantFor(10 * time.Hour)}, to: time.Hour},
		"a window that closes": {answer: []func(*duckv1alpha1.CheckStatus){endsAt(foldStart.Add(20 * time.Minute))}, to: 20 * time.Minute},
		"until":                {spec: func(s *approvalv1alpha1.ResourceCheckRequestSpec) { s.TimeRange.Before = at(30 * time.Minute) }, to: 30 * time.Minute},
		"from": {
			spec: func(s *approvalv1alpha1.ResourceCheckRequestSpec) { s.TimeRange.After = at(3 * time.Hour) },
			from: 3 * time.Hour, to: 4 * time.Hour, want: "Unknown NotYetValid",
		},
		"from, and an approver less": {
			spec:   func(s *approvalv1alpha1.ResourceCheckRequestSpec) { s.TimeRange.After = at(3 * time.Hour) },
			answer: []func(*duckv1alpha1.CheckStatus){grantFor(10 * time.Minute)},
			from:   3 * time.Hour, to: 3*time.Hour + 10*time.Minute, want: "Unknown NotYetValid",
		},
		"ends before it begins": {
			spec:   func(s *approvalv1alpha1.ResourceCheckRequestSpec) { s.TimeRange.After = at(3 * time.Hour) },
			answer: []func(*duckv1alpha1.CheckStatus){endsAt(foldStart.Add(2 * time.Hour))},
			from:   3 * time.Hour, to: 2 * time.Hour, want: "False Expired",
		},
		"less than a second": {answer: []func(*duckv1alpha1.CheckStatus){grantFor(300 * time.Millisecond)}, want: "False Expired"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setRule("a", c.rule...)
			if c.spec != nil {
				c.spec(&w.request.Spec)
			}
			w.step()
			w.answer("a", duckv1alpha1.CheckApproved, c.answer...)
			s := w.step()
			require.NotNil(t, s.Validity)
			assert.Equal(t, foldStart.Add(c.from), s.Validity.NotBefore.Time)
			assert.Equal(t, foldStart.Add(c.to), s.Validity.NotAfter.Time)
			if c.want == "" {
				c.want = readyGranted
			}
			assert.Equal(t, c.want, ready(s))
		})
	}
}

func TestFoldNotYetValidBecomesValidAndExpires(t *testing.T) {
	w := newWorld(t, "a")
	w.request.Spec.TimeRange.After = &metav1.Time{Time: foldStart.Add(time.Hour)}
	w.step()
	w.approve("a")
	assert.Equal(t, "Unknown NotYetValid", ready(w.step()))
	w.now = w.last.Wake
	assert.Equal(t, readyGranted, ready(w.step()))
	assert.Equal(t, foldStart.Add(2*time.Hour), w.last.Wake)
	w.now = w.last.Wake.Add(-time.Nanosecond)
	assert.Equal(t, readyGranted, ready(w.step()))
	w.now = w.last.Wake
	s := w.step()
	assert.Equal(t, "False Expired", ready(s))
	assert.Equal(t, foldStart.Add(2*time.Hour), s.Ended.At.Time)
	assert.Equal(t, duckv1alpha1.CheckApproved, w.check("a").Status.State, "what was answered stays as it is")
}

func TestFoldShortens(t *testing.T) {
	w := newWorld(t, "a")
	w.step()
	w.answer("a", duckv1alpha1.CheckApproved, endsAt(foldStart.Add(40*time.Minute)))
	w.step()
	w.answer("a", duckv1alpha1.CheckApproved, endsAt(foldStart.Add(20*time.Minute)))
	assert.Equal(t, foldStart.Add(20*time.Minute), w.step().Validity.NotAfter.Time)
	w.answer("a", duckv1alpha1.CheckApproved, endsAt(foldStart.Add(50*time.Minute)))
	assert.Equal(t, foldStart.Add(20*time.Minute), w.step().Validity.NotAfter.Time, "it never becomes longer")
	w.answer("a", duckv1alpha1.CheckApproved)
	assert.Equal(t, foldStart.Add(20*time.Minute), w.step().Validity.NotAfter.Time)
}

func TestFoldEndedOnceAndForAll(t *testing.T) {
	w := newWorld(t, "a")
	w.step()
	w.answer("a", duckv1alpha1.CheckRejected)
	ended := w.step().DeepCopy()
	require.NotNil(t, ended.Ended)

	w.approve("a")
	w.setRule("a")
	w.setRule("b")
	w.object.Generation++
	w.context = FoldContext{Ended: true, Why: "gone"}
	w.request.Spec.Revoked = &approvalv1alpha1.Revocation{By: "x"}
	w.request.Generation++
	w.pass(time.Hour)
	assert.Empty(t, w.last.Ask)
	assert.True(t, equalStatus(ended, w.step()))
}

func TestFoldAsksAnew(t *testing.T) {
	cases := map[string]struct {
		change func(*world)
		// want are the states after the change, asked how many checks were made for it.
		want       map[string]duckv1alpha1.CheckState
		asked      int
		superseded string
	}{
		"a rule edited": {func(w *world) { w.setRule("a") }, map[string]duckv1alpha1.CheckState{"a": "pending", "b": "approved"}, 1, approvalv1alpha1.ReasonRulesChanged},
		"a rule edited and reverted": {
			func(w *world) {
				w.setRule("a", maxDuration(time.Hour))
				w.setRule("a", func(r *FoldRule) { r.Spec.Grant = nil })
			},
			map[string]duckv1alpha1.CheckState{"a": "pending", "b": "approved"}, 1, approvalv1alpha1.ReasonRulesChanged,
		},
		"a rule re-created": {
			func(w *world) { delete(w.rules, "a"); w.setRule("a") },
			map[string]duckv1alpha1.CheckState{"a": "pending", "b": "approved"}, 1, approvalv1alpha1.ReasonRulesChanged,
		},
		"a rule added":   {func(w *world) { w.setRule("c") }, map[string]duckv1alpha1.CheckState{"a": "approved", "b": "approved", "c": "pending"}, 1, ""},
		"a rule deleted": {func(w *world) { delete(w.rules, "a") }, map[string]duckv1alpha1.CheckState{"b": "approved"}, 0, approvalv1alpha1.ReasonRulesChanged},
		"an older rule seen": {
			func(w *world) { r := w.rules["a"]; r.Generation--; w.rules["a"] = r },
			map[string]duckv1alpha1.CheckState{"a": "approved", "b": "approved"}, 0, "",
		},
		"the object changed": {func(w *world) { w.object.Generation++ }, map[string]duckv1alpha1.CheckState{"a": "pending", "b": "pending"}, 2, approvalv1alpha1.ReasonObjectChanged},
		"an older object seen": {
			func(w *world) { w.object.Generation-- }, map[string]duckv1alpha1.CheckState{"a": "approved", "b": "approved"}, 0, "",
		},
		"a check gone": {func(w *world) { delete(w.checks, w.check("a").Ref.UID) }, map[string]duckv1alpha1.CheckState{"a": "pending", "b": "approved"}, 1, SupersededCheckGone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setRule("a", func(r *FoldRule) { r.Generation = 5 })
			w.setRule("b")
			w.object.Generation = 5
			w.step()
			w.approve("a", "b")
			require.Equal(t, readyGranted, ready(w.step()))
			until := w.request.Status.Validity.NotAfter
			made := w.made
			if name == "a rule re-created" {
				made++
			}
			if name == "a rule added" {
				made++
			}
			c.change(w)
			w.pass(time.Minute)
			s := w.step()
			assert.Equal(t, c.want, w.states())
			assert.Equal(t, c.asked, w.made-made)
			assert.Equal(t, until, s.Validity.NotAfter, "the end stays")
			if c.superseded != "" {
				require.NotEmpty(t, s.Superseded)
				assert.Equal(t, c.superseded, s.Superseded[0].Reason)
				assert.Equal(t, duckv1alpha1.CheckApproved, s.Superseded[0].State)
				assert.NotNil(t, s.Superseded[0].Check)
			} else {
				assert.Empty(t, s.Superseded)
			}
			if c.asked > 0 {
				assert.Equal(t, readyPending, ready(s))
			}
			for rule, state := range w.states() {
				if state == duckv1alpha1.CheckPending {
					w.approve(rule)
				}
			}
			assert.Equal(t, readyGranted, ready(w.step()), "and is granted again when answered")
			assert.Equal(t, until, w.request.Status.Validity.NotAfter)
		})
	}
}

func TestFoldOpenCheckOfAnEditedRuleIsClosed(t *testing.T) {
	w := newWorld(t, "a")
	w.step()
	old := w.check("a")
	w.setRule("a")
	w.step()
	assert.Equal(t, duckv1alpha1.CheckCancelled, old.Status.State)
	assert.Equal(t, duckv1alpha1.CheckPending, w.check("a").Status.State)
	assert.True(t, equality.Semantic.DeepEqual(w.request.Status.Superseded[0].Check.UID, old.Ref.UID))
}

func TestFoldCheckAskedAnewHasItsOwnEnd(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.request.Spec.TimeRange.Duration = &metav1.Duration{Duration: 8 * time.Hour}
	w.step()
	w.approve("a", "b")
	w.step()
	w.setRule("a", maxDuration(2*time.Hour))
	w.pass(time.Hour)
	w.step()
	w.pass(time.Hour)
	w.approve("a")
	s := w.step()
	assert.Equal(t, foldStart.Add(4*time.Hour), byName(s.Results, "a").NotAfter.Time, "two hours from its own approval")
	assert.Nil(t, byName(s.Results, "b").NotAfter)
	assert.Equal(t, foldStart.Add(4*time.Hour), s.Validity.NotAfter.Time)
	w.now = w.last.Wake
	assert.Equal(t, "False Expired", ready(w.step()))
}

func TestFoldGrantEndsWhileARuleIsAskedAnew(t *testing.T) {
	w := newWorld(t, "a")
	w.step()
	w.approve("a")
	w.step()
	w.setRule("a")
	w.step()
	w.pass(time.Hour)
	assert.Equal(t, "False Expired", ready(w.step()))
	assert.Zero(t, w.open())
}

func TestFoldChecksAfterNoneWereNeeded(t *testing.T) {
	w := newWorld(t)
	w.step()
	w.pass(50 * time.Minute)
	w.setRule("a")
	assert.Equal(t, readyPending, ready(w.step()))
	assert.Nil(t, w.request.Status.Validity, "there was no grant that could become shorter")
	w.approve("a")
	assert.Equal(t, foldStart.Add(110*time.Minute), w.step().Validity.NotAfter.Time)
}

func TestFoldSupersededIsBounded(t *testing.T) {
	w := newWorld(t, "a")
	for range 15 {
		w.step()
		w.setRule("a")
	}
	s := w.step()
	require.Len(t, s.Superseded, maxSuperseded)
	assert.Equal(t, int64(15), s.Superseded[9].Generation, "newest last")
}

func TestFoldReaskIsMarked(t *testing.T) {
	w := newWorld(t, "a")
	assert.False(t, Fold(w.input()).Again)
	w.step()
	w.setRule("a")
	assert.True(t, Fold(w.input()).Again)
	// Delayed: the status is written without the check.
	w.request.Status = Fold(w.input()).Status
	plan := Fold(w.input())
	assert.Len(t, plan.Ask, 1)
	assert.True(t, plan.Again)
	assert.Equal(t, readyPending, ready(&plan.Status))
	assert.Empty(t, plan.Status.RequestRefs)
}

func TestFoldRevocationByOwnerHolds(t *testing.T) {
	cases := map[string]struct {
		byOwner, wasGranted, held bool
	}{
		"an owner, granted":     {true, true, true},
		"an owner, not granted": {true, false, false},
		"an approver, granted":  {false, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a", "b")
			w.step()
			w.approve("a")
			if c.wasGranted {
				w.approve("b")
			}
			w.step()
			w.pass(time.Minute)
			w.check("a").Revocation = &approvalv1alpha1.CheckRevocation{Username: "boss", ByOwner: c.byOwner, Comment: "stop"}
			s := w.step()
			assert.Equal(t, "False Revoked", ready(s))
			require.NotNil(t, s.Ended)
			if !c.held {
				assert.Nil(t, s.Ended.HoldUntil)
				return
			}
			assert.Equal(t, foldStart.Add(time.Hour), s.Ended.HoldUntil.Time)
		})
	}
}

func TestFoldTamperedCheckCountsAgainWhenPutBack(t *testing.T) {
	w := newWorld(t, "a")
	w.step()
	w.approve("a")
	w.step()
	w.check("a").Ref.SpecDigest = "sha256:other"
	assert.Equal(t, "False Error", ready(w.step()))
	assert.Empty(t, w.last.Ask, "a tamperer cannot make the owners be asked over and over")
	w.check("a").Ref.SpecDigest = "sha256:asked"
	assert.Equal(t, readyGranted, ready(w.step()))
}

func TestFoldStraysAreClosed(t *testing.T) {
	w := newWorld(t, "a")
	w.step()
	w.checks["stray"] = &FoldCheck{Ref: approvalv1alpha1.CheckReference{Name: "a", UID: "stray"}, Status: duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckPending}}
	w.checks["old"] = &FoldCheck{Ref: approvalv1alpha1.CheckReference{Name: "a", UID: "old"}, Status: duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckApproved}}
	w.step()
	require.Len(t, w.last.Cancel, 1)
	assert.Equal(t, "stray", string(w.last.Cancel[0].UID))
}

func TestFoldFollows(t *testing.T) {
	leader := newWorld(t, "a")
	leader.request.Name = "leader"
	follower := newWorld(t, "a")
	follower.leader = leader.request
	sync := func() string { leader.step(); return ready(follower.step()) }

	assert.Equal(t, readyPending, ready(follower.step()), "before the leader was looked at")
	assert.Equal(t, readyPending, sync())
	assert.Empty(t, follower.checks, "it asks nothing")
	assert.Equal(t, "leader", follower.request.Status.Follows.Name)
	assert.Contains(t, readyMessage(&follower.request.Status), "dev/leader")

	leader.approve("a")
	assert.Equal(t, readyGranted, sync())
	assert.Empty(t, follower.request.Status.Results, "an answer stands in one request only")

	leader.now = leader.last.Wake
	assert.Equal(t, "False Expired", sync())
	assert.NotNil(t, follower.request.Status.Ended)
}

func TestFoldFollowerEndsAlone(t *testing.T) {
	cases := map[string]struct {
		end  func(*world)
		want string
	}{
		"taken back": {func(w *world) { w.request.Spec.Revoked = &approvalv1alpha1.Revocation{By: "me"} }, "False Revoked"},
		"too late": {
			func(w *world) { w.request.Spec.TimeRange.Before = &metav1.Time{Time: foldStart} }, "False Expired",
		},
		"object gone": {func(w *world) { w.object.Gone = true }, "False ObjectGone"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			leader, follower := newWorld(t, "a"), newWorld(t, "a")
			leader.step()
			follower.leader = leader.request
			c.end(follower)
			assert.Equal(t, c.want, ready(follower.step()))
			assert.Nil(t, leader.request.Status.Ended)
		})
	}
}

func TestFoldFollowerAsksWhenItsLeaderIsGone(t *testing.T) {
	leader, follower := newWorld(t, "a"), newWorld(t, "a")
	leader.step()
	follower.leader = leader.request
	follower.step()
	follower.leader = nil
	assert.Equal(t, readyPending, ready(follower.step()))
	assert.Nil(t, follower.request.Status.Follows)
	assert.Len(t, follower.checks, 1)
}

func TestFoldNeverReadsTheClock(t *testing.T) {
	w := newWorld(t, "a")
	s := w.step()
	c := apimeta.FindStatusCondition(s.Conditions, approvalv1alpha1.ConditionReady)
	assert.Equal(t, foldStart, c.LastTransitionTime.Time)
}

func TestFoldLeavesAskersAlone(t *testing.T) {
	w := newWorld(t, "a")
	w.request.Status.Askers = []string{"somebody"}
	assert.Equal(t, []string{"somebody"}, w.step().Askers)
}
