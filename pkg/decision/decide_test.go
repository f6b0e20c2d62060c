package decision

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

const (
	approved  = duckv1alpha1.CheckApproved
	pending   = duckv1alpha1.CheckPending
	rejected  = duckv1alpha1.CheckRejected
	broken    = duckv1alpha1.CheckError
	cancelled = duckv1alpha1.CheckCancelled
)

func granted(name string, rules ...string) *requestBuilder {
	b := makeRequest(name).Valid(-time.Minute, time.Hour)
	for _, rule := range rules {
		b.Result(rule, approved)
	}
	return b
}

func TestDecide(t *testing.T) {
	read := operation.Operation{Class: operation.Read}
	tests := map[string]struct {
		rules     []*ruleBuilder
		requests  []*requestBuilder
		op        operation.Operation
		change    func(*Input)
		want      string // the reason, with + for an allow
		wantOf    string // the request spoken of
		wantText  string
		wantRules int
	}{
		"no rules": {want: "+NoApplicableRule"},
		"no rules, but checks required": {change: func(in *Input) { in.Object.RequireChecks = true }, want: "NoRules",
			wantText: "Connector prod/harbor needs a check for every write, and no rule covers Write (PUT /v2/app/manifests/1): its owner must add a rule."},
		"no rule applies": {rules: []*ruleBuilder{makeRule("a").When(paths("/api/**"))}, want: "+NoApplicableRule"},
		"no rule applies, but checks required": {rules: []*ruleBuilder{makeRule("a").When(paths("/api/**"))},
			change: func(in *Input) { in.Object.RequireChecks = true }, want: "NoRules"},
		"a read passes without rules": {op: read, change: func(in *Input) { in.Object.RequireChecks = true }, want: "+NoApplicableRule"},
		"a condition that cannot be read applies": {rules: []*ruleBuilder{makeRule("a").When(paths("/a/**/b"))}, want: "NoRequest",
			wantText: "Connector prod/harbor is guarded by rule a, and nobody has asked for this use: ask for an approval."},
		"an unknown class applies": {rules: []*ruleBuilder{makeRule("a").When(&approvalv1alpha1.OperationSelector{
			Operations: []approvalv1alpha1.OperationClass{"Delete"}})}, want: "NoRequest"},

		"approved":          {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{granted("r", "a")}, want: "+AllChecksApproved", wantOf: "r"},
		"approved by both":  {rules: []*ruleBuilder{makeRule("a"), makeRule("b")}, requests: []*requestBuilder{granted("r", "a", "b")}, want: "+AllChecksApproved", wantOf: "r", wantRules: 2},
		"an older approval": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("new").Result("a", pending), granted("old", "a")}, want: "+AllChecksApproved", wantOf: "old"},
		"approvals do not add up over requests": {rules: []*ruleBuilder{makeRule("a"), makeRule("b")},
			requests: []*requestBuilder{granted("r1", "a"), granted("r2", "b")}, want: "RulesChanged", wantOf: "r1"},
		"the rule that does not apply need not approve": {rules: []*ruleBuilder{makeRule("a"), makeRule("b").When(paths("/api/**"))},
			requests: []*requestBuilder{granted("r", "a")}, want: "+AllChecksApproved", wantOf: "r"},
		"rules that apply are no neighbours": {rules: []*ruleBuilder{makeRule("a"), makeRule("b").When(paths("/api/**")), makeRule("c")},
			requests: []*requestBuilder{granted("r", "a", "c")}, want: "+AllChecksApproved", wantOf: "r", wantRules: 2},
		"a read that a rule guards": {rules: []*ruleBuilder{makeRule("a").When(paths("/v2/**"))}, op: read,
			requests: []*requestBuilder{granted("r", "a")}, want: "OutsideRequest", wantOf: "r"},

		"rule edited": {rules: []*ruleBuilder{makeRule("a").Generation(2)}, requests: []*requestBuilder{granted("r", "a")}, want: "RulesChanged", wantOf: "r",
			wantText: "Rule a was added or changed after request dev/r was asked; it is asked again: wait for its answer."},
		"rule made anew under its name": {rules: []*ruleBuilder{makeRule("a").UID("other")}, requests: []*requestBuilder{granted("r", "a")}, want: "RulesChanged", wantOf: "r"},
		"rule added":                    {rules: []*ruleBuilder{makeRule("a"), makeRule("b")}, requests: []*requestBuilder{granted("r", "a")}, want: "RulesChanged", wantOf: "r"},
		"rule reverted to an older generation number": {rules: []*ruleBuilder{makeRule("a")}, want: "RulesChanged", wantOf: "r",
			requests: []*requestBuilder{granted("r", "a").With(func(r *approvalv1alpha1.ResourceCheckRequest) { r.Status.Results[0].Generation = 2 })}},
		"rule not ready": {rules: []*ruleBuilder{makeRule("a").Ready(metav1.ConditionFalse, 1)}, requests: []*requestBuilder{granted("r", "a")}, want: "RuleNotReady",
			wantText: "Rule a guards this use but cannot ask anybody (UnknownCheckKind: nobody registered the kind): its owner must repair it."},
		"second rule not ready": {rules: []*ruleBuilder{makeRule("a"), makeRule("b").Ready(metav1.ConditionFalse, 1)}, want: "RuleNotReady"},
		"rule was not ready before its edit": {rules: []*ruleBuilder{makeRule("a").Ready(metav1.ConditionFalse, 0)}, requests: []*requestBuilder{granted("r", "a")},
			want: "+AllChecksApproved", wantOf: "r"},
		"object edited": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{granted("r", "a")}, change: func(in *Input) { in.Object.Generation = 2 },
			want: "ObjectChanged", wantOf: "r", wantText: "Connector prod/harbor was changed after request dev/r was asked; the checks are asked again: wait for their answers."},
		"object made anew": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{granted("r", "a")}, change: func(in *Input) { in.Object.UID = "o2" },
			want: "ObjectChanged", wantOf: "r"},

		"outside the use": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{granted("r", "a").Use(paths("/v2/other/**"))}, want: "OutsideRequest", wantOf: "r",
			wantText: "Request dev/r does not cover Write (PUT /v2/app/manifests/1): ask for this use too."},
		"a use that cannot be read covers nothing": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{granted("r", "a").Use(paths("/a/**/b"))}, want: "OutsideRequest", wantOf: "r"},
		"just received": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").With(func(r *approvalv1alpha1.ResourceCheckRequest) { r.Status.Object = nil })},
			want: "ChecksPending", wantOf: "r", wantText: "Request dev/r has been received, and its checks are about to be asked."},
		"pending": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", pending, "prod-owners")}, want: "ChecksPending", wantOf: "r",
			wantText: "Request dev/r waits for the answer to rule a from group prod-owners (2 answers)."},
		"another rule of the request is pending": {rules: []*ruleBuilder{makeRule("a"), makeRule("b").When(paths("/api/**"))},
			requests: []*requestBuilder{makeRequest("r").Result("a", approved).Result("b", pending, "api-owners")}, want: "ChecksPending", wantOf: "r",
			wantText: "Request dev/r waits for the answers to its other rules from group api-owners (2 answers)."},
		"rejected": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", rejected).Message("Rejected by bob.")}, want: "ChecksRejected", wantOf: "r",
			wantText: "Request dev/r was rejected for rule a, saying: Rejected by bob."},
		"failed": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", broken).Message("no such host")}, want: "Error", wantOf: "r",
			wantText: "The check of rule a failed for request dev/r, saying: no such host; it is tried again."},
		"unknown state": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", "great").Valid(0, time.Hour)}, want: "Error", wantOf: "r"},
		"given up":      {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", cancelled)}, want: "Expired", wantOf: "r"},
		"the worst is told": {rules: []*ruleBuilder{makeRule("a"), makeRule("b"), makeRule("c")}, want: "ChecksRejected", wantOf: "r",
			requests: []*requestBuilder{makeRequest("r").Result("a", pending).Result("b", broken).Result("c", rejected)}},
		"approved, not granted yet": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", approved)}, want: "ChecksPending", wantOf: "r"},
		"not yet valid": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", approved).Valid(time.Minute, time.Hour)}, want: "NotYetValid", wantOf: "r",
			wantText: "Request dev/r is approved, but holds only from 2026-03-02T09:01:00Z on."},
		"valid from now on": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", approved).Valid(0, time.Hour)}, want: "+AllChecksApproved", wantOf: "r"},
		"expired now": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{makeRequest("r").Result("a", approved).Valid(-time.Hour, 0)}, want: "Expired", wantOf: "r",
			wantText: "Request dev/r ended at 2026-03-02T09:00:00Z (Expired): ask again if you still need it."},
		"one answer expired": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{granted("r", "a").ResultEnds(0)}, want: "Expired", wantOf: "r",
			wantText: "The answer to rule a no longer holds for request dev/r: ask again."},
		"the requester's own end": {rules: []*ruleBuilder{makeRule("a")}, want: "Expired", wantOf: "r",
			requests: []*requestBuilder{makeRequest("r").Result("a", pending).With(func(r *approvalv1alpha1.ResourceCheckRequest) {
				r.Spec.TimeRange = &approvalv1alpha1.TimeRange{Before: &metav1.Time{Time: now}}
			})}},
		"ended": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{granted("r", "a").Ended("Revoked")}, want: "Revoked", wantOf: "r",
			wantText: "Request dev/r ended at 2026-03-02T08:00:00Z (Revoked), saying: so it was decided: ask again if you still need it."},
		"revoked in the spec, not recorded yet": {rules: []*ruleBuilder{makeRule("a")}, want: "Revoked", wantOf: "r",
			requests: []*requestBuilder{granted("r", "a").With(func(r *approvalv1alpha1.ResourceCheckRequest) {
				r.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: "leaked", By: "dev1"}
			})}, wantText: "Request dev/r ended (Revoked), saying: revoked by dev1: ask again if you still need it."},
		"context ended": {rules: []*ruleBuilder{makeRule("a")}, requests: []*requestBuilder{granted("r", "a")}, change: func(in *Input) { in.ContextEnded = "PipelineRun dev/run-1 has finished" },
			want: "ContextEnded", wantOf: "r", wantText: "Request dev/r was for a run that has ended (PipelineRun dev/run-1 has finished): ask anew for the run that goes on."},
		"context ended, unguarded read": {op: read, change: func(in *Input) { in.ContextEnded = "it has finished" }, want: "+NoApplicableRule"},

		"speaks of the newest": {rules: []*ruleBuilder{makeRule("a")}, want: "ChecksRejected", wantOf: "new",
			requests: []*requestBuilder{makeRequest("new").Created(time.Second).Ended("ChecksRejected"), makeRequest("old").Result("a", pending)}},
		"of two made in one second, speaks of the live one": {rules: []*ruleBuilder{makeRule("a")}, want: "ChecksPending", wantOf: "live",
			requests: []*requestBuilder{makeRequest("over").Ended("ChecksRejected"), makeRequest("live").Result("a", pending)}},
		"speaks of the newest that covers the use": {rules: []*ruleBuilder{makeRule("a")}, want: "ChecksPending", wantOf: "old",
			requests: []*requestBuilder{makeRequest("new").Use(paths("/v2/other/**")).Ended("Revoked"), makeRequest("old").Result("a", pending)}},
		"speaks of a live one if none covers the use": {rules: []*ruleBuilder{makeRule("a")}, want: "OutsideRequest", wantOf: "old",
			requests: []*requestBuilder{makeRequest("new").Use(paths("/v2/other/**")).Ended("Revoked"), makeRequest("old").Use(paths("/v2/other/**"))}},
		"speaks of the leader of a follower": {rules: []*ruleBuilder{makeRule("a")}, want: "ChecksPending", wantOf: "old",
			requests: []*requestBuilder{makeRequest("new").Follows("uid-old"), makeRequest("old").Result("a", pending, "prod-owners")}},
		"follower of a request that is not known": {rules: []*ruleBuilder{makeRule("a")}, want: "ChecksPending", wantOf: "new",
			requests: []*requestBuilder{makeRequest("new").Follows("uid-gone").Result("a", approved).Valid(0, time.Hour)},
			wantText: "Request dev/new waits for the answers to an equal request that was made before it."},
		"an ended follower speaks for itself": {rules: []*ruleBuilder{makeRule("a")}, want: "Revoked", wantOf: "new",
			requests: []*requestBuilder{makeRequest("new").Created(time.Second).Follows("uid-old").Ended("Revoked"), makeRequest("old").Result("a", pending)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := &Input{Object: Object{Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o1", Generation: 1}, Operation: tt.op, Now: now}
			if tt.op.Class == "" {
				in.Operation = put(t, "/v2/app/manifests/1")
			}
			for _, rule := range tt.rules {
				in.Rules = append(in.Rules, rule.Obj())
			}
			for _, request := range tt.requests {
				in.Requests = append(in.Requests, request.Obj(t))
			}
			if tt.change != nil {
				tt.change(in)
			}
			got := Decide(in)
			in.Refs = Refs(in.Rules)
			assert.Equal(t, got, Decide(in), "prepared references change nothing")
			checkVerdict(t, got, tt.want, tt.wantOf, tt.wantText)
			if tt.wantRules > 0 {
				assert.Len(t, got.Rules, tt.wantRules)
			}
		})
	}
}

