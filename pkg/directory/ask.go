package directory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
)

// errBroken is what a directory that panics, or answers neither yes nor no, is taken to have said.
var errBroken = errors.New("the directory's client failed in a way that it should not; see the log of the controller")

// ask tries until the directory says yes or no, or until there is no use in trying. An error is ErrUnknown or an
// *UnavailableError. At is set with a yes and with a no.
func (c *Cached) ask(ctx context.Context, username string) (Answer, error) {
	pause := c.options.Backoff
	for tries := 0; ; tries++ {
		answer, err := c.try(ctx, username)
		if err == nil || errors.Is(err, ErrUnknown) {
			return answer, err
		}
		unavailable := c.unavailable(err)
		if unavailable.RetryAfter > 0 || tries >= c.options.Retries {
			return Answer{}, c.withRetryAfter(unavailable)
		}
		if err := c.breaker.shut(); err != nil {
			return Answer{}, err
		}
		<-c.options.Clock.After(jitter(pause))
		pause *= 2
	}
}

// jitter keeps those who failed together from trying together again.
func jitter(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d - rand.N(d/2)
}

// try asks once, if the breaker lets it.
func (c *Cached) try(ctx context.Context, username string) (Answer, error) {
	if err := c.breaker.shut(); err != nil {
		return Answer{}, err
	}
	if err := c.place(ctx); err != nil {
		return Answer{}, err
	}
	probe, err := c.breaker.admit()
	if err != nil {
		<-c.places
		return Answer{}, err
	}
	answer, err := c.call(ctx, username)
	if err == nil || errors.Is(err, ErrUnknown) {
		c.breaker.succeeded(probe)
		return answer, err
	}
	logr.FromContextOrDiscard(ctx).Info("The directory did not answer", "directory", c.options.Name, "reason", err.Error())
	c.breaker.failed(probe, err)
	return Answer{}, err
}

// place waits until fewer than Concurrency tries are under way. It is given back when the directory returns, even if
// nobody waits for that any more.
func (c *Cached) place(ctx context.Context) error {
	select {
	case c.places <- struct{}{}:
		return nil
	default:
	}
	wait, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	select {
	case c.places <- struct{}{}:
		return nil
	case <-wait.Done():
		return &UnavailableError{
			Why:        fmt.Sprintf("%d look-ups are under way already and none ended within %s", c.options.Concurrency, c.options.Timeout),
			RetryAfter: c.options.RetryAfter,
		}
	}
}

// said is what one call brought.
type said struct {
	person *Person
	err    error
}

// call asks the implementation and leaves when the time is over, whether or not the implementation heeds the context.
func (c *Cached) call(ctx context.Context, username string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	at := c.options.Clock.Now()
	answers := make(chan said, 1)
	go c.guarded(ctx, username, answers)
	defer func() { c.metrics.duration.Observe(c.options.Clock.Since(at).Seconds()) }()
	select {
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	case s := <-answers:
		return read(s, at)
	}
}

// guarded says what the implementation says, or errBroken if it panics or ends its goroutine, and gives the place back.
func (c *Cached) guarded(ctx context.Context, username string, answers chan<- said) {
	s := said{err: errBroken}
	defer func() {
		if r := recover(); r != nil {
			// What it panicked with may hold a secret; where it did is what mends it.
			logr.FromContextOrDiscard(ctx).Error(errBroken, "The directory's client panicked", "directory", c.options.Name,
				"type", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
		}
		<-c.places
		answers <- s
	}()
	person, err := c.inner.Lookup(ctx, username)
	s = said{person: person, err: err}
}

func read(s said, at time.Time) (Answer, error) {
	switch {
	case s.err != nil:
		return Answer{At: at}, s.err
	case s.person == nil:
		return Answer{}, errBroken
	}
	return Answer{At: at, Person: Person{
		UID: cut(s.person.UID, MaxField), DisplayName: cut(s.person.DisplayName, MaxField), Email: cut(s.person.Email, MaxField),
	}}, nil
}

func (c *Cached) unavailable(err error) *UnavailableError {
	var known *UnavailableError
	if errors.As(err, &known) {
		return &UnavailableError{Why: cut(known.Why, maxWhy), RetryAfter: known.RetryAfter, cause: err}
	}
	why := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		why = fmt.Sprintf("the directory did not answer within %s", c.options.Timeout)
	}
	return &UnavailableError{Why: cut(why, maxWhy), cause: err}
}

func (c *Cached) withRetryAfter(e *UnavailableError) *UnavailableError {
	if e.RetryAfter <= 0 {
		e.RetryAfter = c.options.RetryAfter
	}
	return e
}
