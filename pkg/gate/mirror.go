package gate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

type (
	object     = *unstructured.Unstructured
	setFunc    = func(object)
	forgetFunc = func(types.NamespacedName, types.UID)
)

// mirror feeds one kind into the index. It decodes object by object, so that one that cannot be decoded
// harms nobody but itself, and keeps no copy of what it feeds.
type mirror struct {
	resource schema.GroupVersionResource
	client   dynamic.Interface
	// fieldSelector and namespace narrow what is watched; empty means everything.
	fieldSelector string
	namespace     string

	// set takes up an object, new or changed; forget drops one.
	set    setFunc
	forget forgetFunc

	mu     sync.Mutex
	known  map[types.NamespacedName]types.UID
	synced atomic.Bool
}

// Run mirrors until the context ends.
func (m *mirror) Run(ctx context.Context) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = m.fieldSelector
			return m.client.Resource(m.resource).Namespace(m.namespace).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = m.fieldSelector
			return m.client.Resource(m.resource).Namespace(m.namespace).Watch(ctx, options)
		},
	}
	reflector := cache.NewReflectorWithOptions(lw, &unstructured.Unstructured{}, m, cache.ReflectorOptions{
		Name:            "gate/" + m.resource.Resource,
		TypeDescription: m.resource.String(),
	})
	reflector.RunWithContext(ctx)
}

// HasSynced is true once the first full list has been taken up.
func (m *mirror) HasSynced() bool { return m.synced.Load() }

// Add implements cache.ReflectorStore.
func (m *mirror) Add(obj any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.take(obj)
}

// Update implements cache.ReflectorStore.
func (m *mirror) Update(obj any) error { return m.Add(obj) }

// Delete implements cache.ReflectorStore.
func (m *mirror) Delete(obj any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := asUnstructured(obj)
	if err != nil {
		return err
	}
	name := nameOf(u)
	delete(m.known, name)
	m.forget(name, u.GetUID())
	return nil
}

// Replace implements cache.ReflectorStore: what is not in the list is gone.
func (m *mirror) Replace(objects []any, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	listed := make(map[types.NamespacedName]bool, len(objects))
	for _, obj := range objects {
		if err := m.take(obj); err != nil {
			return err
		}
		listed[nameOf(obj.(object))] = true
	}
	for name, uid := range m.known {
		if !listed[name] {
			delete(m.known, name)
			m.forget(name, uid)
		}
	}
	m.synced.Store(true)
	return nil
}

// Resync implements cache.ReflectorStore; the index needs none.
func (m *mirror) Resync() error { return nil }

func (m *mirror) take(obj any) error {
	u, err := asUnstructured(obj)
	if err != nil {
		return err
	}
	if m.known == nil {
		m.known = map[types.NamespacedName]types.UID{}
	}
	name := nameOf(u)
	if old, ok := m.known[name]; ok && old != u.GetUID() {
		m.forget(name, old)
	}
	m.known[name] = u.GetUID()
	m.set(u)
	return nil
}

func asUnstructured(obj any) (*unstructured.Unstructured, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("the watch delivered %T instead of an object", obj)
	}
	return u, nil
}

func nameOf(u *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
}
