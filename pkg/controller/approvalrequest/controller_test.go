package approvalrequest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// world is a controller with the objects it works on; writes counts the status writes.
type world struct {
	t        *testing.T
	clock    *testingclock.FakeClock
	client   client.Client
	events   *events.FakeRecorder
	ctrl     *Controller
	writes   int
	requeued time.Duration
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: testingclock.NewFakeClock(start), events: events.NewFakeRecorder(100)}
	scheme := runtime.NewScheme()
	require.NoError(t, approvalv1alpha1.AddToScheme(scheme))
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&approvalv1alpha1.ApprovalRequest{}, &approvalv1alpha1.ResourceCheckRequest{}).
		WithIndex(&approvalv1alpha1.ApprovalResponse{}, indexRequestUID, RequestUID).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			w.writes++
			return c.SubResource(sub).Apply(ctx, obj, opts...)
		}}).Build()
	w.ctrl = New(w.clock, w.client, w.events)
	return w
}

func makeCheck() *approvalv1alpha1.ApprovalRequest {
	return &approvalv1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "check", UID: "c1", Generation: 1},
		Spec: approvalv1alpha1.ApprovalRequestSpec{
			Policies: []approvalv1alpha1.ApprovalPolicy{{Name: "owners", NumberOfApprovalsRequired: 1,
				Approvers: []approvalv1alpha1.Approver{{Type: approvalv1alpha1.ApproverUser, Name: "alice"}, {Type: approvalv1alpha1.ApproverUser, Name: "bob"}}}},
			Timeout: &metav1.Duration{Duration: time.Hour},
			Request: &approvalv1alpha1.CheckRequest{
				Ref:         approvalv1alpha1.RequestReference{Namespace: "dev", Name: "ask", UID: "r1"},
				RequestedBy: approvalv1alpha1.Identity{Username: "dev1"}, Subject: approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "dev1"},
			},
		},
	}
}

func makeRequest(askers ...string) *approvalv1alpha1.ResourceCheckRequest {
	return &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "ask", UID: "r1"},
		Status: approvalv1alpha1.ResourceCheckRequestStatus{
			Askers: askers,
			RequestRefs: []approvalv1alpha1.CheckReference{
				{Name: "rule", APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: kind, Namespace: "prod", ObjectName: "check", UID: "c1"},
				{Name: "other", APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ScriptCheck", Namespace: "prod", ObjectName: "script"},
			},
		},
	}
}

func makeAnswer(user string, decision approvalv1alpha1.ApprovalDecision, second int) *approvalv1alpha1.ApprovalResponse {
	return &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: user + "-" + string(decision[0]|0x20), UID: types.UID(user + "-" + string(decision)),
			CreationTimestamp: metav1.NewTime(start.Add(time.Duration(second) * time.Second))},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Kind: kind, Name: "check", UID: "c1"}, Decision: decision,
			Responder: &approvalv1alpha1.Identity{Username: user, Extra: map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=1"}}},
			Comment:   "because",
		},
	}
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		require.NoError(w.t, w.client.Create(context.Background(), object))
	}
}

func (w *world) check() *approvalv1alpha1.ApprovalRequest {
	w.t.Helper()
	check := &approvalv1alpha1.ApprovalRequest{}
	require.NoError(w.t, w.client.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "check"}, check))
	return check
}

func (w *world) reconcile() *approvalv1alpha1.ApprovalRequest {
	w.t.Helper()
	result, err := w.ctrl.Reconcile(context.Background(), w.check())
	require.NoError(w.t, err)
	w.requeued = result.RequeueAfter
	return w.check()
}

func (w *world) event() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return ""
	}
}

func ready(check *approvalv1alpha1.ApprovalRequest) string {
	c := apimeta.FindStatusCondition(check.Status.Conditions, approvalv1alpha1.ConditionReady)
	return string(c.Status) + " " + c.Reason
}

func TestFirstLookSaysWhoIsWaitedFor(t *testing.T) {
	w := newWorld(t, makeCheck(), makeRequest())
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckPending, check.Status.State)
	assert.True(t, check.Status.StartedAt.Time.Equal(start))
	assert.Equal(t, int64(1), check.Status.ObservedGeneration)
	assert.Len(t, check.Status.WaitingFor, 2)
	assert.Equal(t, "Unknown Pending", ready(check))
	assert.Equal(t, time.Hour, w.requeued, "it comes back for the timeout")
	assert.Empty(t, w.event(), "waiting is no transition")
}

func TestNoWriteWhenNothingChanged(t *testing.T) {
	w := newWorld(t, makeCheck(), makeRequest())
	w.clock.Step(1500 * time.Millisecond)
	w.reconcile()
	w.clock.Step(10 * time.Minute)
	w.reconcile()
	assert.Equal(t, 1, w.writes)
}

