// Package stream cuts what runs on after its permission has ended: a request that is still being served is decided about
// again whenever anything changes, at the end of its grant, and in between from time to time. It lives only as long as
// it would be allowed to begin.
package stream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Verdict is what a fresh decision says.
type Verdict struct {
	Allow bool
	// Unknown tells that it could not be decided just now, which is a denial only if it stays so.
	Unknown bool
	// Until is when an allow ends by itself; zero if it does not.
	Until time.Time
	// Reason and Message are those of a denial.
	Reason, Message string
}

// Subject is a request that is being served. Its methods are called from the stream's own goroutine.
type Subject interface {
	// Judge decides anew about the operation that the request began with.
	Judge(ctx context.Context) Verdict
	// Progress tells whether the caller is being waited for, with a mark that moves when he does something.
	Progress() (mark uint64, waiting bool)
	// Cut ends the request. It is called at most once.
	Cut(v Verdict)
	// Stall ends a request whose caller does nothing. It is called at most once, and not with Cut.
	Stall()
}

// Options are the times of a Supervisor; every one is required.
type Options struct {
	// After is how long a request may take before it counts as a stream.
	After time.Duration
	// Recheck is the longest time between two decisions.
	Recheck time.Duration
	// Settle is how long a change waits for further ones before streams are decided about.
	Settle time.Duration
	// Grace is how long a decision may be impossible before the stream is cut.
	Grace time.Duration
	// Stall is how long a caller may take for nothing at all.
	Stall time.Duration
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	return Options{
		After: 2 * time.Second, Recheck: 10 * time.Second, Settle: 50 * time.Millisecond,
		Grace: 10 * time.Second, Stall: 60 * time.Second,
	}
}

// Supervisor watches over streams.
type Supervisor struct {
	clock   clock.WithDelayedExecution
	changed func() <-chan struct{}
	options Options

	mu      sync.Mutex
	streams map[*Stream]struct{}
	ending  *Verdict
}

// New returns a Supervisor; changed returns a channel that closes at the next change of what decisions read.
func New(clock clock.WithDelayedExecution, changed func() <-chan struct{}, options Options) *Supervisor {
	return &Supervisor{clock: clock, changed: changed, options: options, streams: map[*Stream]struct{}{}}
}

// Run wakes the streams after changes, until the context ends.
func (s *Supervisor) Run(ctx context.Context) {
	for {
		// Taken before the streams are woken, so a change while they decide wakes them again.
		changed := s.changed()
		s.wake()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(s.options.Settle):
		}
	}
}

func (s *Supervisor) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream := range s.streams {
		select {
		case stream.woken <- struct{}{}:
		default:
		}
	}
}

// Len is how many streams are being watched over.
func (s *Supervisor) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// End cuts every stream, and every one that begins from now on.
func (s *Supervisor) End(v Verdict) {
	s.mu.Lock()
	s.ending = &v
	streams := make([]*Stream, 0, len(s.streams))
	for stream := range s.streams {
		streams = append(streams, stream)
	}
	s.mu.Unlock()
	for _, stream := range streams {
		stream.cut(v)
	}
}

// Stream is a request under supervision.
type Stream struct {
	supervisor *Supervisor
	subject    Subject
	timer      clock.Timer
	// until is when the opening verdict ends by itself.
	until time.Time
	woken chan struct{}
	done  chan struct{}
	// over is set by whoever ends the supervision first: the request itself, or a cut.
	over atomic.Bool
}

// Watch begins the supervision of a request that was allowed until the given time, which may be zero. Requests
// that are known to last are supervised at once, others if they last. Call Stop when the request has been served.
func (s *Supervisor) Watch(subject Subject, until time.Time, lasting bool) *Stream {
	stream := &Stream{supervisor: s, subject: subject, until: until}
	if lasting {
		stream.begin()
		return stream
	}
	stream.timer = s.clock.AfterFunc(s.options.After, stream.begin)
	return stream
}

// Stop ends the supervision; Cut and Stall are not called any more, but one of them may be under way.
func (t *Stream) Stop() {
	t.over.Store(true)
	if t.timer != nil && t.timer.Stop() {
		return
	}
	t.supervisor.leave(t)
}

func (t *Stream) begin() {
	if v, ok := t.supervisor.join(t); !ok {
		if v != nil {
			t.cut(*v)
		}
		return
	}
	go t.run()
}

// join is false if the request has been served meanwhile, or with a verdict if no stream may begin any more.
func (s *Supervisor) join(t *Stream) (*Verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending != nil || t.over.Load() {
		return s.ending, false
	}
	t.woken, t.done = make(chan struct{}, 1), make(chan struct{})
	// What changed since the request was allowed has woken nobody.
	t.woken <- struct{}{}
	s.streams[t] = struct{}{}
	return nil, true
}

func (s *Supervisor) leave(t *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.streams[t]; ok {
		delete(s.streams, t)
		close(t.done)
	}
}

// cut leaves before it cuts: cutting makes the request end, which stops the stream.
func (t *Stream) cut(v Verdict) {
	if t.over.CompareAndSwap(false, true) {
		t.supervisor.leave(t)
		t.subject.Cut(v)
	}
}

func (t *Stream) stall() {
	if t.over.CompareAndSwap(false, true) {
		t.supervisor.leave(t)
		t.subject.Stall()
	}
}

func (t *Stream) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := watch{Stream: t, clock: t.supervisor.clock, options: &t.supervisor.options, decided: t.supervisor.clock.Now()}
	for {
		timer := w.clock.NewTimer(w.next())
		select {
		case <-t.done:
			timer.Stop()
			return
		case <-t.woken:
		case <-timer.C():
		}
		timer.Stop()
		if !w.look(ctx) {
			return
		}
	}
}

// leastWait keeps an end that is not quite reached from being looked for all the time.
const leastWait = 10 * time.Millisecond

// watch is what a stream's goroutine remembers.
type watch struct {
	*Stream
	clock   clock.WithDelayedExecution
	options *Options
	// decided is when it was last known to be allowed.
	decided time.Time
	unknown bool
	// mark and since are those of the last progress that was seen.
	mark  uint64
	since time.Time
}

// next is how long to wait for the next look.
func (w *watch) next() time.Duration {
	if w.unknown {
		return max(w.options.Grace/10, time.Millisecond)
	}
	wait := min(w.options.Recheck, w.options.Stall)
	if !w.until.IsZero() {
		wait = min(wait, w.until.Sub(w.clock.Now()))
	}
	return max(wait, leastWait)
}

// look decides anew, and is false when the stream has come to its end.
func (w *watch) look(ctx context.Context) bool {
	if w.stalled() {
		w.stall()
		return false
	}
	v := w.subject.Judge(ctx)
	now := w.clock.Now()
	switch {
	case v.Allow:
		w.until, w.decided, w.unknown = v.Until, now, false
		return true
	case v.Unknown && now.Sub(w.decided) < w.options.Grace && (w.until.IsZero() || now.Before(w.until)):
		w.unknown = true
		return true
	}
	w.cut(v)
	return false
}

func (w *watch) stalled() bool {
	mark, waiting := w.subject.Progress()
	now := w.clock.Now()
	if !waiting || mark != w.mark || w.since.IsZero() {
		w.mark, w.since = mark, now
		return false
	}
	return now.Sub(w.since) >= w.options.Stall
}
