package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
	"github.com/AlaudaDevops/countersign/test/env"
)

const proxyUser = "system:serviceaccount:countersign-system:countersign-proxy"

// guard is what a controller and a proxy run, each with the rights that are shipped.
type guard struct {
	admin   client.Client
	keeper  *guarded.Watcher
	watcher *guarded.Watcher
	epoch   *guarded.EpochReader
}

func startGuard(t *testing.T, c *env.Cluster) *guard {
	t.Helper()
	ofController, ofProxy := acting(c, controllerUser), acting(c, proxyUser)
	controller, err := kubernetes.NewForConfig(ofController)
	require.NoError(t, err)
	forgeries, err := dynamic.NewForConfig(ofController)
	require.NoError(t, err)
	proxy, err := kubernetes.NewForConfig(ofProxy)
	require.NoError(t, err)

	g := &guard{admin: as(t, c.Admin()), keeper: guarded.NewWatcher(controller, policies.Options{}), watcher: guarded.NewWatcher(proxy, policies.Options{})}
	keeper := guarded.NewKeeper(clock.RealClock{}, controller, guarded.NewDryRunProber(forgeries, systemNamespace), g.keeper, systemNamespace, guarded.WithSettle(0))
	g.epoch = guarded.NewEpochReader(proxy, g.watcher, systemNamespace)
	ctx, cancel := context.WithCancel(context.Background())
	runs := []func(context.Context) error{g.keeper.Start, keeper.Start, g.watcher.Start, g.epoch.Start}
	done := make(chan error, len(runs))
	for _, run := range runs {
		go func() { done <- run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range runs {
			assert.NoError(t, <-done)
		}
	})
	return g
}

func acting(c *env.Cluster, user string) *rest.Config {
	config := c.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return config
}

func (g *guard) awaitGuarded(t *testing.T, want bool) (why string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		var ok bool
		if ok, why = g.watcher.Guarded(); ok != want {
			return fmt.Errorf("guarded is %v: %s", ok, why)
		}
		return nil
	})
	return why
}

// awaitEpoch waits for an epoch after the given moment.
func (g *guard) awaitEpoch(t *testing.T, after time.Time) time.Time {
	t.Helper()
	eventually(t, func(context.Context) error {
		if since := g.epoch.Since(); !since.After(after) {
			return fmt.Errorf("the epoch is %s, wanted one after %s", since, after)
		}
		return nil
	})
	return g.epoch.Since()
}

// The YAML states every default, so what the API server stores is what the file says.
func TestS5_LivePoliciesEqualTheShippedOnes(t *testing.T) {
	admin := as(t, cluster.Admin())
	for key, shipped := range policies.Current() {
		live := shipped.(client.Object).DeepCopyObject().(client.Object)
		require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: key.Name}, live), key)
		assert.True(t, policies.Equal(shipped, live), key)
	}
	assert.Len(t, liveNames(t, admin), len(policies.Current()), "no policy of ours is installed that the set lacks")
}

func liveNames(t *testing.T, admin client.Client) []string {
	t.Helper()
	var names []string
	for _, kind := range []string{policies.KindMutatingPolicy, policies.KindMutatingBinding, policies.KindValidatingPolicy, policies.KindValidatingBinding} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind + "List"))
		require.NoError(t, admin.List(t.Context(), list))
		for _, item := range list.Items {
			if len(item.Name) > 12 && item.Name[:12] == "countersign-" {
				names = append(names, kind+"/"+item.Name)
			}
		}
	}
	return names
}

// Every expression type-checks against the schemas of the kinds that it names.
func TestS5_NoPolicyHasATypeWarning(t *testing.T) {
	admin := as(t, cluster.Admin())
	for key := range policies.Current() {
		if key.Kind != policies.KindValidatingPolicy {
			continue
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		eventually(t, func(ctx context.Context) error {
			if err := admin.Get(ctx, client.ObjectKey{Name: key.Name}, policy); err != nil {
				return err
			}
			if policy.Status.ObservedGeneration != policy.Generation {
				return fmt.Errorf("%s is not checked yet", key)
			}
			return nil
		})
		assert.Emptyf(t, policy.Status.TypeChecking.ExpressionWarnings, "%s", key)
	}
}

// A cluster of its own: here policies are taken away.
func TestS5_AGapInGuardingIsSeenAndRemembered(t *testing.T) {
	ctx := t.Context()
	alone, err := env.Start(ctx, env.WithCRDs(crds...), env.WithSetup(install))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, alone.Stop()) })
	g := startGuard(t, alone)

	g.awaitGuarded(t, true)
	began := g.awaitEpoch(t, time.Time{})
	epoch := &corev1.ConfigMap{}
	require.NoError(t, g.admin.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: guarded.EpochName}, epoch))
	assert.Equal(t, began.Format(time.RFC3339), epoch.Data["since"])

	t.Run("an upgrade of nothing raises nothing", func(t *testing.T) {
		require.NoError(t, install(ctx, alone))
		g.awaitGuarded(t, true)
		assert.Equal(t, began, g.epoch.Since())
	})
	t.Run("altered", func(t *testing.T) {
		policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "countersign-creator-record"}}
		require.NoError(t, g.admin.Patch(ctx, policy, mergePatch(`{"spec":{"failurePolicy":"Ignore"}}`)))
		assert.Contains(t, g.awaitGuarded(t, false), "countersign-creator-record was altered")
		assert.Zero(t, g.epoch.Since(), "nothing is proven meanwhile")
		awaitNextSecond(t, g.admin, began)
		require.NoError(t, install(ctx, alone))
		g.awaitGuarded(t, true)
		began = g.awaitEpoch(t, began)
	})
	t.Run("deleted and put back", func(t *testing.T) {
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "countersign-deletion"}}
		require.NoError(t, g.admin.Delete(ctx, binding))
		assert.Contains(t, g.awaitGuarded(t, false), "countersign-deletion is missing")
		awaitNextSecond(t, g.admin, began)
		require.NoError(t, install(ctx, alone))
		g.awaitGuarded(t, true)
		began = g.awaitEpoch(t, began)
	})
	t.Run("the epoch itself is deleted", func(t *testing.T) {
		require.NoError(t, g.admin.Delete(ctx, epoch))
		eventually(t, func(context.Context) error {
			if since := g.epoch.Since(); !since.IsZero() {
				return fmt.Errorf("still believed: %s", since)
			}
			return nil
		})
	})
}

// awaitNextSecond waits until the API server's clock, which counts in seconds, has moved on.
func awaitNextSecond(t *testing.T, admin client.Client, from time.Time) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		now := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "now"}}
		if err := admin.Create(ctx, now, client.DryRunAll); err != nil {
			return err
		}
		if !now.CreationTimestamp.After(from) {
			return fmt.Errorf("it is still %s", from)
		}
		return nil
	})
}
