package origin

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// growingMapper learns kinds later, as a mapper over discovery does.
type growingMapper struct {
	apimeta.RESTMapper
	mu    sync.Mutex
	known map[schema.GroupKind]string
	err   error
}

func (m *growingMapper) RESTMapping(kind schema.GroupKind, _ ...string) (*apimeta.RESTMapping, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	resource, ok := m.known[kind]
	if !ok {
		return nil, &apimeta.NoKindMatchError{GroupKind: kind}
	}
	gv := schema.GroupVersion{Group: kind.Group, Version: "v1"}
	return &apimeta.RESTMapping{Resource: gv.WithResource(resource), GroupVersionKind: gv.WithKind(kind.Kind), Scope: apimeta.RESTScopeNamespace}, nil
}

func (m *growingMapper) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

var (
	pods         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pipelineRuns = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}
	releases     = schema.GroupVersionResource{Group: "appstudio.redhat.com", Version: "v1", Resource: "releases"}
	pipelineKind = schema.GroupKind{Group: "tekton.dev", Kind: "PipelineRun"}
)

func startCache(t *testing.T, mapper *growingMapper, objects ...runtime.Object) (*Cache, *fake.FakeDynamicClient, *clocktesting.FakeClock, chan Change) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pods: "PodList", pipelineRuns: "PipelineRunList", releases: "ReleaseList"}, objects...)
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	c := NewCache(clock, client, mapper, DefaultConfig())
	changes := make(chan Change, 100)
	c.OnChange(func(change Change) { changes <- change })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, c.Start(ctx))
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c, client, clock, changes
}

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace("ns")
	u.SetName(name)
	u.SetUID(types.UID("uid-" + name))
	return u
}

func TestCacheFollowsObjects(t *testing.T) {
	mapper := &growingMapper{known: map[schema.GroupKind]string{PodKind: "pods"}}
	c, client, _, changes := startCache(t, mapper, object("v1", "Pod", "a"))

	first := <-changes
	assert.Nil(t, first.Old)
	assert.Equal(t, "a", first.New.Name)
	assert.Eventually(t, c.HasSynced, time.Minute, time.Millisecond)
	got, err := c.Get(t.Context(), PodKind, "ns", "a")
	require.NoError(t, err)
	assert.Same(t, first.New, got)

	ended := object("v1", "Pod", "a")
	require.NoError(t, unstructured.SetNestedField(ended.Object, "Succeeded", "status", "phase"))
	_, err = client.Resource(pods).Namespace("ns").Update(t.Context(), ended, metav1.UpdateOptions{})
	require.NoError(t, err)
	second := <-changes
	assert.Same(t, first.New, second.Old)
	assert.True(t, second.New.Finished)

	require.NoError(t, client.Resource(pods).Namespace("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	third := <-changes
	assert.Same(t, second.New, third.Old)
	assert.Nil(t, third.New)
	_, err = c.Get(t.Context(), PodKind, "ns", "a")
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestCachePicksUpKindsInstalledLater(t *testing.T) {
	mapper := &growingMapper{known: map[schema.GroupKind]string{PodKind: "pods"}}
	c, _, clock, changes := startCache(t, mapper, object("tekton.dev/v1", "PipelineRun", "pr"))
	assert.Eventually(t, c.HasSynced, time.Minute, time.Millisecond, "a kind that is not installed does not hold the others up")
	_, err := c.Get(t.Context(), pipelineKind, "ns", "pr")
	require.ErrorIs(t, err, ErrUnobserved)

	mapper.set(func() { mapper.known[pipelineKind] = "pipelineruns" })
	assert.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	clock.Step(recheckEvery)
	assert.Equal(t, "pr", (<-changes).New.Name)
	_, err = c.Get(t.Context(), pipelineKind, "ns", "pr")
	assert.NoError(t, err)
}

func TestAKindInstalledLaterHoldsUpOnlyItself(t *testing.T) {
	mapper := &growingMapper{known: map[schema.GroupKind]string{PodKind: "pods"}}
	c, client, clock, _ := startCache(t, mapper, object("v1", "Pod", "a"))
	assert.Eventually(t, c.HasSynced, time.Minute, time.Millisecond)

	listed := make(chan struct{}, 100)
	client.PrependReactor("list", "pipelineruns", func(clienttesting.Action) (bool, runtime.Object, error) {
		listed <- struct{}{}
		return true, nil, errors.New("conversion webhook is down")
	})
	mapper.set(func() { mapper.known[pipelineKind] = "pipelineruns" })
	assert.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	clock.Step(recheckEvery)
	<-listed
	assert.True(t, c.HasSynced())
	_, err := c.Get(t.Context(), PodKind, "ns", "a")
	assert.NoError(t, err)
	_, err = c.Get(t.Context(), pipelineKind, "ns", "pr")
	assert.ErrorIs(t, err, ErrUnobserved)
}

func TestS9_CacheIsNotSyncedWhileKindsCannotBeLookedUp(t *testing.T) {
	mapper := &growingMapper{known: map[schema.GroupKind]string{PodKind: "pods"}, err: errors.New("discovery is down")}
	c, _, _, changes := startCache(t, mapper, object("v1", "Pod", "a"))
	assert.False(t, c.HasSynced())
	_, err := c.Get(t.Context(), PodKind, "ns", "a")
	require.ErrorIs(t, err, ErrUnobserved)

	mapper.set(func() { mapper.err = nil })
	c.Refresh()
	<-changes
	assert.Eventually(t, c.HasSynced, time.Minute, time.Millisecond)
	_, err = c.Get(t.Context(), schema.GroupKind{Kind: "Secret"}, "ns", "a")
	assert.ErrorIs(t, err, ErrUnobserved)
}

func TestReplaceReportsWhatVanished(t *testing.T) {
	var changes []Change
	s := newStore(func(c Change) { changes = append(changes, c) })
	require.NoError(t, s.Replace([]any{object("v1", "Pod", "a"), FromUnstructured(object("v1", "Pod", "b"))}, "1"))
	changes = nil
	require.NoError(t, s.Replace([]any{object("v1", "Pod", "b")}, "2"))
	require.Len(t, changes, 2)
	assert.Equal(t, "a", changes[0].Old.Name)
	assert.Nil(t, changes[0].New)
	assert.Equal(t, "b", changes[1].New.Name)
	assert.Error(t, s.Add("text"))
	assert.NoError(t, s.Resync())
}
