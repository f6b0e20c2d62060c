package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrintSaysWhatIsMetAndWhatIsNot(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Print(&out, []Row{
		{What: "fast enough", Value: 0.97, Unit: "×", Bound: AtLeast, Goal: 0.95, Detail: "0.96 to 0.98"},
		{What: "too slow", Value: 1250, Unit: "ns", Bound: AtMost, Goal: 1000},
		{What: "only told", Value: 12.34, Unit: "µs"},
	}))
	assert.Equal(t, `WHAT         MEASURED  GOAL                DETAIL
fast enough  0.97 ×    ≥ 0.95 ×   met      0.96 to 0.98
too slow     1250 ns   ≤ 1000 ns  NOT MET  
only told    12.3 µs                       
`, out.String())
}

func TestMedian(t *testing.T) {
	assert.Equal(t, 2.0, Median([]float64{3, 1, 2}))
	assert.Equal(t, 2.0, Median([]float64{4, 3, 1, 2}))
	assert.Zero(t, Median(nil))
}
