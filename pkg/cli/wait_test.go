package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func refuseGet(err error) func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
	return func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return err
	}
}

func TestWaitReturnsWhatIsSettled(t *testing.T) {
	tests := map[string]struct {
		request *requestBuilder
		code    int
		out     string
	}{
		"granted": {makeRequest("rcr-1").Granted(), ExitDone, "team-a/rcr-1: granted until 2026-03-02T10:00:00Z (in 60m)\n"},
		"rejected": {makeRequest("rcr-1").Ended("ChecksRejected", "Rejected by owner1."), ExitDenied,
			"team-a/rcr-1: rejected (ChecksRejected): Rejected by owner1.\n"},
		"revoked": {makeRequest("rcr-1").Granted().With(func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: "leaked", By: "owner1"}
		}), ExitDenied, "team-a/rcr-1: revoked (Revoked): revoked by owner1, who says: \"leaked\"\n"},
		"expired by its own time": {makeRequest("rcr-1").Granted().With(func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Status.Validity.NotAfter = metav1.NewTime(now)
		}), ExitDenied, "team-a/rcr-1: ended (Expired)\n"},
		"no rules": {makeRequest("rcr-1").Ready(metav1.ConditionFalse, "NoRules", "No rule."), ExitDenied, "team-a/rcr-1: ended (NoRules): No rule.\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t, tt.request.Obj())
			assert.Equal(t, tt.code, b.run("wait", "rcr-1"))
			assert.Equal(t, tt.out, b.out.String())
			assert.Empty(t, b.err.String())
		})
	}
}

func TestWaitNotFound(t *testing.T) {
	b := makeBench(t)
	assert.Equal(t, ExitNotFound, b.run("wait", "rcr-1"))
	assert.Equal(t, "error: there is no request team-a/rcr-1: see yours with: kubectl countersign list -n team-a\n", b.err.String())
}

// underWay is a verb that has not returned yet.
type underWay struct {
	*bench
	code   chan int
	cancel context.CancelFunc
}

func (b *bench) begin(args ...string) *underWay {
	ctx, cancel := context.WithCancel(b.t.Context())
	u := &underWay{bench: b, code: make(chan int, 1), cancel: cancel}
	b.program()
	go func() { u.code <- b.start(ctx, args...) }()
	return u
}

// until waits for text on standard error, and for the verb's timers.
func (u *underWay) until(text string, timers int) {
	u.t.Helper()
	met := func() bool { return strings.Contains(u.err.String(), text) && u.clock.Waiters() >= timers }
	require.Eventually(u.t, met, 10*time.Second, time.Millisecond, text)
}

func TestWaitShowsProgress(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Obj())
	u := b.begin("wait", "team-a/rcr-1", "-n", "prod")
	u.until("waiting for a controller to take team-a/rcr-1 up", 1)
	b.clock.Step(unclaimedAfter)
	u.until("no controller has picked team-a/rcr-1 up for 10s: is the Countersign controller running?", 1)

	u.change(makeRequest("rcr-1").Pending())
	u.until("waiting for group prod-owners: 1 more, since 2026-03-02T08:55:00Z (5m ago)", 1)

	u.change(makeRequest("rcr-1").Granted())
	assert.Equal(t, ExitDone, <-u.code)
	assert.Contains(t, b.out.String(), "team-a/rcr-1: granted")
}

func (u *underWay) change(to *requestBuilder) {
	u.t.Helper()
	stored := &approvalv1alpha1.ResourceCheckRequest{}
	require.NoError(u.t, u.client.Get(u.t.Context(), keyOf("team-a", "rcr-1"), stored))
	stored.Status = to.r.Status
	require.NoError(u.t, u.client.Status().Update(u.t.Context(), stored))
}

func TestWaitTimesOut(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Pending().Obj())
	u := b.begin("wait", "rcr-1", "--timeout", "30s")
	u.until("waiting for group prod-owners", 2)
	b.clock.Step(30 * time.Second)
	assert.Equal(t, ExitPending, <-u.code)
	assert.Contains(t, b.out.String(), "team-a/rcr-1: pending (ChecksPending)")
	assert.Contains(t, b.err.String(), "go on waiting with: kubectl countersign wait rcr-1 -n team-a")
}

func TestWaitIsInterrupted(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Pending().Obj())
	u := b.begin("wait", "rcr-1")
	u.until("waiting for group prod-owners", 1)
	u.cancel()
	assert.Equal(t, ExitPending, <-u.code)
	assert.Contains(t, b.err.String(), "interrupted; team-a/rcr-1 is still open")
}

func TestWaitSeesTheDeletion(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Pending().Obj())
	u := b.begin("wait", "rcr-1")
	u.until("waiting for group prod-owners", 1)
	require.NoError(t, b.client.Delete(t.Context(), makeRequest("rcr-1").Obj()))
	assert.Equal(t, ExitNotFound, <-u.code)
	assert.Contains(t, b.err.String(), "team-a/rcr-1 was deleted while it was waited for")
}

func TestWaitAtATerminalBeats(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Pending().Obj())
	p := b.program()
	p.terminal = true
	code := make(chan int, 1)
	go func() {
		code <- p.run(t.Context(), []string{"--kubeconfig", b.kubeconfig, "wait", "rcr-1", "--timeout", "90s"})
	}()
	u := &underWay{bench: b}
	u.until("waiting for group prod-owners", 2)
	b.clock.Step(heartbeat)
	u.until("still waiting for group prod-owners: 1 more, since 2026-03-02T08:55:00Z (5m ago) (1m0s)", 2)
	b.clock.Step(heartbeat)
	assert.Equal(t, ExitPending, <-code)
}

func TestSituationOfUnknownEnd(t *testing.T) {
	s := situationOf(makeRequest("x").Ready(metav1.ConditionFalse, "Error", "retrying").Obj(), now)
	assert.Equal(t, statePending, s.state, "an error is not final")
}
