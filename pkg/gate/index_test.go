package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func asObject(t testing.TB, typed any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: content}
}

func rule(name, object string, generation int64) *approvalv1alpha1.ResourceCheckRule {
	return &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID("uid-" + name), Generation: generation},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{ObjectRef: approvalv1alpha1.ObjectReference{
			APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: "Connector", Name: object,
		}},
	}
}

func request(name, user string) *approvalv1alpha1.ResourceCheckRequest {
	return &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(epoch)},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{
				APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "object",
			},
			Context: approvalv1alpha1.RequestContext{Subject: &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: user}},
		},
	}
}

func keyFor(user string) fingerprint.Key {
	r := request("any", user)
	in := fingerprint.FromRequest(&r.Spec)
	return fingerprint.Sum(&in)
}

func TestRulesAreFoundByObjectWhateverTheVersion(t *testing.T) {
	x := newIndex()
	older := rule("b", "harbor", 1)
	older.Spec.ObjectRef.APIVersion = "connectors.alaudadevops.io/v1"
	x.setRule(asObject(t, older))
	x.setRule(asObject(t, rule("a", "harbor", 1)))
	x.setRule(asObject(t, rule("other", "git", 1)))

	set, ok := x.rules.Get(connectorKey("prod", "harbor"))
	require.True(t, ok)
	assert.Equal(t, []decision.RuleRef{{Name: "a", UID: "uid-a", Generation: 1}, {Name: "b", UID: "uid-b", Generation: 1}}, set.refs)

	x.setRule(asObject(t, rule("a", "harbor", 2)))
	set, _ = x.rules.Get(connectorKey("prod", "harbor"))
	assert.Equal(t, int64(2), set.refs[0].Generation, "an edited rule replaces the old one")

	x.forgetRule(types.NamespacedName{Namespace: "prod", Name: "a"}, "uid-a")
	x.forgetRule(types.NamespacedName{Namespace: "prod", Name: "b"}, "uid-b")
	_, ok = x.rules.Get(connectorKey("prod", "harbor"))
	assert.False(t, ok, "an object without rules leaves nothing behind")
}

func TestARuleThatCannotBeReadClosesItsObjectOnly(t *testing.T) {
	x := newIndex()
	broken := asObject(t, rule("broken", "harbor", 1))
	require.NoError(t, unstructured.SetNestedField(broken.Object, "1d", "spec", "grant", "maxDuration"))
	x.setRule(broken)
	x.setRule(asObject(t, rule("fine", "git", 1)))

	set, ok := x.rules.Get(connectorKey("prod", "harbor"))
	require.True(t, ok)
	verdict := decision.Decide(&decision.Input{Rules: set.rules, Refs: set.refs, Operation: operation.Operation{Class: operation.Read}, Now: epoch})
	assert.Equal(t, approvalv1alpha1.ReasonRuleNotReady, verdict.Reason)

	fine, _ := x.rules.Get(connectorKey("prod", "git"))
	assert.Empty(t, fine.rules[0].NotReady)
}

func TestRequestsAreFoundByWhatTheyAskNewestFirst(t *testing.T) {
	x := newIndex()
	newer := request("newer", "dev")
	newer.CreationTimestamp = metav1.NewTime(epoch.Add(time.Hour))
	x.setRequest(asObject(t, request("older", "dev")))
	x.setRequest(asObject(t, newer))
	x.setRequest(asObject(t, request("others", "somebody else")))

	names := func() (all []string) {
		for _, r := range x.found([]fingerprint.Key{keyFor("dev")}) {
			all = append(all, r.Name)
		}
		return all
	}
	assert.Equal(t, []string{"newer", "older"}, names())

	forged := request("forged", "somebody else")
	forged.Labels = map[string]string{approvalv1alpha1.LabelFingerprint: keyFor("dev").String()}
	forged.Status.Fingerprint = keyFor("dev").String()
	x.setRequest(asObject(t, forged))
	assert.Equal(t, []string{"newer", "older"}, names(), "neither label nor status say what a request asks")

	x.forgetRequest(types.NamespacedName{Namespace: "team-a", Name: "newer"}, "uid-newer")
	assert.Equal(t, []string{"older"}, names())
}

func TestARequestThatCannotBeReadAnswersNothing(t *testing.T) {
	x := newIndex()
	x.setRequest(asObject(t, request("r", "dev")))
	broken := asObject(t, request("r", "dev"))
	require.NoError(t, unstructured.SetNestedField(broken.Object, "1d", "spec", "timeRange", "duration"))
	x.setRequest(broken)
	assert.Empty(t, x.found([]fingerprint.Key{keyFor("dev")}))
}

func TestMirrorForgetsWhatARelistLacksAndWhatWasRecreated(t *testing.T) {
	x := newIndex()
	m := &mirror{set: x.setRequest, forget: x.forgetRequest}
	require.NoError(t, m.Add(asObject(t, request("kept", "dev"))))
	require.NoError(t, m.Add(asObject(t, request("gone", "dev"))))
	assert.False(t, m.HasSynced())

	recreated := request("kept", "dev")
	recreated.UID = "another"
	require.NoError(t, m.Replace([]any{asObject(t, recreated)}, "1"))
	assert.True(t, m.HasSynced())
	all := x.found([]fingerprint.Key{keyFor("dev")})
	require.Len(t, all, 1)
	assert.Equal(t, types.UID("another"), all[0].UID)
}

