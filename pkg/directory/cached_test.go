package directory

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 3, 2, 7, 0, 0, 0, time.UTC)

func TestAnswersAreRememberedForTheirTime(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(context.Context, string, int) (*Person, error)
		ttl    time.Duration
	}{
		"a yes": {yes, DefaultPositive},
		"a no":  {no, DefaultNegative},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			s := &source{answer: test.answer}
			c := New(s, Options{Clock: clock}, nil)
			ask := func() int {
				_, _ = c.Lookup(t.Context(), "alice") // what is asked is how often
				return s.asked()
			}
			assert.Equal(t, 1, ask())
			clock.SetTime(start.Add(test.ttl - 1))
			assert.Equal(t, 1, ask())
			clock.SetTime(start.Add(test.ttl))
			assert.Equal(t, 2, ask())
		})
	}
}

func TestAnswersTellWhatTheDirectorySaid(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	s := &source{answer: yes}
	c := New(s, Options{Clock: clock}, nil)
	want := Answer{Person: Person{UID: "uid-alice", DisplayName: "The alice", Email: "alice@example.com"}, At: start}
	for range 2 {
		clock.Step(time.Second)
		got, err := c.Lookup(t.Context(), "alice")
		require.NoError(t, err)
		assert.Equal(t, want.Person, got.Person)
		assert.Equal(t, start.Add(time.Second), got.At, "the time of asking, not of handing out")
	}
	s.set(no)
	for range 2 {
		_, err := c.Lookup(t.Context(), "bob")
		require.ErrorIs(t, err, ErrUnknown)
		assert.EqualError(t, err, "the account is disabled")
	}
}

func TestAgeCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			time.Sleep(4 * time.Second)
			return yes(ctx, name, n)
		}}
		c := New(s, Options{Positive: 10 * time.Second}, nil)
		asked := time.Now()
		assert.Equal(t, asked, known(t, c, "alice").At)
		time.Sleep(6 * time.Second)
		known(t, c, "alice")
		assert.Equal(t, 2, s.asked(), "ten seconds after the first question")
	})
}

func TestS16_OldYesDoesNotCountInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: yes}
		c := New(s, Options{}, nil)
		known(t, c, "alice")
		s.set(down)
		time.Sleep(DefaultPositive - 1)
		known(t, c, "alice")
		time.Sleep(time.Nanosecond)
		assert.Equal(t, "connection refused", unavailable(t, c, "alice").Why)
	})
}

func TestMaxStaleStretchesOnlyAYesAndOnlyInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		s := &source{answer: yes}
		c := New(s, Options{MaxStale: time.Hour, Retries: -1, Breaker: Breaker{Failures: 100}}, registry)
		first := known(t, c, "alice")
		s.set(no)
		unknown(t, c, "bob")

		s.set(down)
		time.Sleep(DefaultPositive + time.Hour - 1)
		assert.Equal(t, first, known(t, c, "alice"), "says how old it is")
		_ = unavailable(t, c, "bob")
		assert.Equal(t, map[string]int{"miss": 4, "known": 1, "unknown": 1, "stale": 1, "unavailable": 1}, counts(t, registry))
		time.Sleep(time.Nanosecond)
		_ = unavailable(t, c, "alice")

		s.set(yes)
		known(t, c, "alice")
		s.set(no)
		time.Sleep(DefaultPositive)
		unknown(t, c, "alice")
		s.set(down)
		time.Sleep(DefaultNegative)
		_ = unavailable(t, c, "alice")
	})
}

func TestNothingIsRememberedOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: down}
		c := New(s, Options{}, nil)
		_ = unavailable(t, c, "alice")
		s.set(yes)
		known(t, c, "alice")
	})
}

func TestNoMemoryWhereNoneIsWanted(t *testing.T) {
	s := &source{answer: yes}
	c := New(s, Options{Positive: -1, Negative: -1}, nil)
	known(t, c, "alice")
	known(t, c, "alice")
	s.set(no)
	unknown(t, c, "alice")
	unknown(t, c, "alice")
	assert.Equal(t, 4, s.asked())
}

func TestMemoryIsBounded(t *testing.T) {
	s := &source{answer: yes}
	c := New(s, Options{Entries: 2}, nil)
	for _, name := range []string{"alice", "bob", "alice", "carol", "alice", "bob"} {
		known(t, c, name)
	}
	assert.Equal(t, []string{"alice", "bob", "carol", "bob"}, s.calls, "bob was not asked for longest")
	assert.Equal(t, 2, c.entries.Len())
}

