package directory

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leaving asks and leaves after a while; it does not get an answer.
func leaving(t *testing.T, c *Cached, name string, after time.Duration) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), after)
	defer leave()
	_, err := c.Lookup(ctx, name)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrUnknown)
}

func TestPersonWhoWasEnteredIsKnownSoonHoweverOftenSheIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: no}
		c := New(s, Options{}, nil)
		unknown(t, c, "alice")
		s.set(yes)
		for range DefaultNegative/time.Second - 1 {
			time.Sleep(time.Second)
			unknown(t, c, "alice")
		}
		time.Sleep(time.Second)
		known(t, c, "alice")
	})
}

func TestS16_PersonWhoLeftIsUnknownSoonHoweverOftenSheIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: yes}
		c := New(s, Options{MaxStale: time.Hour}, nil)
		known(t, c, "alice")
		s.set(no)
		for range DefaultPositive/time.Second - 1 {
			time.Sleep(time.Second)
			known(t, c, "alice")
		}
		time.Sleep(time.Second)
		unknown(t, c, "alice")
		s.set(down)
		time.Sleep(DefaultNegative)
		_ = unavailable(t, c, "alice")
	})
}

func TestAnswerThatCameTooLateForTheCallerIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			time.Sleep(3 * time.Second)
			return yes(ctx, name, n)
		}}
		c := New(s, Options{}, nil)
		leaving(t, c, "alice", 2*time.Second)
		leaving(t, c, "alice", time.Second/2)
		known(t, c, "alice")
		assert.Equal(t, 1, s.asked(), "a directory slower than its callers answers them nevertheless")
	})
}

func TestBreakerLearnsOfFailuresThatNobodyWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, _ string, _ int) (*Person, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		c := New(s, Options{Breaker: Breaker{Failures: 2}, Backoff: time.Minute}, nil)
		for i := range 2 {
			leaving(t, c, fmt.Sprint("person", i), time.Second)
		}
		time.Sleep(DefaultTimeout)
		assert.Contains(t, unavailable(t, c, "alice").Why, "is given a pause")
		assert.Equal(t, 2, s.asked())
		time.Sleep(time.Hour) // the rest of the tries
	})
}

func TestWhoComesWhileAnotherLeavesIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			if n == 1 {
				return nil, errDown
			}
			return yes(ctx, name, n)
		}}
		c := New(s, Options{Backoff: 10 * time.Second}, nil)
		var all sync.WaitGroup
		all.Go(func() { leaving(t, c, "alice", time.Second) }) // leads
		time.Sleep(time.Second / 2)
		all.Go(func() { known(t, c, "alice") })
		all.Wait()
		assert.Equal(t, 2, s.asked(), "the question of the one who left went on for the other")
	})
}

func TestWholeLookupIsBoundedHoweverTheDirectoryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, _ string, _ int) (*Person, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		c := New(s, Options{}, nil)
		begin := time.Now()
		_ = unavailable(t, c, "alice")
		longest := time.Duration(1+DefaultRetries)*DefaultTimeout + 3*DefaultBackoff
		assert.LessOrEqual(t, time.Since(begin), longest)
		assert.Equal(t, 1+DefaultRetries, s.asked())
	})
}

func TestMemoryIsBoundedWhateverNamesAreAskedFor(t *testing.T) {
	const names = 10_000
	s := &source{answer: func(context.Context, string, int) (*Person, error) {
		return nil, &UnknownError{Why: strings.Repeat("long ", 1000)}
	}}
	c := New(s, Options{Entries: 100}, nil)
	for i := range names {
		unknown(t, c, fmt.Sprint("person", i))
	}
	assert.Equal(t, 100, c.entries.Len())
	for _, e := range c.entries.Values() {
		assert.LessOrEqual(t, len(e.no.Why), maxWhy)
	}
}

// A flood of names can make the directory be asked again, but not make it say something else.
func TestS16_FloodOfNamesTurnsNoNoIntoAYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: yes}
		c := New(s, Options{Entries: 2, MaxStale: time.Hour, Retries: -1, Breaker: Breaker{Failures: 1000}}, nil)
		known(t, c, "alice")
		s.set(no)
		time.Sleep(DefaultPositive)
		unknown(t, c, "alice")
		for i := range 10 {
			unknown(t, c, fmt.Sprint("person", i))
		}
		s.set(down)
		_ = unavailable(t, c, "alice")
	})
}

func TestNoHerdWhenTheDirectoryIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		s := &source{answer: down}
		c := New(s, Options{Concurrency: 4, Retries: -1, Breaker: Breaker{Failures: 1}}, nil)
		_ = unavailable(t, c, "first")
		s.set(func(ctx context.Context, name string, n int) (*Person, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			return yes(ctx, name, n)
		})
		time.Sleep(DefaultOpen)
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() { _, _ = c.Lookup(t.Context(), fmt.Sprint("person", i)) }) // most are told to come back
		}
		synctest.Wait()
		assert.EqualValues(t, 1, now.Load(), "one tries")
		all.Wait()
		assert.Equal(t, 2, s.asked(), "those who waited for a place are told to come back as well")
		for i := range 16 {
			all.Go(func() { known(t, c, fmt.Sprint("person", i)) })
		}
		all.Wait()
		assert.EqualValues(t, 4, most.Load(), "and then so many as ever")
	})
}

// Tries that began before the breaker opened may end while another one decides.
func TestLateFailuresLetNoSecondTryDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			time.Sleep(map[string]time.Duration{"late": 4 * time.Second, "probe": 4500 * time.Millisecond}[name])
			return nil, errDown
		}}
		c := New(s, Options{Retries: -1, Breaker: Breaker{Failures: 1, Open: time.Second}}, nil)
		var all sync.WaitGroup
		all.Go(func() { _ = unavailable(t, c, "late") })
		synctest.Wait()
		_ = unavailable(t, c, "first")
		time.Sleep(time.Second)
		all.Go(func() { _ = unavailable(t, c, "probe") })
		time.Sleep(4200 * time.Millisecond) // late has failed, and the pause after it is over
		assert.Contains(t, unavailable(t, c, "alice").Why, "is given a pause")
		all.Wait()
		assert.Equal(t, 3, s.asked())
	})
}

func TestS16_OnePersonsOddEntryKeepsTheDirectoryFromNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			if name == "odd" {
				return nil, fmt.Errorf("wrapped: %w", &UnavailableError{Why: "the entry is longer than it may be", OnlyThis: true})
			}
			return yes(ctx, name, n)
		}}
		c := New(s, Options{Breaker: Breaker{Failures: 2}}, registry)
		for range 5 {
			assert.Equal(t, "the entry is longer than it may be", unavailable(t, c, "odd").Why)
		}
		assert.Equal(t, 5*(1+DefaultRetries), s.asked())
		assert.Zero(t, family(t, registry, "countersign_directory_breaker_open")[0].GetGauge().GetValue())
		known(t, c, "alice")

		s.set(down)
		_ = unavailable(t, c, "bob")
		time.Sleep(DefaultOpen)
		s.set(func(context.Context, string, int) (*Person, error) {
			return nil, &UnavailableError{Why: "odd", OnlyThis: true}
		})
		_ = unavailable(t, c, "odd") // decides nothing
		s.set(yes)
		known(t, c, "bob")
	})
}
