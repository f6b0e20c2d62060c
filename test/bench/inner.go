package main

import (
	"context"
	"fmt"

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
		for name, values := range found {
			results[name] = values
		}
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

func (r *reader) median(benchmark, unit string) float64 {
	value, err := r.results.Median(benchmark, unit)
	if err != nil && r.err == nil {
		r.err = err
	}
	return value
}

func (r *reader) tokenRows() []report.Row {
	return []report.Row{
		{
			What: "look-up of a known token", Value: r.median("BenchmarkKnownToken", "ns/op"), Unit: "ns", Bound: report.AtMost, Goal: 1000,
			Detail: fmt.Sprintf("%.0f allocations", r.median("BenchmarkKnownToken", "allocs/op")),
		},
		{
			What: "first sight of a token vs rsa.VerifyPKCS1v15", Value: r.median("BenchmarkFirstSightRS256", "ratio"), Unit: "×",
			Bound: report.AtMost, Goal: 1.6,
			Detail: fmt.Sprintf("%.0f and %.0f ns", r.median("BenchmarkFirstSightRS256", "ns/first-sight"), r.median("BenchmarkFirstSightRS256", "ns/bare")),
		},
	}
}

func (r *reader) decisionRows() []report.Row {
	time := func(size int, keys string) float64 { return r.median(decision(size, keys), "ns/op") }
	allocations := r.median(decision(1_000, "hot"), "allocs/op") + r.median(decision(100_000, "hot"), "allocs/op")
	small, large := time(1_000, "hot"), time(100_000, "hot")
	return []report.Row{
		{What: "decision, hot key, 1,000 requests", Value: small, Unit: "ns", Bound: report.AtMost, Goal: 1000},
		{What: "decision, hot key, 100,000 requests", Value: large, Unit: "ns", Bound: report.AtMost, Goal: 1000},
		{What: "decision, hot key, allocations", Value: allocations, Bound: report.AtMost, Goal: 0},
		{
			What: "decision at 100,000 vs 1,000 requests", Value: large / max(small, 1), Unit: "×", Bound: report.AtMost, Goal: 1.2,
			Detail: fmt.Sprintf("%.0f and %.0f ns", large, small),
		},
		{What: "decision, random keys, 100,000 requests", Value: time(100_000, "random"), Unit: "ns", Bound: report.AtMost, Goal: 2000},
	}
}

func decision(size int, keys string) string {
	return fmt.Sprintf("BenchmarkIndexedDecision/requests=%d/%s", size, keys)
}

func (r *reader) memoryRows() []report.Row {
	return []report.Row{
		{
			What: "memory per request held in the proxy", Value: r.median("BenchmarkMemoryPerRequest", "B/request"), Unit: "B",
			Bound: report.AtMost, Goal: 1536,
		},
		{
			What: "memory per pod held in the proxy", Value: r.median("BenchmarkMemoryPerPod", "B/pod"), Unit: "B",
			Bound: report.AtMost, Goal: 512,
		},
	}
}
