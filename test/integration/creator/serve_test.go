package creator

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/webhook/creator"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/hooks"
)

// way leads connections on, unless it is interrupted.
type way struct {
	to string

	mutex       sync.Mutex
	interrupted bool
	open        []net.Conn
}

// interrupt cuts all connections and refuses new ones, or takes them again.
func (w *way) interrupt(interrupted bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.interrupted = interrupted
	for _, connection := range w.open {
		_ = connection.Close()
	}
	w.open = nil
}

// serve takes connections until the process ends.
func (w *way) serve(listener net.Listener) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		if !w.keep(from, to) {
			_, _ = from.Close(), to.Close()
			continue
		}
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	}
}

func (w *way) keep(both ...net.Conn) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.interrupted {
		return false
	}
	w.open = append(w.open, both...)
	return true
}

// serve runs the webhooks until the process ends, as the shipped identity with the shipped rights.
func (p *plane) serve(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "../../../config/rbac", "../../../config/webhook/service.yaml"); err != nil {
		return err
	}
	address, err := hooks.Serve(ctx, c, hooks.Options{
		Scheme: scheme, Configurations: []string{policies.CreatorRecord},
		Register: func(_ context.Context, server *hooks.Server) error {
			creator.New(server.Access).Register(server)
			return nil
		},
	})
	if err != nil {
		return err
	}
	p.webhooks = &way{to: address}
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go p.webhooks.serve(relay)
	return c.Route(hooks.Service, relay.Addr().String())
}
