package people

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func opened(t *testing.T) *Directory {
	t.Helper()
	d, err := Open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return d
}

func TestQueriesCountsWhatTheServerWasAsked(t *testing.T) {
	d := opened(t)
	most, tries, err := d.Queries(t.Context(), 20)
	require.NoError(t, err)
	assert.Equal(t, authors, tries)
	assert.Equal(t, 1, most)

	for range 2 {
		_, err := d.asking().Lookup(t.Context(), author(3))
		require.NoError(t, err)
	}
	count, err := d.searches(author(3))
	require.NoError(t, err)
	assert.Equal(t, 3, count, "what is asked more often is counted more often")
	_, err = d.searches(person(3))
	assert.ErrorContains(t, err, "shows no search")
}

func TestRatesLooksUpInBothWays(t *testing.T) {
	rounds, err := opened(t).Rates(t.Context(), io.Discard, 1, 3, 10*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, rounds, 1)
	assert.Positive(t, rounds[0][Asked].PerSecond)
	assert.Positive(t, rounds[0][Remembered].PerSecond)
}
