package process

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseCPUReadsBehindAnyName(t *testing.T) {
	spent, err := parseCPU("7 (a) b) c) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 5 0 100 1000 1")
	require.NoError(t, err)
	assert.Equal(t, 2*time.Second, spent)

	_, err = parseCPU("7 (short) S 1")
	assert.Error(t, err)
}

func TestParseAllCPULeavesOutIdleTime(t *testing.T) {
	spent, err := parseAllCPU("cpu  100 20 30 99999 8888 1 2 777 0 0")
	require.NoError(t, err)
	assert.Equal(t, 1530*time.Millisecond, spent)

	_, err = parseAllCPU("intr 1")
	assert.Error(t, err)
}

func TestCPUOfThisProcess(t *testing.T) {
	spent, err := CPU(os.Getpid())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, spent, time.Duration(0))
}

func TestOutputTellsWhatAFailingProgramSaid(t *testing.T) {
	_, _, err := Output(t.Context(), "/bin/sh", "-c", "echo why >&2; exit 3")
	assert.ErrorContains(t, err, "why")
}