func TestApproval(t *testing.T) {
	w := newWorld(t, makeCheck(), makeRequest())
	w.reconcile()
	w.clock.Step(time.Minute)
	w.create(makeAnswer("alice", approvalv1alpha1.DecisionApprove, 60))
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckApproved, check.Status.State)
	assert.Equal(t, "True Approved", ready(check))
	assert.Empty(t, check.Status.WaitingFor)
	assert.Equal(t, "alice", check.Status.DecidedBy[0].Username)
	assert.Equal(t, "Normal Approved Approved by alice.", w.event())
	assert.Equal(t, 2, w.writes, "one write for the question, one for the answer")
	assert.Zero(t, w.requeued)
	condition := apimeta.FindStatusCondition(check.Status.Conditions, approvalv1alpha1.ConditionReady)
	assert.True(t, condition.LastTransitionTime.Time.Equal(start.Add(time.Minute)), "the controller's clock decides")

	w.create(makeAnswer("bob", approvalv1alpha1.DecisionReject, 61))
	w.reconcile()
	assert.Equal(t, 2, w.writes, "what was decided stays decided")

	w.create(makeAnswer("alice", approvalv1alpha1.DecisionRevoke, 62))
	check = w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckCancelled, check.Status.State)
	assert.Equal(t, "False Revoked", ready(check))
	assert.Equal(t, "alice", check.Status.Revocation.Username)
	assert.Equal(t, `Warning Revoked Revoked by alice, who says: "because".`, w.event())
}

func TestAnswersThatDoNotCount(t *testing.T) {
	otherCheck := makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1)
	otherCheck.Name, otherCheck.Spec.RequestRef.UID = "former", "c0"
	otherNamespace := makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1)
	otherNamespace.Namespace = "dev"
	otherKind := makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1)
	otherKind.Name, otherKind.Spec.RequestRef.Kind = "kind", "ScriptCheck"
	nobody := makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1)
	nobody.Name, nobody.Spec.Responder = "nobody", nil
	noUID := makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1)
	noUID.Name, noUID.Spec.RequestRef.UID = "nouid", ""
	w := newWorld(t, makeCheck(), makeRequest(), otherCheck, otherNamespace, otherKind, nobody, noUID)
	assert.Equal(t, duckv1alpha1.CheckPending, w.reconcile().Status.State)
}

func TestAskersDoNotApprove(t *testing.T) {
	t.Run("those of the request", func(t *testing.T) {
		w := newWorld(t, makeCheck(), makeRequest("alice"), makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1))
		check := w.reconcile()
		assert.Equal(t, duckv1alpha1.CheckPending, check.Status.State)
		assert.Len(t, check.Status.WaitingFor, 1)
	})
	t.Run("not those of another request of that name", func(t *testing.T) {
		other := makeRequest("alice")
		other.UID = "r2"
		w := newWorld(t, makeCheck(), other, makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1))
		assert.Equal(t, duckv1alpha1.CheckApproved, w.reconcile().Status.State)
	})
	t.Run("unreadable askers are an error, not none", func(t *testing.T) {
		w := newWorld(t, makeCheck(), makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1))
		w.ctrl.client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return assert.AnError
			}})
		_, err := w.ctrl.Reconcile(context.Background(), w.check())
		assert.ErrorIs(t, err, assert.AnError)
		assert.Zero(t, w.writes)
	})
}

func TestTimeout(t *testing.T) {
	w := newWorld(t, makeCheck(), makeRequest())
	w.reconcile()
	w.clock.Step(time.Hour)
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckCancelled, check.Status.State)
	assert.Equal(t, duckv1alpha1.CheckReasonTimedOut, check.Status.Reason)
	assert.Equal(t, "Warning TimedOut Nobody decided before 2026-03-02T10:00:00Z: ask again.", w.event())

	w.create(makeAnswer("alice", approvalv1alpha1.DecisionApprove, 3601))
	assert.Equal(t, duckv1alpha1.CheckCancelled, w.reconcile().Status.State)
}

func TestCancelledByTheRequestStaysCancelled(t *testing.T) {
	w := newWorld(t, makeCheck(), makeRequest(), makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1))
	stale := w.check()
	cancelled := w.check()
	cancelled.Status.State, cancelled.Status.Reason = duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonRequestEnded
	require.NoError(t, w.client.Status().Update(context.Background(), cancelled))

	_, err := w.ctrl.Reconcile(context.Background(), stale)
	require.NoError(t, err)
	assert.Equal(t, duckv1alpha1.CheckCancelled, w.check().Status.State, "a stale read must not open it again")
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckCancelled, check.Status.State)
	assert.Equal(t, duckv1alpha1.CheckReasonRequestEnded, check.Status.Reason)
	writes := w.writes
	w.reconcile()
	assert.Equal(t, writes, w.writes)
}

func TestMapping(t *testing.T) {
	answer := makeAnswer("alice", approvalv1alpha1.DecisionApprove, 1)
	require.Len(t, answered(context.Background(), answer), 1)
	assert.Equal(t, "prod/check", answered(context.Background(), answer)[0].String())
	answer.Spec.RequestRef.Kind = "ScriptCheck"
	assert.Empty(t, answered(context.Background(), answer))

	require.Len(t, asked(context.Background(), makeRequest()), 1)
	assert.Equal(t, "prod/check", asked(context.Background(), makeRequest())[0].String())
}

func TestAskersChanged(t *testing.T) {
	noChecks := makeRequest("alice")
	noChecks.Status.RequestRefs = nil
	update := func(before, after *approvalv1alpha1.ResourceCheckRequest) bool {
		return askersChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	assert.True(t, update(makeRequest(), makeRequest("alice")))
	assert.True(t, update(noChecks, makeRequest("alice")), "somebody joined before the checks were made")
	assert.False(t, update(makeRequest("alice"), makeRequest("alice")))
	assert.False(t, update(makeRequest(), makeRequest()))
}
