package directory

import (
	"time"

	"k8s.io/utils/clock"
)

// Defaults of Options.
const (
	DefaultPositive    = 5 * time.Minute
	DefaultNegative    = 30 * time.Second
	DefaultTimeout     = 5 * time.Second
	DefaultRetries     = 2
	DefaultBackoff     = 200 * time.Millisecond
	DefaultRetryAfter  = 10 * time.Second
	DefaultFailures    = 5
	DefaultOpen        = 15 * time.Second
	DefaultEntries     = 10_000
	DefaultConcurrency = 16
)

// Options bound what a Cached remembers and how it asks. A zero field is its default; a negative one is none.
type Options struct {
	// Name labels the metrics: the type of the directory.
	Name string
	// Clock tells how old answers are and paces retries; the real one if nil.
	Clock clock.Clock

	// Positive and Negative are how long a yes and a no are remembered, counted from when the directory was asked.
	Positive, Negative time.Duration
	// MaxStale is how much longer than Positive a yes still counts while the directory does not answer. Default none: a
	// person who left must not gain time from an outage that he may have caused. A no is never stretched.
	MaxStale time.Duration
	// Entries bounds how many answers are remembered; those not asked for longest go first.
	Entries int

	// Timeout bounds one try, and the wait for a free place among Concurrency tries.
	Timeout time.Duration
	// Retries is how many further tries follow a failed one, Backoff the first pause before them. Each pause is twice
	// the one before, and is shortened at random by up to half.
	Retries int
	Backoff time.Duration
	// Concurrency is how many tries may be under way at a time.
	Concurrency int
	// RetryAfter is what callers are told when the directory did not answer and nothing better is known.
	RetryAfter time.Duration
	// Breaker spares a directory that fails.
	Breaker Breaker
}

// Breaker opens after Failures failed tries in a row: the directory is then not asked for the time Open, after which a
// single try decides whether it is asked again. Failures that are OnlyThis name's are not counted, or one person with an
// odd entry could keep the directory from everybody.
type Breaker struct {
	Failures int
	Open     time.Duration
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "directory"
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.Positive, DefaultPositive}, {&o.Negative, DefaultNegative}, {&o.MaxStale, 0}, {&o.Timeout, DefaultTimeout},
		{&o.Backoff, DefaultBackoff}, {&o.RetryAfter, DefaultRetryAfter}, {&o.Breaker.Open, DefaultOpen},
	} {
		*d.field = orDefault(*d.field, d.value)
	}
	o.Retries = orDefault(o.Retries, DefaultRetries)
	// These cannot be none.
	o.Entries = max(1, orDefault(o.Entries, DefaultEntries))
	o.Concurrency = max(1, orDefault(o.Concurrency, DefaultConcurrency))
	o.Breaker.Failures = max(1, orDefault(o.Breaker.Failures, DefaultFailures))
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = DefaultRetryAfter
	}
	return o
}

func orDefault[T ~int | ~int64](value, standard T) T {
	switch {
	case value == 0:
		return standard
	case value < 0:
		return 0
	}
	return value
}
