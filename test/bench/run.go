package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/AlaudaDevops/countersign/test/bench/load"
	"github.com/AlaudaDevops/countersign/test/bench/measure"
	"github.com/AlaudaDevops/countersign/test/bench/report"
	"github.com/AlaudaDevops/countersign/test/bench/world"
)

// runTimeout bounds the whole measurement.
const runTimeout = 12 * time.Minute

// options are how much is measured.
type options struct {
	root, dir, peer string
	rounds          int
	plan            load.Plan
	openings        int
	grants          int
	creates         load.Plan
	repetitions     int
	only            []string
}

func newRunCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "run", Short: "Measure everything and print it against the goals", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), runTimeout)
			defer cancel()
			return run(ctx, cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.root, "root", ".", "the repository")
	f.StringVar(&o.dir, "dir", "", "directory of the environment, which is up if something is measured in it")
	f.StringVar(&o.peer, "peer", "bin/kube-rbac-proxy", "the peer's program")
	f.IntVar(&o.rounds, "rounds", 7, "rounds of load, in each of which everything that is compared has its turn")
	f.IntVar(&o.plan.Connections, "connections", 32, "connections that load a proxy")
	f.DurationVar(&o.plan.WarmUp, "warm-up", 500*time.Millisecond, "load before counting, each turn")
	f.DurationVar(&o.plan.Duration, "duration", 2*time.Second, "load that is counted, each turn")
	f.IntVar(&o.creates.Connections, "create-connections", 8, "connections on which objects are created")
	f.DurationVar(&o.creates.WarmUp, "create-warm-up", 250*time.Millisecond, "creating before counting, each turn")
	f.DurationVar(&o.creates.Duration, "create-duration", time.Second, "creating that is counted, each turn")
	f.IntVar(&o.openings, "openings", 200, "answers whose way to the proxy is timed")
	f.IntVar(&o.grants, "grants", 3, "grants whose writes are counted")
	f.StringSliceVar(&o.only, "only", nil, "measure only these: "+strings.Join(names(), ", "))
	f.IntVar(&o.repetitions, "count", 5, "repetitions of each Go benchmark")
	return cmd
}

// names of the tools that are protected for the benchmark.
const (
	loaded   = "bench-load"
	answered = "bench-answer"
)

// step measures one thing while the others rest.
type step struct {
	name string
	do   func(context.Context, *bench) ([]report.Row, error)
	// apart steps need no environment.
	apart bool
}

func steps() []step {
	return []step{
		{name: "throughput", do: throughput}, {name: "writes", do: grantWrites}, {name: "answers", do: openings},
		{name: "parts", do: innerParts, apart: true}, {name: "creates", do: createLatency, apart: true},
		{name: "directory", do: directoryLookups, apart: true},
	}
}

func names() (all []string) {
	for _, s := range steps() {
		all = append(all, s.name)
	}
	return all
}

// chosen are the steps that the options name; all of them if they name none.
func (o *options) chosen() ([]step, error) {
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("nothing that is measured is called %q; choose among %s", name, strings.Join(names(), ", "))
		}
	}
	return slices.DeleteFunc(steps(), func(s step) bool { return len(o.only) > 0 && !slices.Contains(o.only, s.name) }), nil
}

// bench is a run under way.
type bench struct {
	options
	out  io.Writer
	self string
	// world and tool are there once the environment is opened.
	world   *world.World
	tool    string
	toolPID int
	// foreign is how much of the processor time others took during the load, from 0 to 1.
	foreign float64
	// notes say under which conditions was measured.
	notes []string
}

// quiet is how much others may take before throughput says little.
const quiet = 0.1

func run(ctx context.Context, out io.Writer, o options) error {
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{options: o, out: out, self: self}
	begin := machine()
	b.say("%s", begin)
	rows, err := b.measure(ctx, chosen)
	if len(rows) > 0 {
		b.say("\nMeasured on %s at the beginning.\n%s", begin, strings.Join(b.notes, ""))
		err = errors.Join(err, report.Print(out, rows))
	}
	if b.foreign > quiet {
		b.say("\nOther processes took %.0f %% of the processor time while the proxies were loaded, so ratios of throughput and\n"+
			"times of waiting are chance; ratios of processor time hold better. Measure on a machine that does nothing else.", 100*b.foreign)
	}
	return err
}

// measure takes the steps. When one fails, those before it are still told.
func (b *bench) measure(ctx context.Context, chosen []step) (rows []report.Row, err error) {
	if slices.ContainsFunc(chosen, func(s step) bool { return !s.apart }) {
		stop, err := b.open(ctx)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	for _, s := range chosen {
		begun := time.Now()
		b.say("-- %s", s.name)
		found, err := s.do(ctx, b)
		if err != nil {
			return rows, fmt.Errorf("%s could not be measured: %w", s.name, err)
		}
		rows = append(rows, found...)
		b.say("   %.0f s", time.Since(begun).Seconds())
	}
	return rows, nil
}

func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format+"\n", args...))
}

func (b *bench) say(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format+"\n", args...) }

// machine says on what was measured, and how busy it is: ratios of a busy machine spread.
func machine() string {
	busy := "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		busy, _, _ = strings.Cut(string(text), " ")
	}
	return fmt.Sprintf("%d processors%s, %s %s/%s, load average %s",
		runtime.NumCPU(), processor(), runtime.Version(), runtime.GOOS, runtime.GOARCH, busy)
}

// processor is the model, where the system tells it.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return " (" + strings.TrimSpace(value) + ")"
		}
	}
	return ""
}

func grantWrites(ctx context.Context, b *bench) ([]report.Row, error) {
	most := measure.Writes{}
	for range b.grants {
		writes, err := measure.GrantWrites(ctx, b.world, answered)
		if err != nil {
			return nil, err
		}
		b.say("   %d: %s", writes.Total(), strings.Join(writes.Lines, ", "))
		if writes.Total() >= most.Total() {
			most = writes
		}
	}
	if most.People != 2 {
		return nil, fmt.Errorf("the audit log shows %d writes by the two people instead of 2", most.People)
	}
	return []report.Row{{
		What: "API writes from request to grant, one approval", Value: float64(most.Total()), Bound: report.AtMost, Goal: 6,
		Detail: fmt.Sprintf("%d by the two people, %d by Countersign; besides %d Events", most.People, most.Components, most.Events),
	}}, nil
}

func openings(ctx context.Context, b *bench) ([]report.Row, error) {
	all, err := measure.Openings(ctx, b.out, b.world, answered, b.openings)
	if err != nil {
		return nil, err
	}
	sent50, sent99 := measure.Percentiles(all, func(o measure.Opening) time.Duration { return o.Sent })
	made50, made99 := measure.Percentiles(all, func(o measure.Opening) time.Duration { return o.Created })
	return []report.Row{
		{
			What: "answer created → proxy allows, p99", Value: milliseconds(made99), Unit: "ms", Bound: report.AtMost, Goal: 250,
			Detail: fmt.Sprintf("p50 %.3g ms, %d answers", milliseconds(made50), len(all)),
		},
		{
			What: "answer sent (its admission included) → proxy allows, p99", Value: milliseconds(sent99), Unit: "ms",
			Detail: fmt.Sprintf("p50 %.3g ms", milliseconds(sent50)),
		},
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
