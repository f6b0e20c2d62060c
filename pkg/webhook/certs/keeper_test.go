package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const (
	namespace = "countersign-system"
	host      = "countersign-webhook.countersign-system.svc"
)

// cluster is an API server that a few replicas talk to.
type cluster struct {
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	// meanwhile runs once, right before the next write of a Secret.
	meanwhile func()
	client    client.Client
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	// Certificates are valid from the real now on, which must not come after the fake one.
	c := &cluster{t: t, clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))}
	c.client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.CreateOption) error {
			c.interrupt()
			return w.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			c.interrupt()
			return w.Update(ctx, o, options...)
		},
	}).Build()
	return c
}

func (c *cluster) interrupt() {
	if meanwhile := c.meanwhile; meanwhile != nil {
		c.meanwhile = nil
		meanwhile()
	}
}

func (c *cluster) replica() *Keeper {
	k, err := NewKeeper(c.clock, c.client, Options{Namespace: namespace})
	require.NoError(c.t, err)
	return k
}

func (c *cluster) reconcile(k *Keeper) time.Duration {
	c.t.Helper()
	result, err := k.Reconcile(c.t.Context(), ctrl.Request{})
	require.NoError(c.t, err)
	return result.RequeueAfter
}

// settle lets events settle: each write of a replica has it look again.
func (c *cluster) settle(k *Keeper) time.Duration {
	c.reconcile(k)
	c.reconcile(k)
	return c.reconcile(k)
}

func (c *cluster) secret() *corev1.Secret {
	secret := &corev1.Secret{}
	require.NoError(c.t, c.client.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: DefaultSecret}, secret))
	return secret
}

// trusted are the bundles of all webhooks of ours.
func (c *cluster) trusted() [][]byte {
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(c.t, c.client.Get(c.t.Context(), client.ObjectKey{Name: DefaultConfiguration}, &mutating))
	require.NoError(c.t, c.client.Get(c.t.Context(), client.ObjectKey{Name: DefaultConfiguration}, &validating))
	return [][]byte{mutating.Webhooks[0].ClientConfig.CABundle, validating.Webhooks[0].ClientConfig.CABundle, validating.Webhooks[1].ClientConfig.CABundle}
}

// assertTrusted calls a replica as the API server would, with each of the bundles.
func (c *cluster) assertTrusted(k *Keeper) {
	c.t.Helper()
	for _, bundle := range c.trusted() {
		roots := x509.NewCertPool()
		require.True(c.t, roots.AppendCertsFromPEM(bundle))
		config := &tls.Config{}
		k.Configure(config)
		here, there := net.Pipe()
		go func() { _ = tls.Server(there, config).HandshakeContext(c.t.Context()) }() // what is wrong shows on the other side
		client := tls.Client(here, &tls.Config{RootCAs: roots, ServerName: host, Time: c.clock.Now})
		require.NoError(c.t, client.HandshakeContext(c.t.Context()))
		require.NoError(c.t, here.Close())
	}
}

func configurations() []client.Object {
	ours := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: DefaultService}}
	theirs := admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "other"}, CABundle: []byte("theirs"),
	}
	meta := metav1.ObjectMeta{Name: DefaultConfiguration}
	return []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a.b.c", ClientConfig: ours}}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "a.b.c", ClientConfig: ours}, {Name: "d.e.f", ClientConfig: ours}, {Name: "x.y.z", ClientConfig: theirs},
		}},
	}
}

// served is the serial number of what a replica serves.
func served(t *testing.T, k *Keeper) string {
	t.Helper()
	serving, err := k.GetCertificate(nil)
	require.NoError(t, err)
	return serving.Leaf.SerialNumber.String()
}

