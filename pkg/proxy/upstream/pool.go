// Package upstream reaches tools: one transport for each connector, the credential that the proxy logs in with, and the
// exchange of that credential for a registry's token. It talks to the connector's own address, its extensions and the
// token realms listed in its parameters, and to nothing else.
package upstream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/login"
)

// keyCACert is the key of the authority in its Secret.
const keyCACert = "ca.crt"

// Connector is what has to be known of a connector. Spec is shared and not changed.
type Connector struct {
	Namespace, Name string
	UID             types.UID
	Generation      int64
	Spec            *connectorsv1alpha1.ConnectorSpec
}

// Secrets reads one Secret by name.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Pool keeps one Tool for each connector. It is safe for concurrent use; finding a known tool takes no lock.
type Pool struct {
	clock   clock.PassiveClock
	secrets Secrets
	options Options

	tools  sync.Map // types.NamespacedName to *slot
	flight singleflight.Group
}

// slot holds the newest state of one connector's tool.
type slot struct {
	current    atomic.Pointer[state]
	refreshing atomic.Bool
}

// state is a tool, or why there is none, for one generation of a connector.
type state struct {
	uid        types.UID
	generation int64
	readAt     time.Time
	tool       *Tool
	err        error
}

// NewPool takes the options as they are, but for a SecretTTL beyond MaxSecretTTL, which is cut.
func NewPool(clock clock.PassiveClock, secrets Secrets, options Options) *Pool {
	if options.SecretTTL <= 0 || options.SecretTTL > MaxSecretTTL {
		options.SecretTTL = MaxSecretTTL
	}
	return &Pool{clock: clock, secrets: secrets, options: options}
}

// Tool returns the connector's tool, with Secrets that were read at most SecretTTL ago. Its error is an *Error.
func (p *Pool) Tool(ctx context.Context, c *Connector) (*Tool, error) {
	s := p.slot(c)
	if current := s.current.Load(); current.isOf(c) {
		age, ttl := p.clock.Since(current.readAt), p.ttl(current)
		if age < ttl {
			if current.err == nil && age > ttl*3/4 {
				p.refreshAhead(ctx, s, c)
			}
			return current.tool, current.err
		}
	}
	fresh, err := p.refresh(ctx, s, c)
	if err != nil {
		return nil, err
	}
	return fresh.tool, fresh.err
}

func (p *Pool) slot(c *Connector) *slot {
	key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	if s, ok := p.tools.Load(key); ok {
		return s.(*slot)
	}
	s, _ := p.tools.LoadOrStore(key, &slot{})
	return s.(*slot)
}

func (s *state) isOf(c *Connector) bool {
	return s != nil && s.uid == c.UID && s.generation == c.Generation
}

func (p *Pool) ttl(s *state) time.Duration {
	if s.err != nil {
		return min(failureTTL, p.options.SecretTTL)
	}
	return p.options.SecretTTL
}

// refreshAhead lets a connector in use never wait for its Secrets. A failure leaves the old ones for what is left of
// their time.
func (p *Pool) refreshAhead(ctx context.Context, s *slot, c *Connector) {
	if !s.refreshing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.refreshing.Store(false)
		// What went wrong is met again, and told, by the request that finds the old state too old.
		_, _ = p.refresh(context.WithoutCancel(ctx), s, c)
	}()
}

// refresh reads the Secrets once for all who wait, whoever of them gives up.
func (p *Pool) refresh(ctx context.Context, s *slot, c *Connector) (*state, error) {
	key := fmt.Sprintf("%s/%s/%s/%d", c.Namespace, c.Name, c.UID, c.Generation)
	done := p.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.SecretTimeout)
		defer cancel()
		return p.renew(ctx, s, c), nil
	})
	select {
	case result := <-done:
		return result.Val.(*state), nil
	case <-ctx.Done():
		return nil, Explain(ctx.Err())
	}
}

