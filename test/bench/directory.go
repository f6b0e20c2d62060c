package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/AlaudaDevops/countersign/test/bench/gobench"
	"github.com/AlaudaDevops/countersign/test/bench/measure"
	"github.com/AlaudaDevops/countersign/test/bench/people"
	"github.com/AlaudaDevops/countersign/test/bench/report"
)

const (
	// callers look people up at the same time, and atOnce one of them.
	callers = 8
	atOnce  = 200
	// lookupTurn is how long each way of looking people up is measured in a round.
	lookupTurn = 500 * time.Millisecond
)

// directoryLookups measures look-ups of people.
func directoryLookups(ctx context.Context, b *bench) ([]report.Row, error) {
	b.say("   ./pkg/directory")
	results, err := gobench.Run(ctx, b.root, "./pkg/directory", "^BenchmarkLookup(Cached|CachedParallel|Uncached)$", b.repetitions)
	if err != nil {
		return nil, err
	}
	r := reader{results: results}
	rows := r.lookupRows()
	if r.err != nil {
		return nil, r.err
	}
	served, err := servedLookups(ctx, b)
	return append(rows, served...), err
}

func (r *reader) lookupRows() []report.Row {
	return []report.Row{
		r.rate("look-up of a person, remembered", "BenchmarkLookupCached"),
		r.rate("look-up of a person, remembered, on all processors", "BenchmarkLookupCachedParallel"),
		r.rate("look-up of a person, each time in a file", "BenchmarkLookupUncached"),
	}
}

// rate is how long a benchmark's operation takes, with how many there are in a second.
func (r *reader) rate(what, benchmark string) report.Row {
	values := r.values(benchmark, "ns/op")
	value := report.Median(values)
	return report.Row{
		What: what, Value: value, Unit: "ns",
		Detail: fmt.Sprintf("%.0f/s; %.4g to %.4g ns", float64(time.Second)/max(value, 1), slices.Min(values), slices.Max(values)),
	}
}

// servedLookups are those in a real directory.
func servedLookups(ctx context.Context, b *bench) (rows []report.Row, err error) {
	b.say("   slapd")
	directory, err := people.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, directory.Close()) }()
	rounds, err := directory.Rates(ctx, b.out, b.rounds, callers, lookupTurn)
	if err != nil {
		return nil, err
	}
	most, tries, err := directory.Queries(ctx, atOnce)
	return append(servedRows(rounds), report.Row{
		What:  fmt.Sprintf("directory queries for %d simultaneous look-ups of one author", atOnce),
		Value: float64(most), Bound: report.AtMost, Goal: 1, Detail: fmt.Sprintf("the most of %d authors, by the log of slapd", tries),
	}), err
}

func servedRows(rounds []measure.Round) []report.Row {
	row := func(what string, party int) report.Row {
		return report.Row{
			What: what, Value: measure.Typical(rounds, party, perSecond), Unit: "/s",
			Detail: fmt.Sprintf("%d callers; median of %d rounds", callers, len(rounds)),
		}
	}
	ratio, spread := measure.Ratio(rounds, people.Remembered, people.Asked, perSecond)
	return []report.Row{
		row("look-ups in LDAP (slapd), asked each time", people.Asked),
		row("look-ups in LDAP (slapd), remembered", people.Remembered),
		{What: "look-ups in LDAP (slapd), remembered vs asked", Value: ratio, Unit: "×", Detail: spread},
	}
}
