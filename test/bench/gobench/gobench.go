// Package gobench runs Go benchmarks and reads what they print.
package gobench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/AlaudaDevops/countersign/test/bench/report"
)

// Results are the values of all repetitions, by benchmark and unit.
type Results map[string]map[string][]float64

// Run runs the benchmarks of one package that match the expression, count times.
func Run(ctx context.Context, root, pkg, expression string, count int) (Results, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench="+expression, "-benchtime=300ms", "-benchmem",
		"-count="+strconv.Itoa(count), pkg)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the benchmarks of %s failed: %w\n%s%s", pkg, err, output, stderr.Bytes())
	}
	return Parse(string(output)), nil
}

// Parse reads lines such as `BenchmarkX/part-2  100  12.5 ns/op  0 allocs/op`; the number of processors at the end
// of the name is dropped.
func Parse(output string) Results {
	results := Results{}
	lines := bufio.NewScanner(strings.NewReader(output))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		results.add(withoutProcessors(fields[0]), fields[2:])
	}
	return results
}

func (r Results) add(name string, pairs []string) {
	if r[name] == nil {
		r[name] = map[string][]float64{}
	}
	for ; len(pairs) >= 2; pairs = pairs[2:] {
		if value, err := strconv.ParseFloat(pairs[0], 64); err == nil {
			r[name][pairs[1]] = append(r[name][pairs[1]], value)
		}
	}
}

func withoutProcessors(name string) string {
	if at := strings.LastIndexByte(name, '-'); at > 0 {
		if _, err := strconv.Atoi(name[at+1:]); err == nil {
			return name[:at]
		}
	}
	return name
}

// Median is the middle of a benchmark's repetitions in a unit.
func (r Results) Median(benchmark, unit string) (float64, error) {
	values := r[benchmark][unit]
	if len(values) == 0 {
		return 0, fmt.Errorf("the benchmark %s printed no %s; was it renamed?", benchmark, unit)
	}
	return report.Median(values), nil
}
