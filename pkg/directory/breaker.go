package directory

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// breaker counts failures in a row. Libraries for this take their time from the system, which tests cannot move.
type breaker struct {
	clock  clock.PassiveClock
	limits Breaker
	opened prometheus.Gauge

	mu       sync.Mutex
	failures int
	openTill time.Time
	probing  bool
	last     string
}

// shut is an error while there is no use in waiting for a free place.
func (b *breaker) shut() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal()
}

// admit says whether the directory may be asked now. After nil, succeeded or failed must be called.
func (b *breaker) admit() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.refusal()
	b.probing = b.probing || err == nil && b.failures >= b.limits.Failures
	return err
}

func (b *breaker) refusal() error {
	if b.failures < b.limits.Failures {
		return nil
	}
	wait := b.openTill.Sub(b.clock.Now())
	if wait <= 0 && !b.probing {
		return nil
	}
	return &UnavailableError{
		Why:        fmt.Sprintf("the directory failed %d times in a row and is given a pause; it last said: %s", b.failures, b.last),
		RetryAfter: max(wait, time.Second),
	}
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.probing, b.last = 0, false, ""
	b.opened.Set(0)
}

func (b *breaker) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	b.probing, b.last = false, err.Error()
	if b.failures >= b.limits.Failures {
		b.openTill = b.clock.Now().Add(b.limits.Open)
		b.opened.Set(1)
	}
}
