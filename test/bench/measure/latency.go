package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/AlaudaDevops/countersign/test/bench/load"
	"github.com/AlaudaDevops/countersign/test/bench/world"
)

// callPause is how long the waiting caller pauses between two tries.
const callPause = time.Millisecond

// Opening is how long a grant took to open the proxy.
type Opening struct {
	// Sent counts from the moment the answer was sent off, so it holds its admission and its write too.
	Sent time.Duration
	// Created counts from the moment its creation was confirmed; zero if the proxy let the caller in before.
	Created time.Duration
}

// Openings lets a caller knock on a connector while his request is asked, checked and answered; each time with a token
// of its own, to which the request is bound, so that no earlier grant opens.
func Openings(ctx context.Context, progress io.Writer, w *world.World, connector string, times int) ([]Opening, error) {
	all := make([]Opening, 0, times)
	for i := range times {
		opening, err := opening(ctx, w, connector)
		if err != nil {
			return nil, fmt.Errorf("round %d of %d: %w", i+1, times, err)
		}
		all = append(all, opening)
		if (i+1)%50 == 0 {
			_, _ = fmt.Fprintf(progress, "   %d of %d\n", i+1, times)
		}
	}
	return all, nil
}

func opening(ctx context.Context, w *world.World, connector string) (Opening, error) {
	token, jti, err := w.Mint()
	if err != nil {
		return Opening{}, err
	}
	request, err := w.Ask(ctx, connector, world.ForToken(jti))
	if err != nil {
		return Opening{}, err
	}
	check, err := w.Check(ctx, request)
	if err != nil {
		return Opening{}, err
	}
	caller, err := newKnocker(ctx, w, connector, token)
	if err != nil {
		return Opening{}, err
	}
	defer caller.Close()
	if err := caller.refused(); err != nil {
		return Opening{}, err
	}
	open := make(chan error, 1)
	var opened time.Time
	go func() {
		var err error
		opened, err = caller.knock(ctx)
		open <- err
	}()
	sent := time.Now()
	_, err = w.Approve(ctx, check)
	created := time.Now()
	if err != nil {
		caller.Close()
		return Opening{}, errors.Join(err, <-open)
	}
	err = <-open
	return Opening{Sent: opened.Sub(sent), Created: max(opened.Sub(created), 0)}, err
}

// knocker calls again and again on one connection.
type knocker struct {
	*load.Conn
	message []byte
}

func newKnocker(ctx context.Context, w *world.World, connector, token string) (*knocker, error) {
	at, err := url.Parse(w.ProxyURL(connector, "/item"))
	if err != nil {
		return nil, err
	}
	authorities, err := load.Authorities(w.CAFile())
	if err != nil {
		return nil, err
	}
	conn, err := load.Dial(ctx, at.Host, authorities)
	if err != nil {
		return nil, err
	}
	return &knocker{Conn: conn, message: load.Message(http.MethodGet, at.Host, at.RequestURI(), token, nil)}, nil
}

// Close ends the connection; a call under way fails.
func (k *knocker) Close() { _ = k.Conn.Close() }

// refused makes sure that the door is shut before the answer.
func (k *knocker) refused() error {
	answer, err := k.Exchange(k.message)
	if err == nil && answer.Status != http.StatusForbidden {
		err = fmt.Errorf("before the answer the proxy said %d instead of 403: %s", answer.Status, answer.Excerpt)
	}
	return err
}

// knock returns when the caller was let in. The time is that of the answer to the try that came through.
func (k *knocker) knock(ctx context.Context) (time.Time, error) {
	pause := time.NewTicker(callPause)
	defer pause.Stop()
	limit := time.Now().Add(time.Minute)
	for {
		answer, err := k.Exchange(k.message)
		now := time.Now()
		switch {
		case err != nil:
			return now, err
		case answer.Status == http.StatusOK:
			return now, nil
		case answer.Status != http.StatusForbidden:
			return now, fmt.Errorf("while waiting the proxy said %d: %s", answer.Status, answer.Excerpt)
		case now.After(limit):
			return now, fmt.Errorf("the proxy did not open within a minute: %s", answer.Excerpt)
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-pause.C:
		}
	}
}

// Percentiles sorts one of the times of all openings and returns its p50 and p99.
func Percentiles(all []Opening, of func(Opening) time.Duration) (p50, p99 time.Duration) {
	times := make([]time.Duration, 0, len(all))
	for _, o := range all {
		times = append(times, of(o))
	}
	slices.Sort(times)
	return load.Percentile(times, 50), load.Percentile(times, 99)
}
