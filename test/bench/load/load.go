// Package load sends one HTTP/1.1 request over and over through TLS connections that are kept open, and counts.
// It writes ready bytes and reads no more of an answer than it must, so that on a machine shared with the
// server it measures the server more than itself.
package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"
)

// Target is the request that is sent over and over, and the answer that each must get.
type Target struct {
	URL    string
	Method string
	// TokenFile holds the bearer token.
	TokenFile string
	// CAFile holds the authorities that the server's certificate is checked by.
	CAFile string
	// SendFile holds the JSON that is sent; nothing is if it is empty.
	SendFile string
	// Status is that of every answer, and BodyBytes its length, unless it is AnyLength; any other answer fails the run.
	Status    int
	BodyBytes int
}

// AnyLength is for answers that have different lengths.
const AnyLength = -1

// expects tells why an answer is not the expected one.
func (t *Target) expects(answer Answer) error {
	if answer.Status == t.Status && (t.BodyBytes == AnyLength || answer.BodyBytes == t.BodyBytes) {
		return nil
	}
	return fmt.Errorf("the server answered %d with %d bytes instead of %d with %d: %s", answer.Status, answer.BodyBytes, t.Status, t.BodyBytes, answer.Excerpt)
}

// Plan is how hard and how long a target is loaded.
type Plan struct {
	Connections      int
	WarmUp, Duration time.Duration
}

// Result is what was counted after the warm-up.
type Result struct {
	Requests int
	// Sent counts the warm-up too.
	Sent     int
	Elapsed  time.Duration
	P50, P99 time.Duration
}

// PerSecond is the throughput.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Run loads the target as planned. It fails at the first answer that is not the expected one.
func Run(ctx context.Context, target Target, plan Plan) (Result, error) {
	dial, message, err := prepare(target)
	if err != nil {
		return Result{}, err
	}
	connections, err := open(ctx, dial, plan.Connections)
	defer closeAll(connections)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { closeAll(connections) })()
	begin := time.Now().Add(plan.WarmUp)
	end := begin.Add(plan.Duration)
	counts := make([]count, len(connections))
	err = concurrently(len(connections), func(i int) (err error) {
		if counts[i], err = loop(ctx, connections[i], message, &target, begin, end); err != nil {
			cancel()
		}
		return err
	})
	return summarize(counts, plan.Duration), err
}

// open dials before the clock runs, so that handshakes are not part of what is measured.
func open(ctx context.Context, dial dialer, count int) ([]*Conn, error) {
	connections := make([]*Conn, count)
	err := concurrently(count, func(i int) (err error) {
		connections[i], err = dial(ctx)
		return err
	})
	return connections, err
}

func closeAll(connections []*Conn) {
	for _, c := range connections {
		if c != nil {
			_ = c.Close()
		}
	}
}

func concurrently(count int, do func(int) error) error {
	errs := make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { errs[i] = do(i) })
	}
	group.Wait()
	return firstCause(errs)
}

// firstCause prefers what went wrong over what was cut because of it.
func firstCause(errs []error) (cause error) {
	for _, err := range errs {
		if err != nil && (cause == nil || errors.Is(cause, context.Canceled)) {
			cause = err
		}
	}
	return cause
}

// count is what one connection counted.
type count struct {
	sent int
	// times are those of the requests that began after the warm-up.
	times []time.Duration
}

// loop sends on one connection until the end.
func loop(ctx context.Context, c *Conn, message []byte, target *Target, begin, end time.Time) (count, error) {
	var counted count
	for start := time.Now(); start.Before(end); {
		answer, err := c.Exchange(message)
		if ctx.Err() != nil {
			return counted, ctx.Err()
		}
		if err == nil {
			err = target.expects(answer)
		}
		if err != nil {
			return counted, err
		}
		done := time.Now()
		counted.sent++
		if start.After(begin) {
			counted.times = append(counted.times, done.Sub(start))
		}
		start = done
	}
	return counted, nil
}

func summarize(counts []count, elapsed time.Duration) Result {
	var all []time.Duration
	sent := 0
	for _, c := range counts {
		all = append(all, c.times...)
		sent += c.sent
	}
	slices.Sort(all)
	return Result{Requests: len(all), Sent: sent, Elapsed: elapsed, P50: Percentile(all, 50), P99: Percentile(all, 99)}
}

// Percentile is the nearest-rank percentile of sorted times; zero if there are none.
func Percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(rank, 1)-1]
}

type dialer func(context.Context) (*Conn, error)

func prepare(target Target) (dialer, []byte, error) {
	at, err := url.Parse(target.URL)
	if err != nil {
		return nil, nil, err
	}
	token, err := os.ReadFile(target.TokenFile)
	if err != nil {
		return nil, nil, err
	}
	var body []byte
	if target.SendFile != "" {
		if body, err = os.ReadFile(target.SendFile); err != nil {
			return nil, nil, err
		}
	}
	authorities, err := Authorities(target.CAFile)
	if err != nil {
		return nil, nil, err
	}
	dial := func(ctx context.Context) (*Conn, error) { return Dial(ctx, at.Host, authorities) }
	return dial, Message(target.Method, at.Host, at.RequestURI(), string(token), body), nil
}

// Authorities reads a file of PEM certificates.
func Authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the file %s holds no certificate", file)
	}
	return pool, nil
}

// Dial opens a connection that offers no HTTP/2.
func Dial(ctx context.Context, address string, authorities *x509.CertPool) (*Conn, error) {
	d := tls.Dialer{Config: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newConn(c), nil
}
