package directory

import (
	"errors"
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
	probing  bool // a try is under way that decides
	last     string
}

// shut is an error while there is no use in waiting for a free place.
func (b *breaker) shut() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal()
}

// admit says whether the directory may be asked now, and whether this try is the one that decides. After nil, succeeded or
// failed must be called with that.
func (b *breaker) admit() (probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refusal(); err != nil {
		return false, err
	}
	probe = b.failures >= b.limits.Failures
	b.probing = b.probing || probe
	return probe, nil
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

func (b *breaker) succeeded(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished(probe)
	b.failures, b.last = 0, ""
	b.opened.Set(0)
}

// failed counts a try, unless it failed for its own name only: the directory is not to be spared because of one person.
func (b *breaker) failed(probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished(probe)
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) && unavailable.OnlyThis {
		return
	}
	b.failures++
	b.last = cut(err.Error(), maxWhy)
	if b.failures >= b.limits.Failures {
		b.openTill = b.clock.Now().Add(b.limits.Open)
		b.opened.Set(1)
	}
}

// finished lets another try decide. One that began before the breaker opened does not: the deciding one may be under way.
func (b *breaker) finished(probe bool) {
	b.probing = b.probing && !probe
}