func TestReplicaServesAfterItsFirstLook(t *testing.T) {
	c := newCluster(t, configurations()...)
	k := c.replica()
	require.ErrorContains(t, k.Ready(nil), "no serving certificate yet")
	next := c.reconcile(k)
	require.NoError(t, k.Ready(nil))
	c.assertTrusted(k)
	assert.InDelta(t, (DefaultLifetime * 2 / 3).Seconds(), next.Seconds(), 1)
	assert.Equal(t, corev1.SecretTypeTLS, c.secret().Type)

	other := c.replica()
	c.reconcile(other)
	assert.Equal(t, served(t, k), served(t, other))
}

// TestS9_NoReplicaServesWhatIsNotTrusted follows two replicas through three lifetimes. The second is always late: it
// looks only when the first is done with a step.
func TestS9_NoReplicaServesWhatIsNotTrusted(t *testing.T) {
	c := newCluster(t, configurations()...)
	first, late := c.replica(), c.replica()
	c.settle(first)
	c.settle(late)
	seen, end := map[string]bool{}, c.clock.Now().Add(3*DefaultLifetime)
	for c.clock.Now().Before(end) {
		next := c.reconcile(first)
		c.assertTrusted(first)
		c.assertTrusted(late)
		next = min(next, c.reconcile(late))
		c.assertTrusted(first)
		c.assertTrusted(late)
		seen[served(t, first)] = true
		require.Positive(t, next)
		c.clock.SetTime(c.clock.Now().Add(next))
	}
	assert.GreaterOrEqual(t, len(seen), 4)
	assert.Equal(t, served(t, first), served(t, late))
}

func TestNextIsServedOnlyAfterItWasTrustedWithoutInterruption(t *testing.T) {
	c := newCluster(t, configurations()...)
	k := c.replica()
	c.clock.SetTime(c.clock.Now().Add(c.settle(k)))
	before := served(t, k)
	c.settle(k)
	c.clock.SetTime(c.clock.Now().Add(DefaultOverlap - time.Second))

	// Somebody applies the manifests anew, without bundles.
	var reset admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, c.client.Get(t.Context(), client.ObjectKey{Name: DefaultConfiguration}, &reset))
	reset.Webhooks[0].ClientConfig.CABundle = nil
	require.NoError(t, c.client.Update(t.Context(), &reset))
	assert.Equal(t, DefaultOverlap, c.settle(k).Round(time.Second))
	c.clock.SetTime(c.clock.Now().Add(time.Second))
	c.settle(k)
	assert.Equal(t, before, served(t, k))

	c.clock.SetTime(c.clock.Now().Add(DefaultOverlap))
	c.settle(k)
	assert.NotEqual(t, before, served(t, k))
	c.assertTrusted(k)
}

func TestNextWaitsForConfigurationsToExist(t *testing.T) {
	c := newCluster(t)
	k := c.replica()
	c.clock.SetTime(c.clock.Now().Add(c.settle(k)))
	before := served(t, k)
	for range 3 {
		c.settle(k)
		c.clock.SetTime(c.clock.Now().Add(DefaultOverlap))
	}
	assert.Equal(t, before, served(t, k))
}

func TestOfTwoReplicasOneWrites(t *testing.T) {
	c := newCluster(t, configurations()...)
	first, second := c.replica(), c.replica()
	assertOne := func() {
		t.Helper()
		var theirs []byte
		c.meanwhile = func() {
			c.reconcile(second)
			theirs = bytes.Clone(c.secret().Data[corev1.TLSCertKey])
		}
		assert.Equal(t, retryLost, c.reconcile(first))
		require.NotEmpty(t, theirs)
		c.reconcile(first)
		assert.Equal(t, theirs, c.secret().Data[corev1.TLSCertKey])
		assert.Equal(t, served(t, second), served(t, first))
	}
	assertOne() // both create
	c.clock.SetTime(c.clock.Now().Add(c.settle(first)))
	assertOne() // both stage
	c.clock.SetTime(c.clock.Now().Add(c.settle(first)))
	assertOne() // both promote
	c.assertTrusted(first)
}