// renew replaces the slot's state, unless the new one is a failure and the old one not yet too old.
func (p *Pool) renew(ctx context.Context, s *slot, c *Connector) *state {
	old := s.current.Load()
	fresh := &state{uid: c.UID, generation: c.Generation, readAt: p.clock.Now()}
	fresh.tool, fresh.err = p.build(ctx, c, old.reusable(c))
	if fresh.err != nil && old.isOf(c) && old.err == nil && p.clock.Since(old.readAt) < p.options.SecretTTL {
		return old
	}
	s.current.Store(fresh)
	if old != nil && old.tool != nil && (fresh.tool == nil || fresh.tool.transport != old.tool.transport) {
		old.tool.transport.CloseIdleConnections()
	}
	return fresh
}

// reusable is the tool whose connections may serve the same generation further.
func (s *state) reusable(c *Connector) *Tool {
	if !s.isOf(c) {
		return nil
	}
	return s.tool
}

// Sweep drops the tools of connectors that are gone and closes their idle connections.
func (p *Pool) Sweep(exists func(namespace, name string) bool) {
	p.tools.Range(func(key, value any) bool {
		name := key.(types.NamespacedName)
		if !exists(name.Namespace, name.Name) {
			p.tools.Delete(key)
			value.(*slot).close()
		}
		return true
	})
}

func (s *slot) close() {
	if current := s.current.Load(); current != nil && current.tool != nil {
		current.tool.transport.CloseIdleConnections()
	}
}

// build reads both Secrets and makes the tool; former, if not nil, lends its connections where nothing changed.
func (p *Pool) build(ctx context.Context, c *Connector, former *Tool) (*Tool, error) {
	t := &Tool{class: c.Spec.ConnectorClassName}
	if err := t.readAddresses(c.Spec); err != nil {
		return nil, err
	}
	secret, err := p.readSecret(ctx, c, loginRef(c.Spec))
	if err != nil {
		return nil, err
	}
	if t.credential, err = login.Read(secret); err != nil {
		return nil, notReady("the connector's credentials cannot be used, because their Secret "+err.Error()+"; tell the connector's owners", err)
	}
	authority, err := p.readSecret(ctx, c, c.Spec.CACertSecretRef)
	if err != nil {
		return nil, err
	}
	if err := p.connect(t, authority, former); err != nil {
		return nil, err
	}
	t.exchange = p.exchangeFor(t, c.Spec, former)
	return t, nil
}

func loginRef(spec *connectorsv1alpha1.ConnectorSpec) *connectorsv1alpha1.SecretReference {
	if spec.Auth == nil {
		return nil
	}
	return spec.Auth.SecretRef
}

// readSecret reads from the connector's own namespace only, whatever the reference says.
func (p *Pool) readSecret(ctx context.Context, c *Connector, ref *connectorsv1alpha1.SecretReference) (*corev1.Secret, error) {
	if ref == nil {
		return nil, nil
	}
	if ref.Namespace != "" && ref.Namespace != c.Namespace {
		return nil, notReady("the connector names a Secret of another namespace; tell the connector's owners", nil)
	}
	secret, err := p.secrets.Secret(ctx, c.Namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, notReady("a Secret of the connector does not exist; tell the connector's owners", err)
	case err != nil:
		return nil, notReady("a Secret of the connector cannot be read at the moment; try again shortly", err)
	}
	return secret, nil
}

// connect gives the tool its transport.
func (p *Pool) connect(t *Tool, authority *corev1.Secret, former *Tool) error {
	if authority != nil {
		t.caCert = authority.Data[keyCACert]
		if len(t.caCert) == 0 {
			return notReady("the connector's certificate authority cannot be used: its key \""+keyCACert+"\" is missing; tell the connector's owners", nil)
		}
	}
	if former != nil && string(former.caCert) == string(t.caCert) {
		t.transport = former.transport
		return nil
	}
	var err error
	if t.transport, err = p.options.newTransport(t.caCert); err != nil {
		return notReady("the connector's certificate authority cannot be used: "+err.Error()+"; tell the connector's owners", err)
	}
	return nil
}
