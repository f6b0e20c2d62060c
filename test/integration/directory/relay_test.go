package directory

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// relay is a way to the API server that can be cut.
type relay struct {
	address, target string

	mu       sync.Mutex
	listener net.Listener
	open     []net.Conn
}

func newRelay(t *testing.T, config *rest.Config) *relay {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	r := &relay{address: "127.0.0.1:0", target: target.Host}
	r.mend(t)
	t.Cleanup(r.cut)
	return r
}

func (r *relay) mend(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", r.address)
	require.NoError(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listener, r.address = listener, listener.Addr().String()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go r.pass(near)
		}
	}()
}

func (r *relay) pass(near net.Conn) {
	far, err := net.Dial("tcp", r.target)
	if err != nil {
		_ = near.Close()
		return
	}
	r.mu.Lock()
	r.open = append(r.open, near, far)
	r.mu.Unlock()
	go func() { _, _ = io.Copy(far, near) }() // both end when the way is cut
	_, _ = io.Copy(near, far)
}

// cut ends every connection and refuses further ones.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.listener.Close()
	for _, connection := range r.open {
		_ = connection.Close()
	}
	r.open = nil
}
