package accesslog

import (
	"errors"
	"io"
	"sync"
)

// ErrClosed is what Log returns after Close.
var ErrClosed = errors.New("the access log is closed")

// DefaultBuffer is how many bytes of lines wait for the sink before requests wait too.
const DefaultBuffer = 1 << 20

// Writer writes entries to a sink in batches: a request only copies its line. It is safe for concurrent use.
//
// No line is dropped while the sink is slow: requests wait. Lines that the sink refuses are lost; Err says so until a
// later batch is written, and readiness follows it, because a proxy that cannot account for its decisions must not
// be given more work.
type Writer struct {
	sink    io.Writer
	limit   int
	onError func(lines int, err error)

	mu      sync.Mutex
	changed *sync.Cond
	pending []byte
	lines   int
	closed  bool
	err     error

	done chan struct{}
}

// NewWriter starts writing to sink; Close ends it. At most limit bytes wait for the sink (plus one line); 0 means
// DefaultBuffer. onError, if not nil, is told of every batch that was lost, from the writing goroutine.
func NewWriter(sink io.Writer, limit int, onError func(lines int, err error)) *Writer {
	if limit <= 0 {
		limit = DefaultBuffer
	}
	w := &Writer{sink: sink, limit: limit, onError: onError, done: make(chan struct{})}
	w.changed = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Log takes the entry's line over. It waits while the sink is behind by more than the limit.
func (w *Writer) Log(e *Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) >= w.limit && !w.closed {
		w.changed.Wait()
	}
	if w.closed {
		return ErrClosed
	}
	first := len(w.pending) == 0
	w.pending = e.Append(w.pending)
	w.lines++
	if first {
		w.changed.Broadcast()
	}
	return nil
}

// Err is the error of the last batch, nil if it was written.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close writes what is pending and returns the last batch's error. It does not close the sink.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.changed.Broadcast()
	w.mu.Unlock()
	<-w.done
	return w.Err()
}

func (w *Writer) run() {
	defer close(w.done)
	var batch []byte
	for {
		var lines int
		batch, lines = w.take(batch)
		if lines == 0 {
			return
		}
		w.write(batch, lines)
	}
}

// take swaps the pending lines for the emptied former batch; no lines means closed.
func (w *Writer) take(former []byte) (batch []byte, lines int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.lines == 0 && !w.closed {
		w.changed.Wait()
	}
	batch, lines = w.pending, w.lines
	w.pending, w.lines = former[:0], 0
	w.changed.Broadcast()
	return batch, lines
}

func (w *Writer) write(batch []byte, lines int) {
	_, err := w.sink.Write(batch)
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
	if err != nil && w.onError != nil {
		w.onError(lines, err)
	}
}
