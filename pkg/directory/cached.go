package directory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
)

// Bounds of what goes in and comes out.
const (
	// MaxName is how many bytes a user name may have; a longer one is nobody's.
	MaxName = 4096
	// MaxField is how many bytes of each field of a Person are kept.
	MaxField = 1024
	// maxWhy is how many bytes of an implementation's error are shown.
	maxWhy = 512
)

// Answer is a person whom the directory knows, and when it was asked.
type Answer struct {
	Person Person
	At     time.Time
}

// Cached asks a Directory on behalf of everybody in the process: it remembers answers for a bounded time, merges equal
// questions, and bounds what reaches the directory. It is safe for concurrent use.
type Cached struct {
	inner   Directory
	options Options
	entries *lru.Cache[string, entry]
	flight  singleflight.Group
	places  chan struct{}
	breaker breaker
	metrics *series
}

// entry is a remembered answer: no is nil for a person who is known.
type entry struct {
	answer Answer
	no     *UnknownError
	until  time.Time
}

// New returns a Cached in front of inner. Metrics are registered with registerer, unless it is nil; several Cached may
// share one.
func New(inner Directory, options Options, registerer prometheus.Registerer) *Cached {
	options = options.withDefaults()
	entries, err := lru.New[string, entry](options.Entries)
	if err != nil {
		panic(err) // withDefaults leaves no size that is refused
	}
	c := &Cached{
		inner: inner, options: options, entries: entries,
		places: make(chan struct{}, options.Concurrency), metrics: newSeries(options.Name, registerer),
	}
	c.breaker = breaker{clock: options.Clock, limits: options.Breaker, opened: c.metrics.breaker}
	return c
}

// Lookup finds the person with exactly this user name. errors.Is(err, ErrUnknown) is the directory's no; any other
// error is an *UnavailableError, neither yes nor no, and says when to ask again. A caller whose context ends leaves with
// an *UnavailableError that wraps the context's error; others that wait for the same name are not disturbed.
//
// An answer is never older than Positive (a yes) or Negative (a no), counted from when the directory was asked, except
// that a yes counts for MaxStale longer while the directory does not answer.
func (c *Cached) Lookup(ctx context.Context, username string) (Answer, error) {
	if found, ok := c.remembered(username); ok {
		c.metrics.hit.Inc()
		return found.result()
	}
	if err := validName(username); err != nil {
		return Answer{}, err
	}
	return c.merged(ctx, username)
}

func (e *entry) result() (Answer, error) {
	if e.no != nil {
		return Answer{}, e.no
	}
	return e.answer, nil
}

func (c *Cached) remembered(username string) (entry, bool) {
	found, ok := c.entries.Get(username)
	return found, ok && c.options.Clock.Now().Before(found.until)
}

func validName(username string) error {
	switch {
	case username == "":
		return &UnknownError{Why: "nobody has an empty user name"}
	case len(username) > MaxName:
		return &UnknownError{Why: fmt.Sprintf("nobody has a user name of more than %d bytes", MaxName)}
	case !utf8.ValidString(username):
		return &UnknownError{Why: "nobody has a user name that is not UTF-8"}
	}
	return nil
}

// merged waits for the one question about the name that is under way, which it starts if there is none.
func (c *Cached) merged(ctx context.Context, username string) (Answer, error) {
	leads := false // written by the question's goroutine before it answers
	result := c.flight.DoChan(username, func() (any, error) {
		leads = true
		return c.question(context.WithoutCancel(ctx), username), nil
	})
	select {
	case <-ctx.Done():
		return Answer{}, &UnavailableError{
			Why: "the directory did not answer in the time that the caller had", RetryAfter: c.options.RetryAfter, cause: context.Cause(ctx),
		}
	case r := <-result:
		if !leads {
			c.metrics.merged.Inc()
		}
		return r.Val.(*outcome).result()
	}
}

// outcome is what everybody who waits for a question gets.
type outcome struct {
	entry
	unavailable *UnavailableError
}

func (o *outcome) result() (Answer, error) {
	if o.unavailable != nil {
		return Answer{}, o.unavailable
	}
	return o.entry.result()
}

// question asks, remembers the answer, and falls back to a yes that is not too old.
func (c *Cached) question(ctx context.Context, username string) *outcome {
	// The one that led until a moment ago may have answered already.
	if found, ok := c.remembered(username); ok {
		c.metrics.hit.Inc()
		return &outcome{entry: found}
	}
	c.metrics.miss.Inc()
	answer, err := c.ask(ctx, username)
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		if found, ok := c.stale(username); ok {
			c.metrics.stale.Inc()
			return &outcome{entry: found}
		}
		c.metrics.unavailable.Inc()
		return &outcome{unavailable: unavailable}
	}
	return &outcome{entry: c.remember(username, answer, err)}
}

func (c *Cached) stale(username string) (entry, bool) {
	found, ok := c.entries.Peek(username)
	return found, ok && found.no == nil && c.options.Clock.Now().Before(found.until.Add(c.options.MaxStale))
}

// remember keeps a yes (err is nil) or a no.
func (c *Cached) remember(username string, answer Answer, err error) entry {
	e := entry{answer: answer, until: answer.At.Add(c.options.Positive)}
	if err == nil {
		c.metrics.known.Inc()
	} else {
		c.metrics.unknown.Inc()
		e = entry{no: &UnknownError{Why: cut(err.Error(), maxWhy)}, until: answer.At.Add(c.options.Negative)}
	}
	c.entries.Add(strings.Clone(username), e)
	return e
}

// cut returns at most n bytes of text as valid UTF-8, without a part of a rune at the end.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.Clone(text[:n])
}
