package directory

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

func TestTriesAgainWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			at = append(at, time.Since(begin))
			if n < 3 {
				return nil, errDown
			}
			return yes(ctx, name, n)
		}}
		c := New(s, Options{Backoff: time.Second}, nil)
		answer := known(t, c, "alice")
		require.Len(t, at, 3)
		assert.Equal(t, begin.Add(at[2]), answer.At, "the time of the try that was answered")
		between(t, at[1]-at[0], time.Second/2, time.Second)
		between(t, at[2]-at[1], time.Second, 2*time.Second)
	})
}

func between(t *testing.T, got, low, high time.Duration) {
	t.Helper()
	assert.GreaterOrEqual(t, got, low)
	assert.LessOrEqual(t, got, high)
}

func TestTriesOnlyAsOftenAsThereIsUse(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		answer  func(context.Context, string, int) (*Person, error)
		want    int
		after   time.Duration
		why     string
	}{
		"an outage":     {Options{}, down, 1 + DefaultRetries, DefaultRetryAfter, "connection refused"},
		"no retries":    {Options{Retries: -1}, down, 1, DefaultRetryAfter, "connection refused"},
		"own patience":  {Options{Retries: 1, RetryAfter: time.Minute}, down, 2, time.Minute, "connection refused"},
		"told to wait":  {Options{}, told(&UnavailableError{Why: "too many requests", RetryAfter: 42 * time.Second}), 1, 42 * time.Second, "too many requests"},
		"wrapped":       {Options{}, told(fmt.Errorf("x: %w", &UnavailableError{Why: "busy", RetryAfter: time.Second})), 1, time.Second, "busy"},
		"not told when": {Options{}, told(&UnavailableError{Why: "busy"}), 3, DefaultRetryAfter, "busy"},
		"breaker opens": {Options{Breaker: Breaker{Failures: 2}}, down, 2, DefaultOpen, "the directory failed 2 times in a row and is given a pause; it last said: connection refused"},
		"long words":    {Options{Retries: -1}, told(errors.New(strings.Repeat("é", 1000))), 1, DefaultRetryAfter, strings.Repeat("é", maxWhy/2)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{answer: test.answer}
				got := unavailable(t, New(s, test.options, nil), "alice")
				assert.Equal(t, test.want, s.asked())
				assert.Equal(t, test.why, got.Why)
				assert.Equal(t, test.after, got.RetryAfter)
			})
		})
	}
}

func told(err error) func(context.Context, string, int) (*Person, error) {
	return func(context.Context, string, int) (*Person, error) { return nil, err }
}

func TestNoIsNotTriedAgain(t *testing.T) {
	for name, err := range map[string]error{
		"plain": ErrUnknown, "with words": &UnknownError{Why: "left"}, "wrapped": fmt.Errorf("scim: %w", ErrUnknown),
	} {
		t.Run(name, func(t *testing.T) {
			s := &source{answer: told(err)}
			unknown(t, New(s, Options{}, nil), "alice")
			assert.Equal(t, 1, s.asked())
		})
	}
}

func TestS16_BrokenClientIsNotAYes(t *testing.T) {
	for name, answer := range map[string]func(context.Context, string, int) (*Person, error){
		"panic":        func(context.Context, string, int) (*Person, error) { panic("secret of alice") },
		"panic of nil": func(context.Context, string, int) (*Person, error) { var p *Person; return &Person{UID: p.UID}, nil },
		"ended":        func(context.Context, string, int) (*Person, error) { runtime.Goexit(); return nil, nil },
		"neither":      func(context.Context, string, int) (*Person, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{answer: answer}
				c := New(s, Options{Concurrency: 1}, nil)
				assert.Equal(t, errBroken.Error(), unavailable(t, c, "alice").Why)
				s.set(yes)
				known(t, c, "alice")
			})
		})
	}
}

func TestEachTryHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, _ string, _ int) (*Person, error) {
			_, limited := ctx.Deadline()
			assert.True(t, limited)
			<-ctx.Done()
			return nil, fmt.Errorf("reading: %w", ctx.Err())
		}}
		begin := time.Now()
		got := unavailable(t, New(s, Options{Backoff: -1}, nil), "alice")
		assert.Equal(t, "the directory did not answer within 5s", got.Why)
		assert.Equal(t, 3*DefaultTimeout, time.Since(begin))
	})
}

func TestDirectoryThatIgnoresItsTimeHoldsOnlyItsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			<-wake
			return yes(ctx, name, n)
		}}
		c := New(s, Options{Concurrency: 2, Retries: -1, Breaker: Breaker{Failures: 100}}, nil)
		assert.Equal(t, "the directory did not answer within 5s", unavailable(t, c, "alice").Why)
		_ = unavailable(t, c, "bob")
		begin := time.Now()
		assert.Equal(t, "2 look-ups are under way already and none ended within 5s", unavailable(t, c, "carol").Why)
		assert.Equal(t, DefaultTimeout, time.Since(begin))
		assert.Equal(t, 2, s.asked())
		close(wake)
		synctest.Wait()
		known(t, c, "carol")
		assert.Equal(t, 3, s.asked(), "an answer that came too late is not used")
	})
}

func TestOnlySoManyAskAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(100 * time.Millisecond)
			return yes(ctx, name, n)
		}}
		c := New(s, Options{Concurrency: 4}, nil)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() { known(t, c, fmt.Sprint("person", i)) })
		}
		all.Wait()
		assert.Equal(t, int32(4), most.Load())
	})
}

func TestBreakerSparesADirectoryThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		open := func() float64 {
			return family(t, registry, "countersign_directory_breaker_open")[0].GetGauge().GetValue()
		}
		s := &source{answer: down}
		c := New(s, Options{Retries: -1, Breaker: Breaker{Failures: 3, Open: time.Minute}}, registry)
		for i := range 3 {
			assert.Zero(t, open())
			_ = unavailable(t, c, fmt.Sprint("person", i))
		}
		assert.Equal(t, float64(1), open())
		time.Sleep(59 * time.Second)
		assert.Equal(t, time.Second, unavailable(t, c, "alice").RetryAfter)
		assert.Equal(t, 3, s.asked())

		time.Sleep(time.Second)
		assert.Equal(t, "connection refused", unavailable(t, c, "alice").Why, "one try")
		_ = unavailable(t, c, "alice")
		assert.Equal(t, 4, s.asked())
		assert.Equal(t, float64(1), open())

		time.Sleep(time.Minute)
		s.set(no)
		unknown(t, c, "alice")
		assert.Zero(t, open())
		s.set(yes)
		known(t, c, "bob")
	})
}

func TestOnlyOneTriesWhetherTheDirectoryIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: down}
		c := New(s, Options{Breaker: Breaker{Failures: 1}}, nil)
		_ = unavailable(t, c, "alice")
		s.set(func(ctx context.Context, name string, n int) (*Person, error) {
			time.Sleep(2 * time.Second)
			return yes(ctx, name, n)
		})
		time.Sleep(DefaultOpen)
		var all sync.WaitGroup
		all.Go(func() { known(t, c, "alice") })
		synctest.Wait()
		for i := range 10 {
			all.Go(func() { _ = unavailable(t, c, fmt.Sprint("person", i)) })
		}
		all.Wait()
		assert.Equal(t, 2, s.asked())
	})
}

func TestFailuresMustFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			if n%3 == 0 {
				return no(ctx, name, n)
			}
			return nil, errDown
		}}
		c := New(s, Options{Retries: 2, Breaker: Breaker{Failures: 3}}, nil)
		for i := range 5 {
			unknown(t, c, fmt.Sprint("person", i))
		}
	})
}

func TestAbsentDirectoryAnswersNobody(t *testing.T) {
	got := unavailable(t, New(Absent("there is none"), Options{}, nil), "alice")
	assert.Equal(t, "there is none", got.Why)
	assert.Equal(t, absentRetry, got.RetryAfter)
}
