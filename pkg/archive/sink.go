package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Sink takes lines of evidence.
type Sink interface {
	// Write returns nil only when the line, which has no newline, has reached what the sink can promise to keep. After
	// an error the line must be written again.
	Write(line []byte) error
}

// Stdout is the value of an archive flag that means the controller's standard output.
const Stdout = "-"

// Open returns the sink that a flag names: Stdout, or the path of a file to append to.
func Open(where string) (Sink, error) {
	if where == Stdout {
		return NewWriter(os.Stdout), nil
	}
	return newFile(where)
}

// writer writes lines to a stream that keeps what it took, such as a pipe to a log collector.
type writer struct {
	mu   sync.Mutex
	to   io.Writer
	torn bool
}

// NewWriter returns a Sink for a stream without a buffer of its own.
func NewWriter(to io.Writer) Sink { return &writer{to: to} }

func (w *writer) Write(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(line)
}

// write puts a line into one call, so that lines of other writers do not get in between. After a line that was cut off
// it begins a new one, so that the rest of the archive stays readable.
func (w *writer) write(line []byte) error {
	whole := make([]byte, 0, len(line)+2)
	if w.torn {
		whole = append(whole, '\n')
	}
	whole = append(append(whole, line...), '\n')
	n, err := w.to.Write(whole)
	if err == nil && n < len(whole) {
		err = io.ErrShortWrite
	}
	if n > 0 {
		w.torn = n < len(whole)
	}
	if err != nil {
		return fmt.Errorf("the archive does not take evidence, so nothing is deleted: %w", err)
	}
	return nil
}

// file appends to a file that others may rotate.
type file struct {
	mu   sync.Mutex
	path string
	open *os.File
	out  writer
}

func newFile(path string) (*file, error) {
	f := &file{path: path}
	return f, f.reopen()
}

func (f *file) Write(line []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.follow(); err != nil {
		return err
	}
	if err := f.out.write(line); err != nil {
		return err
	}
	if err := f.open.Sync(); err != nil {
		return fmt.Errorf("the archive file %s cannot be flushed, so nothing is deleted: %w", f.path, err)
	}
	return nil
}

// follow goes on in the file that has the name now: log rotation moves the old one away.
func (f *file) follow() error {
	named, err := os.Stat(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the archive file %s cannot be looked at, so nothing is deleted: %w", f.path, err)
	}
	if err == nil && f.open != nil {
		if held, statErr := f.open.Stat(); statErr == nil && os.SameFile(named, held) {
			return nil
		}
	}
	return f.reopen()
}

func (f *file) reopen() error {
	next, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("the archive file %s cannot be opened, so nothing is deleted: %w", f.path, err)
	}
	if f.open != nil {
		// Every line in it was flushed when it was written.
		_ = f.open.Close()
	}
	f.open, f.out = next, writer{to: next, torn: endsInsideALine(next)}
	return nil
}

// endsInsideALine tells whether the process before this one was stopped within a write.
func endsInsideALine(f *os.File) bool {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, size-1)
	return err == nil && last[0] != '\n'
}
