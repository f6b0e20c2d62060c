package stream

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

// subject is a request whose verdict the test sets.
type subject struct {
	mu      sync.Mutex
	verdict Verdict
	ends    func() bool
	waiting bool
	mark    uint64

	judged atomic.Int64
	cut    chan Verdict
	stall  chan struct{}
}

func newSubject() *subject {
	return &subject{verdict: Verdict{Allow: true}, cut: make(chan Verdict, 1), stall: make(chan struct{}, 1)}
}

func (s *subject) Judge(context.Context) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judged.Add(1)
	if s.ends != nil && s.ends() {
		return Verdict{Reason: "Expired"}
	}
	return s.verdict
}

func (s *subject) Progress() (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark, s.waiting
}

func (s *subject) Cut(v Verdict) { s.cut <- v }
func (s *subject) Stall()        { s.stall <- struct{}{} }

func (s *subject) set(change func(*subject)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *subject) says(v Verdict) { s.set(func(s *subject) { s.verdict = v }) }

// notifier closes a channel at every change.
type notifier struct {
	mu sync.Mutex
	ch chan struct{}
}

func (n *notifier) changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ch
}

func (n *notifier) happen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.ch)
	n.ch = make(chan struct{})
}

type fixture struct {
	clock      *clocktesting.FakeClock
	changes    *notifier
	supervisor *Supervisor
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), changes: &notifier{ch: make(chan struct{})}}
	f.supervisor = New(f.clock, f.changes.changed, DefaultOptions())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.supervisor.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// stepUntil advances the clock, as long as somebody waits for it, until the condition holds.
func (f *fixture) stepUntil(t *testing.T, step time.Duration, condition func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		if condition() {
			return true
		}
		if f.clock.HasWaiters() {
			f.clock.Step(step)
		}
		return condition()
	}, 10*time.Second, time.Millisecond)
}

func (f *fixture) settled(t *testing.T, s *subject) {
	t.Helper()
	before := s.judged.Load()
	f.stepUntil(t, 50*time.Millisecond, func() bool { return s.judged.Load() > before })
}

func TestShortRequestsAreNotWatched(t *testing.T) {
	f, s := newFixture(t), newSubject()
	stream := f.supervisor.Watch(s, time.Time{}, false)
	assert.Zero(t, f.supervisor.Len())
	stream.Stop()
	f.clock.Step(time.Minute)
	assert.Zero(t, f.supervisor.Len())
	assert.Zero(t, s.judged.Load())
}

func TestLongRequestsAreWatched(t *testing.T) {
	f, s := newFixture(t), newSubject()
	stream := f.supervisor.Watch(s, time.Time{}, false)
	f.clock.Step(2 * time.Second)
	assert.Equal(t, 1, f.supervisor.Len())
	stream.Stop()
	assert.Zero(t, f.supervisor.Len())
}

func TestS13_AChangeCutsAtOnce(t *testing.T) {
	f, s := newFixture(t), newSubject()
	f.supervisor.Watch(s, time.Time{}, true)
	s.says(Verdict{Reason: "Revoked", Message: "revoked by owner1"})
	f.changes.happen()
	f.stepUntil(t, 50*time.Millisecond, func() bool { return len(s.cut) == 1 })
	assert.Equal(t, "Revoked", (<-s.cut).Reason)
	assert.Zero(t, f.supervisor.Len())
}

func TestS13_AChangeBeforeTheSupervisionCuts(t *testing.T) {
	for name, lasting := range map[string]bool{"known to last": true, "found to last": false} {
		t.Run(name, func(t *testing.T) {
			clock, s := clocktesting.NewFakeClock(time.Now()), newSubject()
			// It does not run, because the change has been and nothing changes any more.
			supervisor := New(clock, nil, DefaultOptions())
			s.says(Verdict{Reason: "Revoked"})
			supervisor.Watch(s, time.Time{}, lasting)
			if !lasting {
				clock.Step(2 * time.Second)
			}
			assert.Equal(t, "Revoked", (<-s.cut).Reason, "not at the next recheck only")
		})
	}
}

func TestAChangeThatDoesNotMatter(t *testing.T) {
	f, s := newFixture(t), newSubject()
	stream := f.supervisor.Watch(s, time.Time{}, true)
	f.changes.happen()
	f.settled(t, s)
	assert.Empty(t, s.cut)
	stream.Stop()
}