func checkVerdict(t *testing.T, got Verdict, want, wantOf, wantText string) {
	t.Helper()
	reason, of := got.Reason, ""
	if got.Allow {
		reason = "+" + reason
		assert.Empty(t, got.Message)
	} else {
		assert.NotEmpty(t, got.Message)
	}
	if got.Request != nil {
		of = got.Request.Name
	}
	assert.Equal(t, want, reason, got.Message)
	assert.Equal(t, wantOf, of)
	if wantText != "" {
		assert.Equal(t, wantText, got.Message)
	}
}

func TestDecideTellsWhenTheAllowEnds(t *testing.T) {
	in := &Input{Object: Object{UID: "o1", Generation: 1}, Rules: []Rule{makeRule("a").Obj(), makeRule("b").When(paths("/api/**")).Obj()},
		Operation: put(t, "/v2/app"), Now: now}
	in.Requests = []*Request{granted("r", "a", "b").ResultEnds(time.Minute).Obj(t)}
	assert.Equal(t, now.Add(time.Hour), Decide(in).Until, "the end of a rule that does not apply does not matter")
	in.Requests = []*Request{granted("r", "b", "a").ResultEnds(time.Minute).Obj(t)}
	assert.Equal(t, now.Add(time.Minute), Decide(in).Until)
}

