package script

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

type world struct {
	t        *testing.T
	clock    *testingclock.FakeClock
	client   client.WithWatch
	events   *events.FakeRecorder
	ctrl     *Controller
	requeued time.Duration
	// refused is what the API server answers to reads of objects.
	refused error
	reads   int
}

var (
	connectorRef = approvalv1alpha1.ObjectReference{
		APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o1"}
	configRef = approvalv1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "settings", UID: "m1"}
	jobRef    = approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "dev", Name: "run-1", UID: "j1"}
)

func newWorld(t *testing.T, check *approvalv1alpha1.ScriptCheck, more ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: testingclock.NewFakeClock(start), events: events.NewFakeRecorder(100)}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme, corev1.AddToScheme, batchv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	objects := append([]client.Object{
		check,
		&connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "harbor", UID: "o1", Labels: map[string]string{"tier": "gold"}}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "settings", UID: "m1"}, Data: map[string]string{"open": "yes"}},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "run-1", UID: "j1"}},
		&approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "ask", UID: "r1"},
			Spec: approvalv1alpha1.ResourceCheckRequestSpec{Context: approvalv1alpha1.RequestContext{Resource: &jobRef}}},
	}, more...)
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(check).
		WithIndex(check, indexInput, InputKeys).Build()
	live := interceptor.NewClient(w.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		w.reads++
		if w.refused != nil {
			return w.refused
		}
		return c.Get(ctx, key, obj, opts...)
	}})
	w.ctrl = New(w.clock, w.client, live, w.events)
	return w
}

func makeCheck(t *testing.T, expression string, change ...func(*approvalv1alpha1.ScriptCheck)) *approvalv1alpha1.ScriptCheck {
	t.Helper()
	about, err := json.Marshal(approvalv1alpha1.CheckContext{Object: connectorRef, Resource: &jobRef})
	require.NoError(t, err)
	check := &approvalv1alpha1.ScriptCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "check", Generation: 1, CreationTimestamp: metav1.NewTime(start),
			Annotations: map[string]string{approvalv1alpha1.AnnotationContext: string(about)}},
		Spec: approvalv1alpha1.ScriptCheckSpec{
			Expression: expression, Timeout: &metav1.Duration{Duration: time.Hour},
			Request: &approvalv1alpha1.CheckRequest{
				Ref: approvalv1alpha1.RequestReference{Namespace: "dev", Name: "ask", UID: "r1"}, Object: connectorRef,
				RequestedBy: approvalv1alpha1.Identity{Username: "dev1"}, Rule: approvalv1alpha1.RuleSnapshot{Name: "push", Generation: 2},
			},
		},
	}
	for _, c := range change {
		c(check)
	}
	return check
}

func about(ref approvalv1alpha1.ObjectReference) func(*approvalv1alpha1.ScriptCheck) {
	return func(check *approvalv1alpha1.ScriptCheck) { check.Spec.Request.Object = ref }
}

func (w *world) check() *approvalv1alpha1.ScriptCheck {
	w.t.Helper()
	check := &approvalv1alpha1.ScriptCheck{}
	require.NoError(w.t, w.client.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "check"}, check))
	return check
}

