package env

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"

	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/test/env/egress"
)

// Route makes the address, 127.0.0.1:port, stand for a Service's port, "namespace/name:port": the
// API server's calls to that Service, of webhooks above all, arrive there. An empty address removes
// the route.
func (c *Cluster) Route(service, address string) error {
	parsed, err := egress.ParseService(service)
	if err != nil {
		return err
	}
	return c.routes.Set(parsed, address)
}

// RunIssuer serves the issuer of the detached cluster in the state directory until the context ends.
func RunIssuer(ctx context.Context, stateDir string) error {
	c, err := newHelper(stateDir)
	if err != nil {
		return err
	}
	serve, err := c.issuerServer()
	if err != nil {
		return err
	}
	return serve(ctx)
}

// RunEgress serves the egress socket of the detached cluster in the state directory until the
// context ends. Routes are read from its run/routes.json on every connection.
func RunEgress(ctx context.Context, stateDir string) error {
	c, err := newHelper(stateDir)
	if err != nil {
		return err
	}
	serve, err := c.egressServer()
	if err != nil {
		return err
	}
	return serve(ctx)
}

func newHelper(stateDir string) (*Cluster, error) {
	return newCluster(&options{stateDir: stateDir, helper: []string{os.Args[0]}})
}

// server serves on a listener that is open already.
type server func(context.Context) error

func (c *Cluster) issuerServer() (server, error) {
	pair, err := c.ca.IssueServer("127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	cert, err := pair.TLS()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", strings.TrimPrefix(c.issuer.URL(), "https://"))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return c.issuer.Serve(ctx, listener, cert) }, nil
}

func (c *Cluster) egressServer() (server, error) {
	socket := c.layout.egressSocket()
	// A process that was killed leaves its socket behind, and nobody can listen on it again.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	proxy := egress.New(egress.NewResolver(c.client.CoreV1(), clock.RealClock{}), c.routes)
	return func(ctx context.Context) error { return proxy.Serve(ctx, listener) }, nil
}

// serveInProcess lets the servers outlive the start that ctx bounds.
func (c *Cluster) serveInProcess(ctx context.Context, servers ...func() (server, error)) error {
	for _, listen := range servers {
		serve, err := listen()
		if err != nil {
			return err
		}
		serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c.stopInProcess = append(c.stopInProcess, cancel)
		c.inProcess.Go(func() error { return serve(serving) })
	}
	return nil
}
