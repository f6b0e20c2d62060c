// Package measure takes the measurements of a running environment.
package measure

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/AlaudaDevops/countersign/test/bench/load"
	"github.com/AlaudaDevops/countersign/test/bench/process"
	"github.com/AlaudaDevops/countersign/test/bench/report"
)

// Party is one of the servers that are loaded in turns.
type Party struct {
	Name   string
	Target load.Target
	// PID is the server's.
	PID int
}

// Bed is everything that takes part.
type Bed struct {
	// Self is this program, whose `load` sends.
	Self    string
	ToolPID int
	Parties []Party
}

// Round is what each party did in one round, in the parties' order.
type Round []Sample

// Sample is one party's part of a round.
type Sample struct {
	PerSecond float64
	// CPU is the server's processor time for one request; All adds those of the tool and of the load.
	CPU, All time.Duration
	P50, P99 time.Duration
	// Foreign is how much of the processor time that was used meanwhile went to processes that take no part, from 0
	// to 1. What they take is missing to the measured ones, and not to each as much.
	Foreign float64
}

// Rounds loads the parties in turns. Each load is a process of its own.
func Rounds(ctx context.Context, progress io.Writer, bed Bed, rounds int, plan load.Plan) ([]Round, error) {
	var names []string
	for _, party := range bed.Parties {
		names = append(names, party.Name)
	}
	return Turns(ctx, progress, names, rounds, func(ctx context.Context, at int) (Sample, error) {
		return bed.load(ctx, bed.Parties[at], plan)
	})
}

// Turns gives everybody a turn in each round. Each round begins with another one, so that neither a machine that changes
// its pace nor the order decides.
func Turns(ctx context.Context, progress io.Writer, names []string, rounds int, turn func(ctx context.Context, at int) (Sample, error)) ([]Round, error) {
	all := make([]Round, rounds)
	for i := range all {
		all[i] = make(Round, len(names))
		for j := range names {
			at := (i + j) % len(names)
			sample, err := turn(ctx, at)
			if err != nil {
				return nil, fmt.Errorf("%s could not be measured: %w", names[at], err)
			}
			all[i][at] = sample
		}
		_, _ = fmt.Fprintf(progress, "   round %d of %d:%s\n", i+1, rounds, all[i].text(names))
	}
	return all, nil
}

func (r Round) text(names []string) string {
	text := ""
	for i, sample := range r {
		text += fmt.Sprintf("  %s %.0f/s", names[i], sample.PerSecond)
	}
	return text
}

func (b *Bed) load(ctx context.Context, party Party, plan load.Plan) (Sample, error) {
	before, err := readClocks(party.PID, b.ToolPID)
	if err != nil {
		return Sample{}, err
	}
	result, sender, err := Send(ctx, b.Self, party.Target, plan)
	if err != nil {
		return Sample{}, err
	}
	after, err := readClocks(party.PID, b.ToolPID)
	return after.since(before).sample(result, sender), err
}

// Send loads a target from a process of its own, which is this program's `load`. It returns the processor time that this
// took too.
func Send(ctx context.Context, self string, target load.Target, plan load.Plan) (result load.Result, sender time.Duration, err error) {
	output, sender, err := process.Output(ctx, self, "load",
		"--url", target.URL, "--method", target.Method, "--token-file", target.TokenFile, "--ca-file", target.CAFile,
		"--send-file", target.SendFile, "--status", fmt.Sprint(target.Status), "--body-bytes", fmt.Sprint(target.BodyBytes),
		"--connections", fmt.Sprint(plan.Connections), "--warm-up", plan.WarmUp.String(), "--duration", plan.Duration.String())
	if err != nil {
		return load.Result{}, 0, err
	}
	return result, sender, json.Unmarshal(output, &result)
}

// clocks are processor times.
type clocks struct{ server, tool, machine time.Duration }

func readClocks(serverPID, toolPID int) (clocks, error) {
	server, err := process.CPU(serverPID)
	if err != nil {
		return clocks{}, err
	}
	tool, err := process.CPU(toolPID)
	if err != nil {
		return clocks{}, err
	}
	machine, err := process.AllCPU()
	return clocks{server: server, tool: tool, machine: machine}, err
}

func (c clocks) since(before clocks) clocks {
	return clocks{server: c.server - before.server, tool: c.tool - before.tool, machine: c.machine - before.machine}
}

func (c clocks) sample(result load.Result, sender time.Duration) Sample {
	all, sent := c.server+c.tool+sender, time.Duration(max(result.Sent, 1))
	return Sample{
		PerSecond: result.PerSecond(), CPU: c.server / sent, All: all / sent, P50: result.P50, P99: result.P99,
		Foreign: max(0, 1-all.Seconds()/max(c.machine.Seconds(), all.Seconds())),
	}
}

// Ratio compares two parties round by round, and gives the median of the rounds' ratios with their spread.
func Ratio(rounds []Round, one, other int, of func(Sample) float64) (median float64, spread string) {
	ratios := make([]float64, 0, len(rounds))
	for _, r := range rounds {
		ratios = append(ratios, of(r[one])/of(r[other]))
	}
	return report.Median(ratios), fmt.Sprintf("%.2f to %.2f in %d rounds", slices.Min(ratios), slices.Max(ratios), len(ratios))
}

// Typical is the median of one party's rounds.
func Typical[T cmp.Ordered](rounds []Round, party int, of func(Sample) T) T {
	values := make([]T, 0, len(rounds))
	for _, r := range rounds {
		values = append(values, of(r[party]))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// Foreign is the mean of what others took in all rounds.
func Foreign(rounds []Round) float64 {
	var sum, count float64
	for _, r := range rounds {
		for _, sample := range r {
			sum, count = sum+sample.Foreign, count+1
		}
	}
	return sum / max(count, 1)
}