func (w *world) reconcile() *approvalv1alpha1.ScriptCheck {
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

func (w *world) update(key client.ObjectKey, object client.Object, change func()) {
	w.t.Helper()
	require.NoError(w.t, w.client.Get(context.Background(), key, object))
	change()
	require.NoError(w.t, w.client.Update(context.Background(), object))
}

func TestAnswers(t *testing.T) {
	words := func(c *approvalv1alpha1.ScriptCheck) { c.Spec.Message = "gold connectors only" }
	tests := map[string]struct {
		check     *approvalv1alpha1.ScriptCheck
		want      duckv1alpha1.CheckState
		message   string
		wantAgain time.Duration
		wantReads int
	}{
		"of the question only": {check: makeCheck(t, `request.requestedBy.username == "dev1" && rule.generation == 2`), want: "approved",
			message: "The script of rule push approves."},
		"of the connector": {check: makeCheck(t, `object.metadata.labels.tier == "gold"`), want: "approved",
			message: "The script of rule push approves.", wantAgain: againWatched, wantReads: 1},
		"of another object": {check: makeCheck(t, `object.data.open == "yes"`, about(configRef)), want: "approved",
			message: "The script of rule push approves.", wantAgain: againApproved, wantReads: 1},
		"of the run": {check: makeCheck(t, `resource.metadata.name == "run-1"`), want: "approved",
			message: "The script of rule push approves.", wantAgain: againWatched, wantReads: 1},
		"no": {check: makeCheck(t, `object.metadata.labels.tier == "iron"`), want: "rejected",
			message: "The script of rule push does not approve.", wantReads: 1},
		"no, with words": {check: makeCheck(t, `false`, words), want: "rejected",
			message: "The script of rule push does not approve: gold connectors only"},
		"not yet": {check: makeCheck(t, `resource.metadata.name == "run-2" ? dyn(true) : "not yet"`), want: "pending",
			message: "The script of rule push says not yet.", wantAgain: againWatched, wantReads: 1},
		"not yet, by the clock": {check: makeCheck(t, `now < timestamp("2026-03-02T10:00:00Z") ? "not yet" : dyn(true)`), want: "pending",
			message: "The script of rule push says not yet.", wantAgain: againWaiting},
		"not yet, for ever": {check: makeCheck(t, `"not yet"`), want: "pending", message: "The script of rule push says not yet.", wantAgain: time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.check)
			got := w.reconcile()
			assert.Equal(t, tt.want, got.Status.State, got.Status.Message)
			assert.Equal(t, tt.message, got.Status.Message)
			assert.Equal(t, tt.wantAgain, w.requeued)
			assert.Equal(t, tt.wantReads, w.reads, "only what the expression uses is read")
			assert.Equal(t, tt.want == "pending", len(got.Status.WaitingFor) > 0)
			assert.Equal(t, int64(1), got.Status.ObservedGeneration)
		})
	}
}

func TestEvaluatedAgainWhenTheInputChanges(t *testing.T) {
	w := newWorld(t, makeCheck(t, `has(resource.metadata.labels) ? dyn(resource.metadata.labels.tested == "yes") : "not yet"`))
	assert.Equal(t, duckv1alpha1.CheckPending, w.reconcile().Status.State)
	assert.Empty(t, w.event(), "waiting is no transition")

	job := &batchv1.Job{}
	w.update(client.ObjectKey{Namespace: "dev", Name: "run-1"}, job, func() { job.Labels = map[string]string{"tested": "yes"} })
	assert.Equal(t, duckv1alpha1.CheckApproved, w.reconcile().Status.State)
	assert.Equal(t, "Normal Approved The script of rule push approves.", w.event())
	version := w.check().ResourceVersion
	assert.Equal(t, version, w.reconcile().ResourceVersion, "nothing is written while nothing changes")

	w.update(client.ObjectKey{Namespace: "dev", Name: "run-1"}, job, func() { job.Labels["tested"] = "no" })
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckRejected, check.Status.State)
	assert.Equal(t, "The script of rule push no longer approves.", check.Status.Message)

	w.update(client.ObjectKey{Namespace: "dev", Name: "run-1"}, job, func() { job.Labels["tested"] = "yes" })
	assert.Equal(t, duckv1alpha1.CheckRejected, w.reconcile().Status.State, "a rejection is final")
}

func TestProblemsAreErrorsThatSayWhenTheyAreTriedAgain(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "settings", nil)
	noMatch := &apimeta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ConfigMap"}}
	replaced := connectorRef
	replaced.UID = "o2"
	missing := configRef
	missing.Name = "other"
	secret := configRef
	secret.Kind = "Secret"
	tests := map[string]struct {
		check   *approvalv1alpha1.ScriptCheck
		refused error
		want    string
	}{
		"does not compile": {check: makeCheck(t, `secret.data`), want: "undeclared reference to 'secret'"},
		"fails":            {check: makeCheck(t, `object.spec.nothing.at == "all"`), want: "The script cannot be evaluated: the expression failed: no such key: nothing; it is tried again at 2026-03-02T09:00:05Z."},
		"object replaced":  {check: makeCheck(t, `object.kind == "x"`, about(replaced)), want: "The script cannot be evaluated: Connector prod/harbor is gone;"},
		"object gone":      {check: makeCheck(t, `object.kind == "x"`, about(missing)), want: "The script cannot be evaluated: ConfigMap prod/other is gone;"},
		"a Secret":         {check: makeCheck(t, `object.data.password == "x"`, about(secret)), want: "a script never reads a Secret"},
		"forbidden": {check: makeCheck(t, `object.kind == "x"`, about(configRef)), refused: forbidden,
			want: "the controller may not read ConfigMap prod/settings: grant get on it by a ClusterRole with the label approval.alaudadevops.io/aggregate-to-checks"},
		"kind not installed": {check: makeCheck(t, `object.kind == "x"`, about(configRef)), refused: noMatch, want: "the kind of ConfigMap prod/settings is not installed in version v1"},
		"no question":        {check: makeCheck(t, `true`, func(c *approvalv1alpha1.ScriptCheck) { c.Spec.Request = nil }), want: "the check carries no question"},
		"request gone": {check: makeCheck(t, `resource == null`, func(c *approvalv1alpha1.ScriptCheck) { c.Spec.Request.Ref.UID = "r2" }),
			want: "request dev/ask, which asked for the check, is gone"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.check)
			w.refused = tt.refused
			check := w.reconcile()
			assert.Equal(t, duckv1alpha1.CheckError, check.Status.State)
			assert.Contains(t, check.Status.Message, tt.want)
			assert.Contains(t, check.Status.Message, "it is tried again at 2026-03-02T09:00:05Z.")
			assert.Equal(t, shortestRetry, w.requeued)
			assert.Contains(t, w.event(), "Warning")
		})
	}
}

