// Package env runs a real control plane on this machine, for tests and development: etcd,
// kube-apiserver and kube-controller-manager as processes built from Go modules (test/cluster), an
// issuer of people's tokens, and a stand-in for the cluster network so that webhooks reach
// Services. Everything listens on 127.0.0.1 or Unix sockets only.
package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/test/env/egress"
	"github.com/AlaudaDevops/countersign/test/env/issuer"
	"github.com/AlaudaDevops/countersign/test/env/pki"
)

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	options    *options
	layout     layout
	ports      *ports
	apiAddress string
	ca         *pki.CA
	clientCA   *pki.CA
	issuer     *issuer.Issuer
	routes     egress.Routes
	processes  *supervisor
	admin      *rest.Config
	client     kubernetes.Interface

	// inProcess are the servers that run as goroutines when the cluster is not detached.
	inProcess     errgroup.Group
	stopInProcess []context.CancelFunc
	stopped       func() error
}

// Start returns a cluster that is ready: the API server serves, people's tokens are accepted, the
// CRDs asked for are established and the controllers work. The context bounds the start only; a
// start that fails leaves nothing running. The caller must Stop the cluster, unless it is detached
// and meant to live on.
func Start(ctx context.Context, opts ...Option) (*Cluster, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the cluster did not start: %w", err), c.Stop())
	}
	return c, nil
}

// Attach returns a handle on a detached cluster that runs, without starting anything. Stop ends it.
func Attach(ctx context.Context, stateDir string) (*Cluster, error) {
	if _, err := existingLayout(stateDir); err != nil {
		return nil, err
	}
	c, err := newCluster(&options{stateDir: stateDir, helper: []string{os.Args[0]}})
	if err != nil {
		return nil, err
	}
	if err := c.apiReady(ctx); err != nil {
		return nil, fmt.Errorf("the cluster in %s does not answer; start it first: %w", stateDir, err)
	}
	return c, c.adopt()
}

// newCluster prepares keys, ports and clients; nothing runs yet.
func newCluster(o *options) (*Cluster, error) {
	c := &Cluster{options: o}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	c.stopped = sync.OnceValue(c.stop)
	return c, nil
}

func (c *Cluster) prepare() error {
	if err := c.prepareState(); err != nil {
		return err
	}
	var keys errgroup.Group // RSA keys are slow to make
	keys.Go(c.prepareServiceAccountKey)
	keys.Go(c.prepareIssuer)
	if err := errors.Join(c.prepareAuthorities(), keys.Wait()); err != nil {
		return err
	}
	return c.prepareAdmin()
}

func (c *Cluster) prepareState() (err error) {
	dir := c.options.stateDir
	if dir == "" {
		if dir, err = temporaryState(); err != nil {
			return err
		}
	}
	if c.layout, err = newLayout(dir); err != nil {
		return err
	}
	c.processes = &supervisor{layout: c.layout, detached: c.options.detached()}
	c.routes = egress.NewRoutes()
	if c.options.detached() {
		c.routes = egress.FileRoutes(c.layout.routes())
	}
	if c.ports, err = loadPorts(c.layout.ports()); err != nil {
		return err
	}
	c.apiAddress, err = c.ports.address(nameAPIServer)
	return err
}

func (c *Cluster) prepareAuthorities() (err error) {
	if c.ca, err = pki.LoadOrCreate(c.layout.pki(), "ca"); err != nil {
		return err
	}
	c.clientCA, err = pki.LoadOrCreate(c.layout.pki(), "client-ca")
	return err
}

func (c *Cluster) prepareIssuer() error {
	keys, err := issuer.OpenKeys(c.layout.issuerKeys())
	if err != nil {
		return err
	}
	address, err := c.ports.address(nameIssuer)
	if err != nil {
		return err
	}
	c.issuer = issuer.New("https://"+address, keys, clock.RealClock{})
	return nil
}

func (c *Cluster) prepareAdmin() error {
	cfg, err := c.certificateConfig(adminUser, groupMasters)
	if err != nil {
		return err
	}
	c.admin = cfg
	c.client, err = kubernetes.NewForConfig(cfg)
	return err
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.adopt(); err != nil {
		return err
	}
	if err := c.startStorage(ctx); err != nil {
		return err
	}
	if err := c.startHelpers(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := c.InstallCRDs(ctx, c.options.crdDirs...); err != nil {
		return err
	}
	if err := c.startControllers(ctx); err != nil {
		return err
	}
	if err := c.processes.await(ctx, "accepting people's tokens", c.peopleReady); err != nil {
		return err
	}
	for _, setup := range c.options.setup {
		if err := setup(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// adopt takes over what an earlier Start left running, registries and programs included, so that
// Stop ends it.
func (c *Cluster) adopt() error {
	if !c.options.detached() {
		return nil
	}
	return c.processes.adopt()
}

func (c *Cluster) startStorage(ctx context.Context) error {
	etcd, err := c.etcdCommand()
	if err != nil {
		return err
	}
	return c.processes.start(ctx, etcd)
}

// startHelpers starts issuer and egress, which the API server calls, before it.
func (c *Cluster) startHelpers(ctx context.Context) error {
	if !c.options.detached() {
		return c.serveInProcess(ctx, c.issuerServer, c.egressServer)
	}
	for _, name := range []string{nameIssuer, nameEgress} {
		if err := c.processes.start(ctx, c.helperCommand(name)); err != nil {
			return err
		}
	}
	return c.processes.await(ctx, "serving of issuer and egress", c.helpersReady)
}

func (c *Cluster) helperCommand(name string) command {
	args := slices.Concat(c.options.helper[1:], []string{name, "--dir", c.layout.dir})
	return command{name: name, path: c.options.helper[0], args: args}
}

func (c *Cluster) helpersReady(ctx context.Context) error {
	var dialer net.Dialer
	for network, address := range map[string]string{
		"tcp":  strings.TrimPrefix(c.issuer.URL(), "https://"),
		"unix": c.layout.egressSocket(),
	} {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
	return nil
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	server, err := c.apiServerCommand()
	if err != nil {
		return err
	}
	if err := c.processes.start(ctx, server); err != nil {
		return err
	}
	if err := c.processes.await(ctx, "readiness of the API server", c.apiReady); err != nil {
		return err
	}
	return c.Route("default/kubernetes:443", c.apiAddress)
}

func (c *Cluster) apiReady(ctx context.Context) error {
	return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (c *Cluster) startControllers(ctx context.Context) error {
	if !c.runsControllers() {
		return nil
	}
	manager, err := c.controllerManagerCommand()
	if err != nil {
		return err
	}
	if err := c.processes.start(ctx, manager); err != nil {
		return err
	}
	return c.processes.await(ctx, "the start of the controllers", c.controllersReady)
}

// controllersReady waits for what pods need: the service account that admission gives them.
func (c *Cluster) controllersReady(ctx context.Context) error {
	return c.defaultServiceAccount(ctx, "default")
}

// Stop ends the cluster. State of a detached cluster is kept for the next Start; any other state is
// removed. Further calls return the first one's error.
func (c *Cluster) Stop() error { return c.stopped() }

func (c *Cluster) stop() error {
	err := c.processes.stop()
	for _, stop := range c.stopInProcess {
		stop()
	}
	err = errors.Join(err, c.inProcess.Wait())
	if c.options.detached() {
		return err
	}
	return errors.Join(err, c.layout.remove())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
