package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Defaults of Options.
const (
	DefaultService       = "countersign-webhook"
	DefaultSecret        = "countersign-webhook-cert"
	DefaultConfiguration = "countersign"
	DefaultLifetime      = 90 * 24 * time.Hour
	DefaultOverlap       = time.Minute
)

// retryLost is how soon a replica looks again after another one wrote first. Its event usually comes sooner.
const retryLost = time.Second

// Options are what the operator may set. What is empty gets its default.
type Options struct {
	// Namespace is that of the system; Service and Secret live in it.
	Namespace, Service, Secret string
	// Configurations are the names of the webhook configurations, of which each has a mutating and a validating one.
	Configurations []string
	// Lifetime is how long a certificate is valid; in its last third it is replaced.
	Lifetime time.Duration
	// Overlap is how long the API server has trusted a certificate before it is served. It covers the time until all API
	// servers have seen the change.
	Overlap time.Duration
}

func (o *Options) setDefaults() {
	for option, text := range map[*string]string{
		&o.Service: DefaultService, &o.Secret: DefaultSecret,
	} {
		if *option == "" {
			*option = text
		}
	}
	if len(o.Configurations) == 0 {
		o.Configurations = []string{DefaultConfiguration}
	}
	if o.Lifetime == 0 {
		o.Lifetime = DefaultLifetime
	}
	if o.Overlap == 0 {
		o.Overlap = DefaultOverlap
	}
}

func (o *Options) validate() error {
	if o.Namespace == "" {
		return errors.New("the webhooks' serving certificate needs the namespace of the system: set it")
	}
	if o.Overlap < 0 || o.Lifetime/3 <= o.Overlap {
		return fmt.Errorf("a lifetime of %s for the webhooks' serving certificates leaves no time to replace them: choose more than %s", o.Lifetime, 3*o.Overlap)
	}
	return nil
}

// Keeper keeps the serving certificate.
type Keeper struct {
	clock   clock.PassiveClock
	client  client.Client
	options Options
	serving atomic.Pointer[tls.Certificate]
}

// NewKeeper returns a Keeper. c must not read from a cache.
func NewKeeper(clock clock.PassiveClock, c client.Client, options Options) (*Keeper, error) {
	options.setDefaults()
	return &Keeper{clock: clock, client: c, options: options}, options.validate()
}

// Configure makes a server use the present certificate in each handshake.
func (k *Keeper) Configure(config *tls.Config) { config.GetCertificate = k.GetCertificate }

// GetCertificate is for tls.Config. It answers from memory, and fails until the Secret was read for the first time.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if serving := k.serving.Load(); serving != nil {
		return serving, nil
	}
	return nil, errors.New("the webhooks have no serving certificate yet")
}

// Ready is a health check: it fails without a certificate that is valid now.
func (k *Keeper) Ready(*http.Request) error {
	serving, err := k.GetCertificate(nil)
	if err == nil && !k.clock.Now().Before(serving.Leaf.NotAfter) {
		err = errors.New("the webhooks' serving certificate has expired")
	}
	return err
}

// Reconcile takes the next step, if there is one to take, and serves what the Secret says.
func (k *Keeper) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	result, err := k.step(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: retryLost}, nil
	}
	return result, err
}

func (k *Keeper) step(ctx context.Context) (ctrl.Result, error) {
	secret, err := k.secret(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	m := read(secret.Data, k.host(), k.clock.Now())
	if err := k.issue(ctx, secret, m); err != nil {
		return ctrl.Result{}, err
	}
	k.serving.Store(m.current.serving)
	settled, err := k.trust(ctx, m.bundle())
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("cannot have the API server trust the webhooks' certificate: %w", err)
	}
	if m.next == nil {
		return ctrl.Result{RequeueAfter: k.renewal(m).Sub(k.clock.Now())}, nil
	}
	return k.rotate(ctx, secret, m, settled)
}

// host is the name under which the API server calls.
func (k *Keeper) host() string { return k.options.Service + "." + k.options.Namespace + ".svc" }

// renewal is when the current certificate is to be replaced.
func (k *Keeper) renewal(m *material) time.Time {
	return m.current.expires().Add(-k.options.Lifetime / 3)
}

// issue makes what is missing: a certificate to serve, or the next one when it is time.
func (k *Keeper) issue(ctx context.Context, secret *corev1.Secret, m *material) error {
	missing := &m.next
	switch {
	case m.current == nil && m.next != nil:
		m.current, m.next = m.next, nil // the current one was spoilt; the next is as good as new
		return k.save(ctx, secret, m)
	case m.current == nil:
		missing = &m.current
	case m.next != nil || k.clock.Now().Before(k.renewal(m)):
		return nil
	}
	made, err := issue(ctx, k.options.Service, k.options.Namespace, k.clock.Now().Add(k.options.Lifetime))
	if err != nil {
		return err
	}
	*missing, m.trustedSince = made, time.Time{}
	return k.save(ctx, secret, m)
}

// rotate promotes the next certificate once the API server has trusted it for long enough without interruption.
func (k *Keeper) rotate(ctx context.Context, secret *corev1.Secret, m *material, settled bool) (ctrl.Result, error) {
	now, due := k.clock.Now(), m.trustedSince.Add(k.options.Overlap)
	switch {
	case !settled || m.trustedSince.IsZero():
		m.trustedSince = now
		return ctrl.Result{RequeueAfter: k.options.Overlap}, k.save(ctx, secret, m)
	case now.Before(due):
		return ctrl.Result{RequeueAfter: due.Sub(now)}, nil
	}
	m.promote()
	if err := k.save(ctx, secret, m); err != nil {
		return ctrl.Result{}, err
	}
	k.serving.Store(m.current.serving)
	return ctrl.Result{RequeueAfter: k.renewal(m).Sub(now)}, nil
}

// secret is the stored one, or one that is yet to be created, which has no version.
func (k *Keeper) secret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.options.Namespace, Name: k.options.Secret}, secret)
	if !apierrors.IsNotFound(err) {
		return secret, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.options.Namespace, Name: k.options.Secret, Labels: map[string]string{"app.kubernetes.io/name": "countersign"},
		},
		Type: corev1.SecretTypeTLS,
	}, nil
}

// save writes the material over the version that it was computed from.
func (k *Keeper) save(ctx context.Context, secret *corev1.Secret, m *material) error {
	secret.Data = m.write(secret.Data)
	if secret.ResourceVersion == "" {
		return k.client.Create(ctx, secret)
	}
	return k.client.Update(ctx, secret)
}
