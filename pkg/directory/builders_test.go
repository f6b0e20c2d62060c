package directory

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// errDown is an outage that is worth trying again.
var errDown = errors.New("connection refused")

// source is a directory whose answers the test chooses; n counts the calls from 1.
type source struct {
	answer func(ctx context.Context, name string, n int) (*Person, error)

	mu    sync.Mutex
	calls []string
}

func (s *source) Lookup(ctx context.Context, name string) (*Person, error) {
	s.mu.Lock()
	s.calls = append(s.calls, name)
	n := len(s.calls)
	answer := s.answer
	s.mu.Unlock()
	return answer(ctx, name, n)
}

func (s *source) set(answer func(context.Context, string, int) (*Person, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *source) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func yes(_ context.Context, name string, _ int) (*Person, error) {
	return &Person{UID: "uid-" + name, DisplayName: "The " + name, Email: name + "@example.com"}, nil
}

func no(context.Context, string, int) (*Person, error) {
	return nil, &UnknownError{Why: "the account is disabled"}
}

func down(context.Context, string, int) (*Person, error) { return nil, errDown }

func known(t *testing.T, c *Cached, name string) Answer {
	t.Helper()
	answer, err := c.Lookup(t.Context(), name)
	require.NoError(t, err)
	assert.Equal(t, cut("uid-"+name, MaxField), answer.Person.UID)
	return answer
}

func unknown(t *testing.T, c *Cached, name string) {
	t.Helper()
	answer, err := c.Lookup(t.Context(), name)
	require.ErrorIs(t, err, ErrUnknown)
	assert.Zero(t, answer)
}

func unavailable(t *testing.T, c *Cached, name string) *UnavailableError {
	t.Helper()
	answer, err := c.Lookup(t.Context(), name)
	var u *UnavailableError
	require.ErrorAs(t, err, &u)
	require.NotErrorIs(t, err, ErrUnknown)
	assert.Positive(t, u.RetryAfter)
	assert.Zero(t, answer)
	return u
}

// counts returns countersign_directory_lookups_total by result, without what is zero.
func counts(t *testing.T, registry *prometheus.Registry) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, m := range family(t, registry, "countersign_directory_lookups_total") {
		if v := int(m.GetCounter().GetValue()); v != 0 {
			found[m.GetLabel()[1].GetValue()] = v
		}
	}
	return found
}

func family(t *testing.T, registry *prometheus.Registry, name string) []*dto.Metric {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	require.Failf(t, "no such metric", "%s", name)
	return nil
}