func TestSpoiltSecretIsReplaced(t *testing.T) {
	other, err := issue(t.Context(), "other", namespace, time.Now().Add(DefaultLifetime))
	require.NoError(t, err)
	foreign, err := issue(t.Context(), DefaultService, namespace, time.Now().Add(DefaultLifetime))
	require.NoError(t, err)
	tests := map[string]func(data map[string][]byte){
		"empty":                     func(data map[string][]byte) { clear(data) },
		"no PEM":                    func(data map[string][]byte) { data[corev1.TLSCertKey] = []byte("x") },
		"key of another":            func(data map[string][]byte) { data[corev1.TLSPrivateKeyKey] = foreign.key },
		"authority of another":      func(data map[string][]byte) { data[keyAuthority] = foreign.authority },
		"authority is no PEM":       func(data map[string][]byte) { data[keyAuthority] = []byte("x") },
		"certificate of other host": func(data map[string][]byte) { other.write(data, "") },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, configurations()...)
			k := c.replica()
			c.settle(k)
			secret := c.secret()
			spoil(secret.Data)
			secret.Data["foreign"] = []byte("kept")
			require.NoError(t, c.client.Update(t.Context(), secret))
			before := served(t, k)
			c.reconcile(k)
			assert.NotEqual(t, before, served(t, k))
			assert.Equal(t, "kept", string(c.secret().Data["foreign"]))
			c.assertTrusted(k)
		})
	}
}

func TestExpiredIsReplacedAtOnce(t *testing.T) {
	c := newCluster(t, configurations()...)
	k := c.replica()
	c.settle(k)
	c.clock.SetTime(c.clock.Now().Add(DefaultLifetime))
	require.ErrorContains(t, k.Ready(nil), "expired")
	c.reconcile(k)
	require.NoError(t, k.Ready(nil))
	c.assertTrusted(k)
}

func TestWebhooksOfOthersAreLeftAlone(t *testing.T) {
	c := newCluster(t, configurations()...)
	c.settle(c.replica())
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(t, c.client.Get(t.Context(), client.ObjectKey{Name: DefaultConfiguration}, &validating))
	assert.Equal(t, "theirs", string(validating.Webhooks[2].ClientConfig.CABundle))
}

func TestEveryNamedConfigurationIsKept(t *testing.T) {
	also := configurations()
	for _, configuration := range also {
		configuration.SetName("also")
	}
	c := newCluster(t, append(configurations(), also...)...)
	k := c.replica()
	k.options.Configurations = []string{DefaultConfiguration, "also"}
	c.settle(k)
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, c.client.Get(t.Context(), client.ObjectKey{Name: "also"}, &mutating))
	assert.Equal(t, c.trusted()[0], mutating.Webhooks[0].ClientConfig.CABundle)

	require.NoError(t, c.client.Delete(t.Context(), &mutating))
	c.clock.SetTime(c.clock.Now().Add(c.settle(k)))
	before := served(t, k)
	c.settle(k)
	c.clock.SetTime(c.clock.Now().Add(DefaultOverlap))
	c.settle(k)
	assert.Equal(t, before, served(t, k), "nothing new is served before each of them trusts it")
}

func TestServesFromMemoryWhileTheAPIServerIsAway(t *testing.T) {
	c := newCluster(t, configurations()...)
	k := c.replica()
	c.settle(k)
	k.client = interceptor.NewClient(c.client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewServiceUnavailable("away")
		},
	})
	_, err := k.Reconcile(t.Context(), ctrl.Request{})
	require.Error(t, err)
	c.assertTrusted(k)
}

func TestOptionsThatLeaveNoTimeAreRefused(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string
	}{
		"defaults":      {Options{Namespace: namespace}, ""},
		"no namespace":  {Options{}, "needs the namespace"},
		"too short":     {Options{Namespace: namespace, Lifetime: 3 * time.Minute}, "choose more than 3m0s"},
		"short overlap": {Options{Namespace: namespace, Lifetime: 3 * time.Minute, Overlap: time.Second}, ""},
		"negative":      {Options{Namespace: namespace, Overlap: -1}, "leaves no time"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewKeeper(clocktesting.NewFakePassiveClock(time.Now()), nil, test.options)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}
