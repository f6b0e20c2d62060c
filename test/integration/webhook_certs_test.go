package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/AlaudaDevops/countersign/pkg/webhook/certs"
)

// shippedWebhooks are the configurations as config/webhook has them.
func shippedWebhooks(t *testing.T) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	file, err := os.Open("../../config/webhook/manifests.yaml")
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	require.NoError(t, decoder.Decode(mutating))
	require.NoError(t, decoder.Decode(validating))
	return mutating, validating
}

// harmlessWebhooks installs the configurations for a group that nobody has, because no webhook is served here.
func harmlessWebhooks(t *testing.T, admin client.Client) {
	t.Helper()
	mutating, validating := shippedWebhooks(t)
	require.NoError(t, admin.Create(t.Context(), mutating.DeepCopy(), client.DryRunAll))
	require.NoError(t, admin.Create(t.Context(), validating.DeepCopy(), client.DryRunAll))
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].Rules[0].APIGroups = []string{"nowhere.example.com"}
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].Rules[0].APIGroups = []string{"nowhere.example.com"}
	}
	for _, object := range []client.Object{mutating, validating} {
		require.NoError(t, admin.Create(t.Context(), object))
		t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), object)) })
	}
}

// certReplica runs a keeper as the controller's service account, with no other rights than that has.
func certReplica(t *testing.T) *certs.Keeper {
	t.Helper()
	account := cluster.Admin()
	account.Impersonate = rest.ImpersonationConfig{
		UserName: controllerUser, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace, "system:authenticated"},
	}
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	keeper, err := certs.NewKeeper(clock.RealClock{}, as(t, account), certs.Options{Namespace: systemNamespace})
	require.NoError(t, err)
	require.NoError(t, keeper.Register(t.Context(), mgr))
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-stopped)
	})
	return keeper
}

// trustedBy says whether the API server would accept what a replica serves, for every webhook that it calls.
func trustedBy(ctx context.Context, admin client.Client, keeper *certs.Keeper) error {
	serving, err := keeper.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		return err
	}
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	for _, object := range []client.Object{&mutating, &validating} {
		if err := admin.Get(ctx, client.ObjectKey{Name: certs.DefaultConfiguration}, object); err != nil {
			return err
		}
	}
	var configs []admissionregistrationv1.WebhookClientConfig
	for i := range mutating.Webhooks {
		configs = append(configs, mutating.Webhooks[i].ClientConfig)
	}
	for i := range validating.Webhooks {
		configs = append(configs, validating.Webhooks[i].ClientConfig)
	}
	for i, config := range configs {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(config.CABundle)
		if _, err := serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: config.Service.Name + "." + config.Service.Namespace + ".svc"}); err != nil {
			return fmt.Errorf("webhook %d: %w", i, err)
		}
	}
	return nil
}

// TestS9_WebhookCertificateIsKept takes away what the keepers made, while two of them run, with shipped rights only.
func TestS9_WebhookCertificateIsKept(t *testing.T) {
	admin := as(t, cluster.Admin())
	harmlessWebhooks(t, admin)
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = systemNamespace, certs.DefaultSecret
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), secret)) }) // after the replicas stopped
	replicas := []*certs.Keeper{certReplica(t), certReplica(t)}
	agreed := func(not *tls.Certificate) *tls.Certificate {
		t.Helper()
		var serving [2]*tls.Certificate
		eventually(t, func(ctx context.Context) (err error) {
			for i, replica := range replicas {
				if err := trustedBy(ctx, admin, replica); err != nil {
					return err
				}
				if serving[i], err = replica.GetCertificate(nil); err != nil {
					return err
				}
			}
			if !serving[0].Leaf.Equal(serving[1].Leaf) || not != nil && serving[0].Leaf.Equal(not.Leaf) {
				return errors.New("the replicas do not serve the new certificate yet")
			}
			return nil
		})
		return serving[0]
	}
	first := agreed(nil)
	assert.Greater(t, time.Until(first.Leaf.NotAfter), certs.DefaultLifetime-time.Hour)

	require.NoError(t, admin.Delete(t.Context(), secret))
	second := agreed(first)

	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	secret.Data[corev1.TLSPrivateKeyKey] = []byte("spoilt")
	require.NoError(t, admin.Update(t.Context(), secret))
	third := agreed(second)

	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: certs.DefaultConfiguration}, &validating))
	patch := client.StrategicMergeFrom(validating.DeepCopy())
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = nil
	}
	require.NoError(t, admin.Patch(t.Context(), &validating, patch))
	assert.True(t, agreed(second).Leaf.Equal(third.Leaf), "only the bundle is missing, so the certificate stays")
}