func TestDecideListsWhoIsWaitedFor(t *testing.T) {
	in := &Input{Object: Object{UID: "o1", Generation: 1}, Rules: []Rule{makeRule("a").Obj(), makeRule("b").Obj()}, Operation: put(t, "/v2/app"), Now: now}
	in.Requests = []*Request{makeRequest("r").Result("a", pending, "owners").Result("b", pending, "security").Obj(t)}
	got := Decide(in)
	assert.Equal(t, []duckv1alpha1.CheckWaiting{
		{Kind: duckv1alpha1.WaitingForGroup, Name: "owners", Missing: 2}, {Kind: duckv1alpha1.WaitingForGroup, Name: "security", Missing: 2},
	}, got.WaitingFor)
}

// hotInput is one connector with two rules, of which one applies, and one granted request.
func hotInput(t testing.TB) *Input {
	rules := []Rule{makeRule("a").When(paths("/v2/**")).Obj(), makeRule("b").When(paths("/api/**")).Obj()}
	return &Input{
		Object: Object{Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o1", Generation: 1, RequireChecks: true},
		Rules:  rules, Refs: Refs(rules), Requests: []*Request{granted("r", "a", "b").Obj(t)},
		Operation: put(t, "/v2/team/app/manifests/1"), Now: now,
	}
}

func TestDecideAllowsWithoutAllocating(t *testing.T) {
	in := hotInput(t)
	require.True(t, Decide(in).Allow)
	assert.Zero(t, testing.AllocsPerRun(100, func() { Decide(in) }))
	in.Operation.Class = operation.Read
	in.Rules, in.Refs = in.Rules[1:], in.Refs[1:]
	require.True(t, Decide(in).Allow)
	assert.Zero(t, testing.AllocsPerRun(100, func() { Decide(in) }))
}

func BenchmarkDecide(b *testing.B) {
	in := hotInput(b)
	b.ReportAllocs()
	for b.Loop() {
		Decide(in)
	}
}

func TestAppliesTo(t *testing.T) {
	rule := makeRule("a").When(paths("/v2/app/**")).Obj()
	assert.True(t, AppliesTo(&rule, Use(nil)))
	assert.True(t, AppliesTo(&rule, Use(paths("/v2/**"))))
	assert.False(t, AppliesTo(&rule, Use(paths("/v2/other/**"))))
	assert.True(t, AppliesTo(&rule, Use(paths("not a pattern"))), "unsure asks")
}

func TestEnded(t *testing.T) {
	tests := map[string]struct {
		request *requestBuilder
		reason  string
		at      time.Duration
	}{
		"live":     {request: granted("r", "a")},
		"recorded": {request: granted("r", "a").Ended("ContextEnded"), reason: "ContextEnded", at: -time.Hour},
		"recorded goes before revoked": {request: granted("r", "a").Ended("Expired").With(func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Revoked = &approvalv1alpha1.Revocation{At: &metav1.Time{Time: now}}
		}), reason: "Expired", at: -time.Hour},
		"revoked": {request: granted("r", "a").With(func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Revoked = &approvalv1alpha1.Revocation{At: &metav1.Time{Time: now.Add(-time.Minute)}}
		}), reason: "Revoked", at: -time.Minute},
		"validity passed": {request: makeRequest("r").Valid(-time.Hour, -time.Second), reason: "Expired", at: -time.Second},
		"its own end passed": {request: makeRequest("r").With(func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.TimeRange = &approvalv1alpha1.TimeRange{Before: &metav1.Time{Time: now.Add(-time.Second)}}
		}), reason: "Expired", at: -time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			reason, at, ended := Ended(&tt.request.request, now)
			assert.Equal(t, tt.reason, reason)
			assert.Equal(t, tt.reason != "", ended)
			if ended {
				assert.Equal(t, now.Add(tt.at), at)
			}
		})
	}
}

