package gobench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseKeepsEveryRepetitionAndUnit(t *testing.T) {
	results := Results{}
	results.Parse(`goos: linux
BenchmarkA/requests=1000/hot-2   	 1000	       200.5 ns/op	       0 B/op	       0 allocs/op
PASS
`)
	results.Parse(`BenchmarkA/requests=1000/hot-2   	 1000	       100 ns/op	       0 B/op	       0 allocs/op
BenchmarkB  	 1	 1200 B/request
`)
	for _, tt := range []struct {
		benchmark, unit string
		want            []float64
	}{
		{"BenchmarkA/requests=1000/hot", "ns/op", []float64{200.5, 100}},
		{"BenchmarkA/requests=1000/hot", "allocs/op", []float64{0, 0}},
		{"BenchmarkB", "B/request", []float64{1200}},
	} {
		values, err := results.Values(tt.benchmark, tt.unit)
		require.NoError(t, err)
		assert.Equal(t, tt.want, values)
	}
	_, err := results.Values("BenchmarkC", "ns/op")
	assert.ErrorContains(t, err, "BenchmarkC")
}
