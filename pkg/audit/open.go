package audit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// gzipMagic begins every gzip file (RFC 1952 §2.3.1).
var gzipMagic = []byte{0x1f, 0x8b}

// Open opens a file, plain or compressed with gzip whatever it is called. Reading on past the end of a compressed file
// that was cut off fails with io.ErrUnexpectedEOF.
func Open(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(file)
	if start, _ := buffered.Peek(len(gzipMagic)); !bytes.Equal(start, gzipMagic) {
		return &opened{Reader: buffered, closers: []io.Closer{file}}, nil
	}
	plain, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s begins like a gzip file but is none: %w", path, err), file.Close())
	}
	return &opened{Reader: plain, closers: []io.Closer{plain, file}}, nil
}

// opened reads from the innermost reader and closes all that was opened for it.
type opened struct {
	io.Reader
	closers []io.Closer
}

func (o *opened) Close() error {
	var errs []error
	for _, closer := range o.closers {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}

// ReadFile is Read for the file at path. Errors name the file, and wrap *Unreadable.
func ReadFile(path string, each func(*auditv1.Event) error) error {
	in, err := Open(path)
	if err != nil {
		return fmt.Errorf("the audit log cannot be opened: %w", err)
	}
	if err := errors.Join(Read(in, each), in.Close()); err != nil {
		return fmt.Errorf("audit log %s: %w", path, err)
	}
	return nil
}
