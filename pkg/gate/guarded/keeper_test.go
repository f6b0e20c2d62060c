package guarded

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/AlaudaDevops/countersign/config/policies"
)

const systemNamespace = "countersign-system"

// probe answers what the test says.
type probe struct {
	at  time.Time
	err error
}

func (p *probe) Probe(context.Context) (time.Time, error) { return p.at, p.err }

func newKeeper(t *testing.T, settle time.Duration, state *state) (*Keeper, *probe, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset()
	watcher := NewWatcher(client, policies.Options{})
	watcher.state.Store(state)
	prober := &probe{at: began}
	return NewKeeper(clocktesting.NewFakeClock(began), client, prober, watcher, systemNamespace, WithSettle(settle)), prober, client
}

func TestKeeperEstablishesAndConfirms(t *testing.T) {
	keeper, prober, client := newKeeper(t, 10*time.Second, &state{live: record{"P/a": {UID: "1", Generation: 1}}})
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Equal(t, epoch{began.Add(10 * time.Second), record{"P/a": {UID: "1", Generation: 1}}}, storedEpoch(t, client))

	writes := len(client.Actions())
	prober.at = later
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Len(t, client.Actions(), writes+1, "only a read: nothing changed")
}

func TestKeeperRaisesAfterAGap(t *testing.T) {
	keeper, prober, client := newKeeper(t, 0, &state{live: record{"P/a": {UID: "1", Generation: 1}}})
	require.NoError(t, keeper.Sync(t.Context()))

	prober.at = later
	keeper.watcher.state.Store(&state{why: "missing"})
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Equal(t, began, storedEpoch(t, client).since, "while the gap lasts, readers close by themselves")

	keeper.watcher.state.Store(&state{live: record{"P/a": {UID: "2", Generation: 1}}})
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Equal(t, later, storedEpoch(t, client).since)
}

// The probe is about a kind that is always selected, so the API server gets time to take up another selection.
func TestKeeperWaitsForAnotherSelection(t *testing.T) {
	keeper, prober, client := newKeeper(t, 0, &state{live: record{"P/a": {UID: "1", Generation: 1, Selection: "narrow"}}})
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Equal(t, began, storedEpoch(t, client).since)

	prober.at = later
	keeper.watcher.state.Store(&state{live: record{"P/a": {UID: "1", Generation: 2, Selection: "wide"}}})
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Equal(t, later.Add(reselect), storedEpoch(t, client).since)
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Equal(t, later.Add(reselect), storedEpoch(t, client).since, "once is enough")
}

func TestKeeperWithdrawsWhatDoesNotAct(t *testing.T) {
	keeper, prober, client := newKeeper(t, 0, &state{live: record{"P/a": {UID: "1", Generation: 1}}})
	prober.err = ErrNotInForce
	require.ErrorIs(t, keeper.Sync(t.Context()), ErrNotInForce)
	assert.True(t, storedEpoch(t, client).since.IsZero())

	prober.err = nil
	require.NoError(t, keeper.Sync(t.Context()))
	require.Equal(t, began, storedEpoch(t, client).since)

	prober.at, prober.err = later, errors.New("refused")
	require.ErrorContains(t, keeper.Sync(t.Context()), "cannot be tried out")
	assert.Equal(t, began, storedEpoch(t, client).since, "not knowing withdraws nothing")

	prober.err = ErrNotInForce
	require.ErrorIs(t, keeper.Sync(t.Context()), ErrNotInForce)
	assert.True(t, storedEpoch(t, client).since.IsZero())

	prober.err = nil
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Equal(t, later, storedEpoch(t, client).since)
}

func TestKeeperWaitsForTheWatcher(t *testing.T) {
	keeper, _, client := newKeeper(t, 0, notRead)
	require.NoError(t, keeper.Sync(t.Context()))
	assert.Empty(t, client.Actions())
}

func TestKeeperRetriesAndWakes(t *testing.T) {
	client := fake.NewClientset()
	clock := clocktesting.NewFakeClock(began)
	watcher := NewWatcher(client, policies.Options{})
	watcher.state.Store(&state{live: record{"P/a": {UID: "1", Generation: 1}}})
	calls := make(chan error)
	keeper := NewKeeper(clock, client, probeFunc(func() error { return <-calls }), watcher, systemNamespace)

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- keeper.Start(ctx) }()
	calls <- errors.New("refused") // at start
	stepWhenWaiting(clock, retryAfter)
	calls <- nil // the retry
	stepWhenWaiting(clock, DefaultProbeEvery)
	calls <- nil // the regular probe
	keeper.wake()
	calls <- nil // a change of the policies
	cancel()
	require.NoError(t, <-done)
	assert.True(t, keeper.NeedLeaderElection())
}

type probeFunc func() error

func (f probeFunc) Probe(context.Context) (time.Time, error) { return began, f() }

// stepWhenWaiting moves the clock as soon as somebody waits on it.
func stepWhenWaiting(clock *clocktesting.FakeClock, by time.Duration) {
	for !clock.HasWaiters() {
		runtime.Gosched()
	}
	clock.Step(by)
}

func TestReaderBelievesOnlyWhatFits(t *testing.T) {
	live := record{"P/a": {UID: "1", Generation: 1}}
	tests := map[string]struct {
		state *state
		epoch epoch
		want  time.Time
	}{
		"in force":                    {&state{live: live}, epoch{began, live}, began},
		"upgraded since":              {&state{live: record{"P/a": {UID: "1", Generation: 2}}}, epoch{began, live}, began},
		"unguarded":                   {&state{why: "missing", live: live}, epoch{began, live}, time.Time{}},
		"not read yet":                {notRead, epoch{began, live}, time.Time{}},
		"no epoch":                    {&state{live: live}, epoch{}, time.Time{}},
		"a gap nobody recorded":       {&state{live: record{"P/a": {UID: "2", Generation: 1}}}, epoch{began, live}, time.Time{}},
		"altered and back unrecorded": {&state{live: record{"P/a": {UID: "1", Generation: 3}}}, epoch{began, live}, time.Time{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			reader := NewEpochReader(client, NewWatcher(client, policies.Options{}), systemNamespace)
			reader.watcher.state.Store(tc.state)
			reader.stored.Store(&tc.epoch)
			assert.Equal(t, tc.want, reader.Since())
			assert.Equal(t, tc.want, reader.Since(), "and again, from memory")
			assert.Zero(t, testing.AllocsPerRun(10, func() { reader.Since() }))
		})
	}
}

func storedEpoch(t *testing.T, client *fake.Clientset) epoch {
	t.Helper()
	configMap, err := client.CoreV1().ConfigMaps(systemNamespace).Get(t.Context(), EpochName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return epoch{}
	}
	require.NoError(t, err)
	return parseEpoch(&corev1.ConfigMap{Data: configMap.Data})
}