func TestFromRequest(t *testing.T) {
	_, err := FromRequest(&approvalv1alpha1.ResourceCheckRequest{})
	assert.Error(t, err, "a request without a subject answers nothing")

	long := make([]rune, 0, 1000)
	for range 1000 {
		long = append(long, 'ö')
	}
	r := makeRequest("r").Result("a", approved, "owners").Message("thank you").Result("b", broken).Message(string(long)).Obj(t)
	assert.Empty(t, r.Results[0].Message, "texts of approved results are not held")
	assert.Empty(t, r.Results[0].WaitingFor)
	assert.LessOrEqual(t, len(r.Results[1].Message), maxMessage+len("…"))
	assert.Equal(t, types.UID("o1"), r.ObjectUID)
}

func TestDenialsNameManyBriefly(t *testing.T) {
	in := &Input{Object: Object{Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o1", Generation: 1}, Operation: put(t, "/v2/app"), Now: now}
	b := makeRequest("r")
	for i := range 20 {
		in.Rules = append(in.Rules, makeRule(fmt.Sprint("rule", i)).Obj())
		b.Result(fmt.Sprint("rule", i), pending)
	}
	assert.Contains(t, Decide(in).Message, "rule0, rule1, rule2, rule3, rule4, rule5, rule6, rule7, others,")
	in.Requests = []*Request{b.Obj(t)}
	assert.Equal(t, "Request dev/r waits for the answer to rule rule0.", Decide(in).Message)
}
