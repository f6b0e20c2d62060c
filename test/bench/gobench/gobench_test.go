package gobench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseKeepsEveryRepetitionAndUnit(t *testing.T) {
	results := Parse(`goos: linux
BenchmarkA/requests=1000/hot-2   	 1000	       200.5 ns/op	       0 B/op	       0 allocs/op
BenchmarkA/requests=1000/hot-2   	 1000	       100 ns/op	       0 B/op	       0 allocs/op
BenchmarkA/requests=1000/hot-2   	 1000	       300 ns/op	       0 B/op	       0 allocs/op
BenchmarkB  	 1	 1200 B/request
PASS
`)
	median, err := results.Median("BenchmarkA/requests=1000/hot", "ns/op")
	require.NoError(t, err)
	assert.Equal(t, 200.5, median)
	allocs, err := results.Median("BenchmarkA/requests=1000/hot", "allocs/op")
	require.NoError(t, err)
	assert.Zero(t, allocs)
	held, err := results.Median("BenchmarkB", "B/request")
	require.NoError(t, err)
	assert.Equal(t, 1200.0, held)

	_, err = results.Median("BenchmarkC", "ns/op")
	assert.ErrorContains(t, err, "BenchmarkC")
}
