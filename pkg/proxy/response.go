package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/AlaudaDevops/countersign/pkg/proxy/rewrite"
)

// response remembers what the caller got. It is an http.ResponseWriter; http.ResponseController finds the rest of the
// real one by Unwrap.
type response struct {
	http.ResponseWriter
	code  atomic.Int32
	bytes atomic.Int64
	// begun and ended count writes: while they differ, the caller is being waited for.
	begun, ended atomic.Uint64
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader drops the tool's informational answers: nothing in them is translated.
func (w *response) WriteHeader(code int) {
	if code < http.StatusOK && code != http.StatusSwitchingProtocols {
		return
	}
	w.code.CompareAndSwap(0, int32(code))
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.code.CompareAndSwap(0, http.StatusOK)
	w.begun.Add(1)
	n, err := w.ResponseWriter.Write(b)
	w.ended.Add(1)
	w.bytes.Add(int64(n))
	return n, err
}

func (w *response) status() int { return int(w.code.Load()) }

func (w *response) count() int64 { return w.bytes.Load() }

// requestBody counts what the tool reads of the request, and for writes digests it. A nil *requestBody is an empty one.
type requestBody struct {
	io.ReadCloser
	hash  hash.Hash
	bytes atomic.Int64
	sum   atomic.Pointer[string]
	// begun and ended count reads: while they differ, the caller is being waited for.
	begun, ended atomic.Uint64
}

func newRequestBody(body io.ReadCloser, digest bool) *requestBody {
	b := &requestBody{ReadCloser: body}
	if digest {
		b.hash = sha256.New()
	}
	return b
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.begun.Add(1)
	n, err := b.ReadCloser.Read(p)
	b.ended.Add(1)
	b.bytes.Add(int64(n))
	if b.hash == nil {
		return n, err
	}
	b.hash.Write(p[:n])
	if err == io.EOF && b.sum.Load() == nil {
		sum := "sha256:" + hex.EncodeToString(b.hash.Sum(nil))
		b.sum.Store(&sum)
	}
	return n, err
}

func (b *requestBody) count() int64 {
	if b == nil {
		return 0
	}
	return b.bytes.Load()
}

// digest is empty unless the tool got the whole body.
func (b *requestBody) digest() string {
	if b == nil {
		return ""
	}
	if sum := b.sum.Load(); sum != nil {
		return *sum
	}
	return ""
}

// siftedBody drops from the trailer what is dropped from the header.
type siftedBody struct {
	io.ReadCloser
	response *http.Response
}

// Close implements io.Closer; behind it the trailer is complete.
func (b siftedBody) Close() error {
	err := b.ReadCloser.Close()
	rewrite.FromTool(b.response.Trailer)
	return err
}

// duplex is an upgraded connection to the tool; it counts both directions.
type duplex struct {
	io.ReadWriteCloser
	in, out *atomic.Int64
}

// Read implements io.Reader.
func (d duplex) Read(p []byte) (int, error) {
	n, err := d.ReadWriteCloser.Read(p)
	d.out.Add(int64(n))
	return n, err
}

// Write implements io.Writer.
func (d duplex) Write(p []byte) (int, error) {
	n, err := d.ReadWriteCloser.Write(p)
	d.in.Add(int64(n))
	return n, err
}
