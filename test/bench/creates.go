package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/AlaudaDevops/countersign/test/bench/creates"
	"github.com/AlaudaDevops/countersign/test/bench/measure"
	"github.com/AlaudaDevops/countersign/test/bench/report"
)

// createLatency measures what the creator record costs whoever creates an object.
func createLatency(ctx context.Context, b *bench) (rows []report.Row, err error) {
	plane, err := creates.Open(ctx, b.root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plane.Close()) }()
	rounds, err := plane.Rounds(ctx, b.out, b.self, b.rounds, b.creates)
	if err != nil {
		return nil, err
	}
	b.note("Creates: suspended Jobs, %d connections, %d rounds of %v for each way; the API server, its etcd, which does not wait\n"+
		"for the disk, the webhook and the load share the processors.", b.creates.Connections, b.rounds, b.creates.Duration)
	return createRows(rounds), nil
}

func createRows(rounds []measure.Round) []report.Row {
	const policy, webhook = "the creator policy", "the creator webhook instead"
	rows := []report.Row{
		createRow(rounds, creates.Without, "creates without creator record"),
		createRow(rounds, creates.Policy, "creates with "+policy),
		createRow(rounds, creates.Webhook, "creates with "+webhook),
	}
	rows = append(rows, createRatios(rounds, creates.Policy, policy)...)
	return append(rows, createRatios(rounds, creates.Webhook, webhook)...)
}

func perSecond(s measure.Sample) float64    { return s.PerSecond }
func median(s measure.Sample) time.Duration { return s.P50 }
func late(s measure.Sample) time.Duration   { return s.P99 }

func createRow(rounds []measure.Round, mode creates.Mode, what string) report.Row {
	return report.Row{
		What: what, Value: measure.Typical(rounds, int(mode), perSecond), Unit: "/s",
		Detail: fmt.Sprintf("p50 %.3g ms, p99 %.3g ms; medians of %d rounds",
			milliseconds(measure.Typical(rounds, int(mode), median)), milliseconds(measure.Typical(rounds, int(mode), late)), len(rounds)),
	}
}

func createRatios(rounds []measure.Round, mode creates.Mode, name string) []report.Row {
	row := func(what string, of func(measure.Sample) float64) report.Row {
		ratio, spread := measure.Ratio(rounds, int(mode), int(creates.Without), of)
		return report.Row{What: what + " with " + name + " vs without", Value: ratio, Unit: "×", Detail: spread}
	}
	return []report.Row{
		row("creates/s", perSecond),
		row("create p50", func(s measure.Sample) float64 { return float64(s.P50) }),
		row("create p99", func(s measure.Sample) float64 { return float64(s.P99) }),
	}
}
