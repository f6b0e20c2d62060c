package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// origins are a cache and a live source over the shared cluster, which agree.
type origins struct {
	cache  *origin.Cache
	live   origin.Source
	config origin.Config

	mu      sync.Mutex
	changes []origin.Change
}

// startOrigins returns when the cache has synced.
func startOrigins(t *testing.T, config origin.Config) *origins {
	t.Helper()
	cfg := cluster.Admin()
	dyn, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	httpClient, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, httpClient)
	require.NoError(t, err)
	o := &origins{cache: origin.NewCache(clock.RealClock{}, dyn, mapper, config), live: origin.NewLive(dyn, mapper), config: config}
	o.cache.OnChange(func(c origin.Change) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changes = append(o.changes, c)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- o.cache.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	eventually(t, func(context.Context) error {
		if !o.cache.HasSynced() {
			return errors.New("the cache is not synced")
		}
		return nil
	})
	return o
}

func (o *origins) vanished(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.changes {
		if c.New == nil && c.Old.Name == name {
			return true
		}
	}
	return false
}

// climb climbs over the cache, as soon as it has seen the whole way, and asserts that the API server says the same.
func (o *origins) climb(t *testing.T, pod *corev1.Pod) *origin.Climb {
	t.Helper()
	since := func() time.Time { return time.Now().Add(-time.Hour) }
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	var cached *origin.Climb
	eventually(t, func(ctx context.Context) (err error) {
		cached, err = origin.NewClimber(o.cache, o.config, since).Climb(ctx, name, pod.UID, connectorsv1alpha1.ContextScopeRun)
		return err
	})
	live, err := origin.NewClimber(o.live, o.config, since).Climb(t.Context(), name, pod.UID, connectorsv1alpha1.ContextScopeRun)
	require.NoError(t, err)
	assert.Equal(t, live.Resource.UID, cached.Resource.UID)
	assert.Equal(t, live.Stopped, cached.Stopped)
	return cached
}

func TestS1_OriginOfAJobsPodIsTheJob(t *testing.T) {
	namespace := cluster.Namespace(t)
	o := startOrigins(t, origin.DefaultConfig())
	admin := as(t, cluster.Admin())
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "build"}}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "none"}}}
	require.NoError(t, admin.Create(t.Context(), job))
	var pods corev1.PodList
	eventually(t, func(ctx context.Context) error {
		if err := admin.List(ctx, &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) == 0 {
			return fmt.Errorf("no pod of the job yet: %w", err)
		}
		return nil
	})
	climb := o.climb(t, &pods.Items[0])
	assert.Equal(t, job.UID, climb.Resource.UID)
	assert.Equal(t, []string{"default"}, climb.Resource.ServiceAccounts)

	require.NoError(t, admin.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	eventually(t, func(context.Context) error {
		if !o.vanished("build") {
			return errors.New("nobody told that the job is gone")
		}
		return nil
	})
	_, err := o.live.Get(t.Context(), schema.GroupKind{Group: "batch", Kind: "Job"}, namespace, "build")
	assert.ErrorIs(t, err, origin.ErrNotFound)
}

const campaigns = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: campaigns.runs.example.com}
spec:
  group: runs.example.com
  names: {kind: Campaign, plural: campaigns, singular: campaign}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func TestOriginKindsInstalledLaterAreWatched(t *testing.T) {
	namespace := cluster.Namespace(t)
	campaign := origin.GroupKind{Group: "runs.example.com", Kind: "Campaign"}
	config := origin.DefaultConfig()
	config.Runs = append(config.Runs, campaign)
	o := startOrigins(t, config)
	kind := schema.GroupKind{Group: campaign.Group, Kind: campaign.Kind}
	_, err := o.cache.Get(t.Context(), kind, namespace, "spring")
	require.ErrorIs(t, err, origin.ErrUnobserved)
	_, err = o.live.Get(t.Context(), kind, namespace, "spring")
	require.ErrorIs(t, err, origin.ErrNotFound)

	require.NoError(t, cluster.Apply(t.Context(), cluster.Admin(), campaigns))
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: campaign.Group, Version: "v1", Kind: campaign.Kind})
	object.SetNamespace(namespace)
	object.SetName("spring")
	require.NoError(t, as(t, cluster.Admin()).Create(t.Context(), object))
	eventually(t, func(ctx context.Context) error {
		o.cache.Refresh()
		node, err := o.cache.Get(ctx, kind, namespace, "spring")
		if err == nil && node.UID != object.GetUID() {
			return errors.New("another object was seen")
		}
		return err
	})
}
