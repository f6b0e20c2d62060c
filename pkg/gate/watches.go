package gate

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Watches remembers which watches of a client are broken. The heartbeat proves that the API server's watches deliver; this
// shows the one watch that is not open at all, because of a lost right or a wait before the next try: what it
// would have delivered, such as a revocation, is not known.
type Watches struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// broken has since when each watch is not open. One that is tried again under another query is the same.
	broken map[string]time.Time
	oldest atomic.Pointer[outage]
}

type outage struct {
	watch string
	since time.Time
}

// NewWatches returns Watches of a client that has none open.
func NewWatches(clock clock.PassiveClock) *Watches {
	return &Watches{clock: clock, broken: map[string]time.Time{}}
}

// Wrap is for rest.Config.Wrap of every client whose watches feed a Gate.
func (w *Watches) Wrap(next http.RoundTripper) http.RoundTripper {
	return &watching{Watches: w, next: next}
}

// Check names the watch that has been broken for longest, if that is longer than the limit.
func (w *Watches) Check(now time.Time, limit time.Duration) error {
	o := w.oldest.Load()
	if o == nil || now.Sub(o.since) <= limit {
		return nil
	}
	kind, _, _ := strings.Cut(o.watch, "?")
	return fmt.Errorf("%s could not be watched for %s, so approvals may have been withdrawn unseen; try again when it is, and tell a cluster administrator if that takes long",
		path.Base(kind), now.Sub(o.since).Round(time.Second))
}

func (w *Watches) change(change func(broken map[string]time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.broken)
	var oldest *outage
	for watch, since := range w.broken {
		if oldest == nil || since.Before(oldest.since) {
			oldest = &outage{watch: watch, since: since}
		}
	}
	w.oldest.Store(oldest)
}

func (w *Watches) broke(watch string) {
	now := w.clock.Now()
	w.change(func(broken map[string]time.Time) {
		if _, known := broken[watch]; !known {
			broken[watch] = now
		}
	})
}

func (w *Watches) mended(watch string) {
	w.change(func(broken map[string]time.Time) { delete(broken, watch) })
}

type watching struct {
	*Watches
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *watching) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	if on := query.Get("watch"); on != "true" && on != "1" {
		return w.next.RoundTrip(req)
	}
	watch := req.URL.Path
	if selector := query.Get("fieldSelector"); selector != "" {
		watch += "?" + selector
	}
	res, err := w.next.RoundTrip(req)
	switch {
	case err == nil && res.StatusCode == http.StatusOK:
		w.mended(watch)
		res.Body = &watchBody{ReadCloser: res.Body, closed: func() { w.broke(watch) }}
	case err == nil && res.StatusCode == http.StatusNotFound:
		// The kind was uninstalled, and its objects with it.
		w.mended(watch)
	default:
		w.broke(watch)
	}
	return res, err
}

// watchBody tells once that nobody listens any more, which happens whenever a watch ends.
type watchBody struct {
	io.ReadCloser
	once   sync.Once
	closed func()
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	b.once.Do(b.closed)
	return b.ReadCloser.Close()
}