func TestInboxHoldsWhatTheCallerMayAnswerNearestDeadlineFirst(t *testing.T) {
	g := &Gate{inbox: newInbox()}
	add := func(name string, timeout time.Duration, change func(*approvalv1alpha1.ApprovalRequest)) {
		check := &approvalv1alpha1.ApprovalRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(epoch)},
			Spec: approvalv1alpha1.ApprovalRequestSpec{
				Policies: []approvalv1alpha1.ApprovalPolicy{{Name: "p", NumberOfApprovalsRequired: 1,
					Approvers: []approvalv1alpha1.Approver{{Type: approvalv1alpha1.ApproverGroup, Name: "owners"}}}},
				Timeout: &metav1.Duration{Duration: timeout},
				Request: &approvalv1alpha1.CheckRequest{
					Ref:         approvalv1alpha1.RequestReference{Namespace: "team-a", Name: "r", UID: types.UID("request-of-" + name)},
					RequestedBy: approvalv1alpha1.Identity{Username: "dev"},
					Subject:     approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "dev"},
				},
			},
		}
		change(check)
		g.inbox.set(asObject(t, check))
	}
	plain := func(*approvalv1alpha1.ApprovalRequest) {}
	add("late", 3*time.Hour, plain)
	add("soon", time.Hour, plain)
	add("decided", time.Hour, func(c *approvalv1alpha1.ApprovalRequest) { c.Status.State = duckv1alpha1.CheckApproved })
	add("answered", time.Hour, func(c *approvalv1alpha1.ApprovalRequest) {
		c.Status.DecidedBy = []duckv1alpha1.CheckDecision{{Username: "owner", Decision: "Approve"}}
	})
	add("asked-too", time.Hour, plain)
	asking := request("asking", "dev")
	asking.UID, asking.Status.Askers = "request-of-asked-too", []string{"owner"}
	g.inbox.setAskers(asObject(t, asking))

	owner := &token.Identity{Username: "owner", Groups: []string{"owners"}}
	items, more := g.Inbox(owner, "", 1)
	require.Len(t, items, 1)
	assert.Equal(t, "soon", items[0].Name)
	assert.True(t, more)
	items, more = g.Inbox(owner, items[0].UID, 10)
	require.Len(t, items, 1)
	assert.Equal(t, "late", items[0].Name)
	assert.False(t, more)

	for _, who := range []*token.Identity{{Username: "stranger"}, {Username: "dev", Groups: []string{"owners"}}} {
		items, _ = g.Inbox(who, "", 10)
		assert.Emptyf(t, items, "%s may answer nothing", who.Username)
	}
}

func TestChangesWakeWhoTookTheChannelBefore(t *testing.T) {
	c := newChanges()
	before := c.Next()
	c.Happened()
	select {
	case <-before:
	default:
		t.Fatal("a change after the channel was taken must close it")
	}
	select {
	case <-c.Next():
		t.Fatal("the next channel waits for the next change")
	default:
	}
}

func BenchmarkIndexedDecision(b *testing.B) {
	for _, size := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("requests=%d", size), func(b *testing.B) {
			x := newIndex()
			x.setRule(asObject(b, rule("owners", "harbor", 1)))
			keys := make([]fingerprint.Key, size)
			for i := range size {
				user := fmt.Sprintf("user-%d", i)
				r := request(user, user)
				r.Status.Object = &approvalv1alpha1.ObjectSnapshot{UID: "object", Generation: 1}
				r.Status.Results = []approvalv1alpha1.CheckResult{{Name: "owners", UID: "uid-owners", Generation: 1, State: duckv1alpha1.CheckApproved}}
				r.Status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(epoch), NotAfter: metav1.NewTime(epoch.Add(time.Hour))}
				x.setRequest(asObject(b, r))
				keys[i] = keyFor(user)
			}
			for name, next := range map[string]func(int) int{"hot": func(int) int { return 0 }, "random": func(i int) int { return i * 7919 % size }} {
				b.Run(name, func(b *testing.B) { benchmarkDecision(b, x, keys, next) })
			}
		})
	}
}

func benchmarkDecision(b *testing.B, x *index, keys []fingerprint.Key, next func(int) int) {
	path, err := operation.Parse("/v2/app/manifests/1")
	require.NoError(b, err)
	in := decision.Input{
		Object:    decision.Object{Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "object", Generation: 1},
		Operation: operation.Operation{Class: operation.Write, Method: "PUT", Path: path}, Now: epoch.Add(time.Minute),
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		at := next(i)
		set, _ := x.rules.Get(connectorKey("prod", "harbor"))
		in.Rules, in.Refs, in.Requests = set.rules, set.refs, x.found(keys[at:at+1])
		if !decision.Decide(&in).Allow {
			b.Fatal("the request is approved")
		}
		i++
	}
}
