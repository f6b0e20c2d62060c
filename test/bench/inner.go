package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/AlaudaDevops/countersign/test/bench/gobench"
	"github.com/AlaudaDevops/countersign/test/bench/report"
)

// suite is the Go benchmarks of one package.
type suite struct{ pkg, expression string }

func suites() []suite {
	return []suite{
		{"./pkg/token", "^(BenchmarkKnownToken|BenchmarkFirstSightRS256)$"},
		{"./pkg/gate", "^(BenchmarkIndexedDecision|BenchmarkMemoryPerRequest)$"},
		{"./pkg/origin", "^BenchmarkMemoryPerPod$"},
	}
}

// innerParts runs the Go benchmarks of what every request passes.
func innerParts(ctx context.Context, b *bench) ([]report.Row, error) {
	results := gobench.Results{}
	for _, s := range suites() {
		b.say("   %s", s.pkg)
		found, err := gobench.Run(ctx, b.root, s.pkg, s.expression, b.repetitions)
		if err != nil {
			return nil, err
		}
		maps.Copy(results, found)
	}
	r := reader{results: results}
	rows := append(r.tokenRows(), r.decisionRows()...)
	return append(rows, r.memoryRows()...), r.err
}

// reader keeps the first error, so that a missing value fails the run once.
type reader struct {
	results gobench.Results
	err     error
}

func (r *reader) values(benchmark, unit string) []float64 {
	values, err := r.results.Values(benchmark, unit)
	if err != nil {
		r.err = cmp.Or(r.err, err)
		return []float64{0}
	}
	return values
}

// row is the median of a benchmark's repetitions, with their spread.
func (r *reader) row(what, benchmark, unit string, goal float64) report.Row {
	values := r.values(benchmark, unit)
	return report.Row{
		What: what, Value: report.Median(values), Unit: shown(unit), Bound: report.AtMost, Goal: goal,
		Detail: fmt.Sprintf("%.4g to %.4g", slices.Min(values), slices.Max(values)),
	}
}

// shown is a benchmark's unit in the report, where the row says what it is counted by.
func shown(unit string) string {
	if unit == "ratio" {
		return "×"
	}
	short, _, _ := strings.Cut(unit, "/")
	return short
}

func (r *reader) tokenRows() []report.Row {
	return []report.Row{
		r.row("look-up of a known token", "BenchmarkKnownToken", "ns/op", 1000),
		r.row("first sight of a token vs rsa.VerifyPKCS1v15", "BenchmarkFirstSightRS256", "ratio", 1.6),
	}
}

func (r *reader) decisionRows() []report.Row {
	small, large := decision(1_000, "hot"), decision(100_000, "hot")
	allocations := slices.Max(append(r.values(small, "allocs/op"), r.values(large, "allocs/op")...))
	return []report.Row{
		r.row("decision, hot key, 1,000 requests", small, "ns/op", 1000),
		r.row("decision, hot key, 100,000 requests", large, "ns/op", 1000),
		{What: "decision, hot key, allocations", Value: allocations, Bound: report.AtMost, Goal: 0},
		r.growth("decision, hot key, 100,000 vs 1,000 requests", large, small, 1.2),
		r.row("decision, random keys, 100,000 requests", decision(100_000, "random"), "ns/op", 2000),
	}
}

// growth compares two benchmarks repetition by repetition.
func (r *reader) growth(what, one, other string, goal float64) report.Row {
	of, to := r.values(one, "ns/op"), r.values(other, "ns/op")
	ratios := make([]float64, 0, len(of))
	for i := range min(len(of), len(to)) {
		ratios = append(ratios, of[i]/max(to[i], 1))
	}
	return report.Row{
		What: what, Value: report.Median(ratios), Unit: "×", Bound: report.AtMost, Goal: goal,
		Detail: fmt.Sprintf("%.2f to %.2f", slices.Min(ratios), slices.Max(ratios)),
	}
}

func decision(size int, keys string) string {
	return fmt.Sprintf("BenchmarkIndexedDecision/requests=%d/%s", size, keys)
}

func (r *reader) memoryRows() []report.Row {
	return []report.Row{
		r.row("memory per request held in the proxy", "BenchmarkMemoryPerRequest", "B/request", 1536),
		r.row("memory per pod held in the proxy", "BenchmarkMemoryPerPod", "B/pod", 512),
	}
}
