package people

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/test/bench/measure"
)

// The places of the samples in a Round of Rates.
const (
	Asked = iota
	Remembered
)

// Rates looks people up, as many at a time, each by a caller of his own: when the directory is asked each time, and when
// answers are remembered. Each round gives both a turn. Samples have PerSecond only.
func (d *Directory) Rates(ctx context.Context, progress io.Writer, rounds, callers int, turn time.Duration) ([]measure.Round, error) {
	parties := []*directory.Cached{Asked: d.asking(), Remembered: d.remembering()}
	for i := range known {
		if _, err := parties[Remembered].Lookup(ctx, person(i)); err != nil {
			return nil, err
		}
	}
	return measure.Turns(ctx, progress, []string{Asked: "asked", Remembered: "remembered"}, rounds, func(ctx context.Context, at int) (measure.Sample, error) {
		return rate(ctx, parties[at], callers, turn)
	})
}

func rate(ctx context.Context, of *directory.Cached, callers int, turn time.Duration) (measure.Sample, error) {
	var over atomic.Bool
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	defer time.AfterFunc(turn, func() { over.Store(true) }).Stop()
	for caller := range callers {
		group.Go(func() error {
			count, err := lookups(ctx, of, caller, callers, &over)
			done.Add(count)
			return err
		})
	}
	err := group.Wait()
	return measure.Sample{PerSecond: float64(done.Load()) / time.Since(begun).Seconds()}, err
}

// lookups looks up only people whom no other caller does: equal questions would be merged into one.
func lookups(ctx context.Context, of *directory.Cached, caller, callers int, over *atomic.Bool) (count int64, err error) {
	var names []string
	for i := caller; i < known; i += callers {
		names = append(names, person(i))
	}
	for ; !over.Load(); count++ {
		name := names[count%int64(len(names))]
		if _, err := of.Lookup(ctx, name); err != nil {
			return count, fmt.Errorf("%s was not found: %w", name, err)
		}
	}
	return count, nil
}
