package timewindow

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// monday is 2026-03-02 at 08:00 in Berlin.
var monday = time.Date(2026, 3, 2, 7, 0, 0, 0, time.UTC)

type world struct {
	t        *testing.T
	clock    *testingclock.FakeClock
	client   client.Client
	events   *events.FakeRecorder
	ctrl     *Controller
	requeued time.Duration
}

// newWorld has one check, open on Mondays from 09:00 to 17:00 in Berlin.
func newWorld(t *testing.T, change ...func(*approvalv1alpha1.TimeWindowCheck)) *world {
	t.Helper()
	check := &approvalv1alpha1.TimeWindowCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "check", Generation: 1},
		Spec:       approvalv1alpha1.TimeWindowCheckSpec{TimeZone: "Europe/Berlin", Windows: []approvalv1alpha1.TimeWindow{{Weekdays: []approvalv1alpha1.Weekday{"Monday"}, From: "09:00", To: "17:00"}}},
	}
	for _, c := range change {
		c(check)
	}
	scheme := runtime.NewScheme()
	require.NoError(t, approvalv1alpha1.AddToScheme(scheme))
	w := &world{t: t, clock: testingclock.NewFakeClock(monday), events: events.NewFakeRecorder(100)}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(check).WithStatusSubresource(check).Build()
	w.ctrl = New(w.clock, w.client, w.events)
	return w
}

func (w *world) check() *approvalv1alpha1.TimeWindowCheck {
	w.t.Helper()
	check := &approvalv1alpha1.TimeWindowCheck{}
	require.NoError(w.t, w.client.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "check"}, check))
	return check
}

func (w *world) reconcile() *approvalv1alpha1.TimeWindowCheck {
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

func TestLifeOfAWindow(t *testing.T) {
	w := newWorld(t)

	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckPending, check.Status.State)
	assert.True(t, check.Status.OpensAt.Time.Equal(monday.Add(time.Hour)))
	assert.Equal(t, "The time window opens at 2026-03-02T09:00:00+01:00.", check.Status.Message)
	assert.Len(t, check.Status.WaitingFor, 1)
	assert.Equal(t, time.Hour, w.requeued)
	assert.Empty(t, w.event())

	w.clock.Step(w.requeued)
	check = w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckApproved, check.Status.State)
	assert.True(t, check.Status.NotAfter.Time.Equal(monday.Add(9*time.Hour)))
	assert.Nil(t, check.Status.OpensAt)
	assert.Empty(t, check.Status.WaitingFor)
	assert.Equal(t, "Normal WindowOpen The time window is open until 2026-03-02T17:00:00+01:00.", w.event())
	assert.Equal(t, 8*time.Hour, w.requeued)

	version := check.ResourceVersion
	w.clock.Step(time.Hour)
	assert.Equal(t, version, w.reconcile().ResourceVersion, "nothing is written while nothing changes")

	w.clock.Step(7 * time.Hour)
	check = w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckCancelled, check.Status.State)
	assert.Equal(t, duckv1alpha1.CheckReasonWindowClosed, check.Status.Reason)
	assert.Equal(t, "Normal WindowClosed The time window closed at 2026-03-02T16:00:00Z: ask again for the next one.", w.event())
	assert.Zero(t, w.requeued)

	w.clock.Step(7*24*time.Hour - 2*time.Hour)
	assert.Equal(t, duckv1alpha1.CheckCancelled, w.reconcile().Status.State, "the next window opens for another request")
	ready := apimeta.FindStatusCondition(w.check().Status.Conditions, approvalv1alpha1.ConditionReady)
	assert.Equal(t, metav1.ConditionFalse, ready.Status)
	assert.True(t, ready.LastTransitionTime.Time.Equal(monday.Add(9*time.Hour)))
}

func TestControllerThatSleptThroughTheWindow(t *testing.T) {
	w := newWorld(t)
	w.clock.Step(time.Hour)
	w.reconcile()
	w.clock.Step(7 * 24 * time.Hour)
	assert.Equal(t, duckv1alpha1.CheckCancelled, w.reconcile().Status.State, "though another window is open")
}

func TestWindowWithoutEnd(t *testing.T) {
	w := newWorld(t, func(c *approvalv1alpha1.TimeWindowCheck) {
		c.Spec.Windows = []approvalv1alpha1.TimeWindow{{From: "00:00", To: "24:00"}}
	})
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckApproved, check.Status.State)
	assert.Nil(t, check.Status.NotAfter)
	assert.Equal(t, "The time window is open.", check.Status.Message)
	assert.Zero(t, w.requeued)
}

func TestWindowThatNeverOpens(t *testing.T) {
	w := newWorld(t, func(c *approvalv1alpha1.TimeWindowCheck) {
		c.Spec.Windows = []approvalv1alpha1.TimeWindow{}
	})
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckPending, check.Status.State)
	assert.Nil(t, check.Status.OpensAt)
	assert.Equal(t, lookAgain, w.requeued)
}

func TestBrokenScheduleIsAnErrorThatSaysWhenItIsTriedAgain(t *testing.T) {
	w := newWorld(t, func(c *approvalv1alpha1.TimeWindowCheck) { c.Spec.TimeZone = "Mars/Olympus" })
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckError, check.Status.State)
	assert.Equal(t, `The time window cannot be read: "Mars/Olympus" is no time zone that is known here: use a name such as Europe/Berlin; `+
		"it is tried again at 2026-03-02T08:00:00Z.", check.Status.Message)
	assert.Equal(t, time.Hour, w.requeued)
	assert.Contains(t, w.event(), "Warning InvalidSpec")
}

func TestCancelledByTheRequestStaysCancelled(t *testing.T) {
	w := newWorld(t, func(c *approvalv1alpha1.TimeWindowCheck) {
		c.Status.State, c.Status.Reason = duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonRequestEnded
	})
	w.clock.Step(time.Hour)
	check := w.reconcile()
	assert.Equal(t, duckv1alpha1.CheckCancelled, check.Status.State)
	assert.Equal(t, duckv1alpha1.CheckReasonRequestEnded, check.Status.Reason)
}