func TestS13_ALostPermissionCutsWithoutAChange(t *testing.T) {
	f, s := newFixture(t), newSubject()
	f.supervisor.Watch(s, time.Time{}, true)
	s.says(Verdict{Reason: "NotPermitted"})
	f.stepUntil(t, 10*time.Second, func() bool { return len(s.cut) == 1 })
	assert.Equal(t, "NotPermitted", (<-s.cut).Reason)
}

func TestS13_TheEndOfTheGrantCuts(t *testing.T) {
	f, s := newFixture(t), newSubject()
	end := f.clock.Now().Add(3 * time.Second)
	s.set(func(s *subject) { s.ends = func() bool { return !f.clock.Now().Before(end) } })
	s.says(Verdict{Allow: true, Until: end})
	f.supervisor.Watch(s, end, true)
	f.stepUntil(t, 3*time.Second, func() bool { return len(s.cut) == 1 })
	assert.Less(t, f.clock.Since(end), 10*time.Second, "not at the next recheck only")
}

func TestADecisionThatCannotBeMade(t *testing.T) {
	t.Run("for a moment", func(t *testing.T) {
		f, s := newFixture(t), newSubject()
		stream := f.supervisor.Watch(s, time.Time{}, true)
		s.says(Verdict{Unknown: true, Reason: "NotReady"})
		f.changes.happen()
		f.settled(t, s)
		s.says(Verdict{Allow: true})
		f.stepUntil(t, time.Second, func() bool { return s.judged.Load() > 3 })
		assert.Empty(t, s.cut)
		stream.Stop()
	})
	t.Run("for too long", func(t *testing.T) {
		f, s := newFixture(t), newSubject()
		f.supervisor.Watch(s, time.Time{}, true)
		s.says(Verdict{Unknown: true, Reason: "NotReady"})
		f.stepUntil(t, time.Second, func() bool { return len(s.cut) == 1 })
		assert.Equal(t, "NotReady", (<-s.cut).Reason)
	})
	t.Run("not beyond the grant", func(t *testing.T) {
		f, s := newFixture(t), newSubject()
		end := f.clock.Now().Add(time.Second)
		f.supervisor.Watch(s, end, true)
		s.says(Verdict{Unknown: true, Reason: "NotReady"})
		f.stepUntil(t, time.Second, func() bool { return len(s.cut) == 1 })
		assert.LessOrEqual(t, f.clock.Since(end), 2*time.Second)
	})
}

func TestACallerWhoDoesNothing(t *testing.T) {
	f, s := newFixture(t), newSubject()
	s.set(func(s *subject) { s.waiting = true })
	f.supervisor.Watch(s, time.Time{}, true)
	f.stepUntil(t, 10*time.Second, func() bool { return len(s.stall) == 1 })
	assert.Empty(t, s.cut)
}

func TestASlowCallerIsLeftAlone(t *testing.T) {
	f, s := newFixture(t), newSubject()
	s.set(func(s *subject) { s.waiting = true })
	stream := f.supervisor.Watch(s, time.Time{}, true)
	for range 10 {
		before := s.judged.Load()
		s.set(func(s *subject) { s.mark++ })
		f.stepUntil(t, 10*time.Second, func() bool { return s.judged.Load() > before })
	}
	assert.Empty(t, s.stall)
	stream.Stop()
}

func TestEndCutsEverything(t *testing.T) {
	f, one, two := newFixture(t), newSubject(), newSubject()
	f.supervisor.Watch(one, time.Time{}, true)
	f.supervisor.End(Verdict{Reason: "NotReady"})
	assert.Equal(t, "NotReady", (<-one.cut).Reason)
	f.supervisor.Watch(two, time.Time{}, true)
	assert.Equal(t, "NotReady", (<-two.cut).Reason, "and whatever begins afterwards")
}

func TestStopAndCutDoNotBothHappen(t *testing.T) {
	for range 200 {
		f, s := newFixture(t), newSubject()
		stream := f.supervisor.Watch(s, time.Time{}, true)
		s.says(Verdict{Reason: "Revoked"})
		var both sync.WaitGroup
		both.Go(stream.Stop)
		both.Go(func() { f.supervisor.End(Verdict{}) })
		both.Wait()
		assert.Zero(t, f.supervisor.Len())
		assert.LessOrEqual(t, len(s.cut), 1)
	}
}
