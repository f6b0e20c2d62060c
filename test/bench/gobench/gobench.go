// Package gobench runs Go benchmarks and reads what they print.
package gobench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Results are the values of all repetitions, by benchmark and unit.
type Results map[string]map[string][]float64

// Run runs the benchmarks of one package that match the expression, count times: each time all of them in a process
// of its own, so that those that are compared with each other run in turns.
func Run(ctx context.Context, root, pkg, expression string, count int) (Results, error) {
	dir, err := os.MkdirTemp("", "gobench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "benchmarks")
	if _, err := output(ctx, root, "go", "test", "-c", "-o", binary, pkg); err != nil {
		return nil, err
	}
	results := Results{}
	for range count {
		printed, err := output(ctx, filepath.Join(root, pkg), binary, "-test.run=^$", "-test.bench="+expression,
			"-test.benchtime=300ms", "-test.benchmem")
		if err != nil {
			return nil, err
		}
		results.Parse(printed)
	}
	return results, nil
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s failed: %w\n%s%s", program, err, stdout, stderr.Bytes())
	}
	return string(stdout), nil
}

// Parse adds lines such as `BenchmarkX/part-2  100  12.5 ns/op  0 allocs/op`; the number of processors at the end
// of the name is dropped.
func (r Results) Parse(printed string) {
	for line := range strings.Lines(printed) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		r.add(withoutProcessors(fields[0]), fields[2:])
	}
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

// Values are those of a benchmark's repetitions in a unit, in order; at least one.
func (r Results) Values(benchmark, unit string) ([]float64, error) {
	values := r[benchmark][unit]
	if len(values) == 0 {
		return nil, fmt.Errorf("the benchmark %s printed no %s; was it renamed?", benchmark, unit)
	}
	return values, nil
}
