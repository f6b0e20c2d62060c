package people

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/AlaudaDevops/countersign/test/bench/await"
)

// Queries lets many callers look one author up at the same time, and counts in the server's own log what it was asked. It
// does so for several authors, and returns the most and for how many.
func (d *Directory) Queries(ctx context.Context, callers int) (most, tries int, err error) {
	for i := range authors {
		if err := d.together(ctx, author(i), callers); err != nil {
			return 0, 0, err
		}
		count, err := d.searches(author(i))
		if err != nil {
			return 0, 0, err
		}
		most = max(most, count)
	}
	return most, authors, nil
}

// together holds the server until everybody has asked, so that no answer is there before.
func (d *Directory) together(ctx context.Context, name string, callers int) error {
	people := d.remembering()
	if err := d.server.Pause(); err != nil {
		return err
	}
	var asked atomic.Int64
	var group errgroup.Group
	for range callers {
		group.Go(func() error {
			asked.Add(1)
			_, err := people.Lookup(ctx, name)
			return err
		})
	}
	err := await.Until(ctx, "everybody asks", func(context.Context) error {
		if count := asked.Load(); count < int64(callers) {
			return fmt.Errorf("only %d do", count)
		}
		return nil
	})
	return errors.Join(err, d.server.Resume(), group.Wait())
}

// searches counts the log's lines about searches for a name.
func (d *Directory) searches(name string) (count int, err error) {
	log, err := os.ReadFile(d.log())
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(" SRCH base=")) && bytes.Contains(line, []byte("(uid="+name+")")) {
			count++
		}
	}
	if count == 0 {
		return 0, fmt.Errorf("the log of slapd shows no search for %s", name)
	}
	return count, nil
}