func TestAFailureIsTriedAgainLessAndLess(t *testing.T) {
	w := newWorld(t, makeCheck(t, `object.spec.nothing.at == "all"`, func(c *approvalv1alpha1.ScriptCheck) {
		c.Spec.Timeout = &metav1.Duration{Duration: 24 * time.Hour}
	}))
	var waits []time.Duration
	for range 12 {
		w.reconcile()
		waits = append(waits, w.requeued)
		w.clock.Step(w.requeued)
	}
	assert.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second}, waits[:4])
	assert.Equal(t, longestRetry, waits[11])
}

func TestAnAPIServerThatDoesNotAnswerChangesNothing(t *testing.T) {
	w := newWorld(t, makeCheck(t, `object.metadata.labels.tier == "gold"`))
	w.reconcile()
	w.refused = apierrors.NewServiceUnavailable("later")
	_, err := w.ctrl.Reconcile(context.Background(), w.check())
	require.Error(t, err)
	assert.Equal(t, duckv1alpha1.CheckApproved, w.check().Status.State)
}

func TestTimeout(t *testing.T) {
	w := newWorld(t, makeCheck(t, `"not yet"`))
	w.reconcile()
	w.clock.Step(w.requeued)
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckCancelled, check.Status.State)
	assert.Equal(t, duckv1alpha1.CheckReasonTimedOut, check.Status.Reason)
	assert.Equal(t, "Warning TimedOut The script did not approve before 2026-03-02T10:00:00Z: ask again.", w.event())
	assert.Zero(t, w.requeued)
}

func TestAnApprovalDoesNotTimeOut(t *testing.T) {
	w := newWorld(t, makeCheck(t, `object.metadata.labels.tier == "gold"`))
	w.reconcile()
	w.clock.Step(2 * time.Hour)
	assert.Equal(t, duckv1alpha1.CheckApproved, w.reconcile().Status.State)
}

func TestCancelledByTheRequestStaysCancelled(t *testing.T) {
	w := newWorld(t, makeCheck(t, `true`))
	stale := w.check()
	cancelled := w.check()
	cancelled.Status.State, cancelled.Status.Reason = duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonRequestEnded
	require.NoError(t, w.client.Status().Update(context.Background(), cancelled))

	result, err := w.ctrl.Reconcile(context.Background(), stale)
	require.NoError(t, err)
	assert.Equal(t, status.RetryStale, result.RequeueAfter, "the status brings the controller back to no check by itself")
	assert.Equal(t, duckv1alpha1.CheckCancelled, w.reconcile().Status.State)
}

func TestARunThatChangesBringsItsChecksBack(t *testing.T) {
	w := newWorld(t, makeCheck(t, `resource.metadata.name == "run-2" ? dyn(true) : "not yet"`))
	job := &origin.Node{GroupVersionKind: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, Namespace: "dev", Name: "run-1"}
	w.ctrl.RunChanged(origin.Change{New: job})

	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	require.NoError(t, w.ctrl.queue.Hold(context.Background(), q))
	w.ctrl.RunChanged(origin.Change{New: job})
	require.Equal(t, 1, q.Len())
	got, _ := q.Get()
	assert.Equal(t, "prod/check", got.String())
	q.Done(got)
	w.ctrl.RunChanged(origin.Change{Old: &origin.Node{GroupVersionKind: job.GroupVersionKind, Namespace: "dev", Name: "run-2"}})
	assert.Zero(t, q.Len())

	assert.Len(t, w.ctrl.checksOfConnector(context.Background(), &connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "harbor"}}), 1)
	assert.Empty(t, w.ctrl.checksOfConnector(context.Background(), &connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "harbor"}}))
}
