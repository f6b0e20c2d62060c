package directory

import (
	"context"
	"sync"
)

// flights merge equal questions that are under way. The usual library for this lets a question go on when everybody has
// left, with all its tries and pauses.
type flights struct {
	mu     sync.Mutex
	byName map[string]*flight
}

// flight is one question. It ends when it is answered, or when nobody waits for it any more; but a try that is under way
// is finished even then, because its answer is worth remembering and the breaker must learn of its failure.
type flight struct {
	all    *flights
	name   string
	ctx    context.Context // ends when the question is abandoned
	cancel context.CancelFunc

	// Of all.mu.
	waiting int
	trying  bool

	done    chan struct{} // closed when outcome is set
	outcome *outcome
}

// join waits with the others for the question about the name, and begins it if there is none. Who joined must leave. The
// context gives its values only.
func (a *flights) join(ctx context.Context, name string, ask func(*flight) *outcome) (f *flight, leads bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f = a.byName[name]; f != nil {
		f.waiting++
		return f, false
	}
	f = &flight{all: a, name: name, waiting: 1, done: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if a.byName == nil {
		a.byName = map[string]*flight{}
	}
	a.byName[name] = f
	go f.run(ask)
	return f, true
}

func (f *flight) run(ask func(*flight) *outcome) {
	defer f.cancel()
	found := ask(f)
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.outcome = found
	f.forget()
	close(f.done)
}

func (f *flight) leave() {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.waiting--
	f.abandon()
}

// begin starts a try, unless nobody waits for it any more. end must follow.
func (f *flight) begin() bool {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.trying = f.ctx.Err() == nil
	return f.trying
}

func (f *flight) end() {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.trying = false
	f.abandon()
}

// abandon ends the question if nobody waits for it and no try is under way. Who asks next begins another.
func (f *flight) abandon() {
	if f.waiting > 0 || f.trying {
		return
	}
	f.cancel()
	f.forget()
}

func (f *flight) forget() {
	if f.all.byName[f.name] == f {
		delete(f.all.byName, f.name)
	}
}