func TestNamesThatNobodyHasAreNotAsked(t *testing.T) {
	s := &source{answer: yes}
	c := New(s, Options{}, nil)
	for name, username := range map[string]string{
		"empty": "", "too long": strings.Repeat("a", MaxName+1), "not UTF-8": "al\xffice", "half a rune": "alic\xc3",
	} {
		t.Run(name, func(t *testing.T) { unknown(t, c, username) })
	}
	assert.Zero(t, s.asked())
}

func TestNamesAreExact(t *testing.T) {
	s := &source{answer: yes}
	c := New(s, Options{}, nil)
	names := []string{
		"alice", "Alice", " alice", "alice ", "al\x00ice", "a:b", "a_b", "syst\u00e8me", "systeme\u0300", "*", "a)(uid=*",
		"../alice", "al%69ce", "\u202eecila", strings.Repeat("a", MaxName),
	}
	for range 2 {
		for _, name := range names {
			known(t, c, name)
		}
	}
	assert.Equal(t, names, s.calls, "each asked for once, as it is")
}

func TestConcurrentQuestionsAreMerged(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(context.Context, string, int) (*Person, error)
		check  func(*testing.T, *Cached, string)
		want   string
	}{
		"yes":    {yes, func(t *testing.T, c *Cached, name string) { known(t, c, name) }, "known"},
		"no":     {no, unknown, "unknown"},
		"outage": {down, func(t *testing.T, c *Cached, name string) { _ = unavailable(t, c, name) }, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
					time.Sleep(time.Second)
					return test.answer(ctx, name, n)
				}}
				c := New(s, Options{Retries: -1}, registry)
				var all sync.WaitGroup
				for range 200 {
					all.Go(func() { test.check(t, c, "alice") })
				}
				all.Wait()
				assert.Equal(t, 1, s.asked())
				assert.Equal(t, map[string]int{"miss": 1, "merged": 199, test.want: 1}, counts(t, registry))
			})
		})
	}
}

func TestWhoLeavesDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{answer: func(ctx context.Context, name string, n int) (*Person, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(3 * time.Second):
				return yes(ctx, name, n)
			}
		}}
		c := New(s, Options{}, nil)
		begin := time.Now()
		leaver, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		var all sync.WaitGroup
		all.Go(func() { // the first, whose context the question could have inherited
			_, err := c.Lookup(leaver, "alice")
			var u *UnavailableError
			assert.ErrorAs(t, err, &u)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Positive(t, u.RetryAfter)
			assert.Equal(t, time.Second, time.Since(begin))
		})
		synctest.Wait()
		all.Go(func() { known(t, c, "alice") })
		all.Wait()
		assert.Equal(t, 3*time.Second, time.Since(begin))
		assert.Equal(t, 1, s.asked())
	})
}

func TestAnswersAreBounded(t *testing.T) {
	long := strings.Repeat("é", MaxField)
	s := &source{answer: func(context.Context, string, int) (*Person, error) {
		return &Person{UID: long, DisplayName: "x" + long, Email: "bad\xff\xfe@example.com"}, nil
	}}
	got, err := New(s, Options{}, nil).Lookup(t.Context(), "alice")
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("é", MaxField/2), got.Person.UID)
	assert.Equal(t, "x"+strings.Repeat("é", MaxField/2-1), got.Person.DisplayName, "not a part of a rune")
	assert.Equal(t, "bad\uFFFD@example.com", got.Person.Email)
}

func TestCutNeverBreaksARune(t *testing.T) {
	text := "aé€😀\xff" + strings.Repeat("😀", 4)
	for n := range len(text) + 2 {
		got := cut(text, n)
		assert.LessOrEqual(t, len(got), n)
		assert.True(t, utf8.ValidString(got), "%q", got)
	}
}

func TestMetricsCarryNoNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := New(&source{answer: yes}, Options{Name: "static"}, registry)
	other := New(&source{answer: no}, Options{Name: "ldap"}, registry)
	known(t, c, "alice")
	known(t, c, "alice")
	unknown(t, other, "alice")
	families, err := registry.Gather()
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprint(families), "alice")
	assert.Len(t, family(t, registry, "countersign_directory_lookups_total"), 14)
	durations := family(t, registry, "countersign_directory_duration_seconds")
	require.Len(t, durations, 2)
	assert.Equal(t, uint64(1), durations[0].GetHistogram().GetSampleCount())
}

func TestCachedLookupAllocatesNothing(t *testing.T) {
	c := New(&source{answer: yes}, Options{}, nil)
	ctx := t.Context()
	known(t, c, "alice")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := c.Lookup(ctx, "alice"); err != nil {
			panic(err)
		}
	}))
}
