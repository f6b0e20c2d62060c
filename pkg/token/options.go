package token

import (
	"time"

	"k8s.io/utils/clock"
)

// leeway is how far the clock of an issuer may be ahead. It applies to the beginning of a token's
// time only, never to its expiry.
const leeway = 10 * time.Second

// Options are the settings of a [Verifier] and a [Reviewer] that have a usual value, which zero stands for.
type Options struct {
	// Clock tells the time; the real one by default.
	Clock clock.Clock
	// CacheSize is how many known tokens are kept; 16384 by default. A token and its identity take
	// about 3 KiB.
	CacheSize int
	// FetchTimeout bounds one reading of keys, discovery included; 10 s by default.
	FetchTimeout time.Duration
	// RefreshInterval is how often keys are read while nobody asks for an unknown one; 5 min by default.
	// A key that its issuer withdraws is accepted for at most that long.
	RefreshInterval time.Duration
	// MinFetchInterval is the least time between two readings, however many tokens name unknown
	// keys; 10 s by default.
	MinFetchInterval time.Duration
	// MaxKeyAge is how long keys are trusted while they cannot be read again; 1 h by default.
	MaxKeyAge time.Duration
	// ReviewTimeout bounds one TokenReview; 5 s by default.
	ReviewTimeout time.Duration
	// ReviewTTL is how long the answer to a TokenReview counts; 10 s by default. Only a yes is kept.
	ReviewTTL time.Duration
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.CacheSize <= 0 {
		o.CacheSize = 16384
	}
	orDefault(&o.FetchTimeout, 10*time.Second)
	orDefault(&o.RefreshInterval, 5*time.Minute)
	orDefault(&o.MinFetchInterval, 10*time.Second)
	orDefault(&o.MaxKeyAge, time.Hour)
	orDefault(&o.ReviewTimeout, 5*time.Second)
	orDefault(&o.ReviewTTL, 10*time.Second)
	return o
}

func orDefault(d *time.Duration, usual time.Duration) {
	if *d <= 0 {
		*d = usual
	}
}
