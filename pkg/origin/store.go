package origin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// store is what a reflector fills: nodes instead of objects, with no queue between.
type store struct {
	mu      sync.RWMutex
	held    *held
	changed func(Change)
	started atomic.Bool
	synced  atomic.Bool
}

var _ cache.TransformingStore = (*store)(nil)

// watch reflects one kind until the context ends.
func (s *store) watch(ctx context.Context, all dynamic.Interface, mapping *apimeta.RESTMapping) {
	client, kind := all.Resource(mapping.Resource), mapping.GroupVersionKind
	expected := &unstructured.Unstructured{}
	expected.SetGroupVersionKind(kind)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, all), expected, s,
		cache.ReflectorOptions{Name: "origin/" + kind.Kind})
	reflector.RunWithContext(ctx)
}

func newStore(changed func(Change)) *store {
	return &store{held: newHeld(), changed: changed}
}

func (s *store) get(namespace, name string) (*Node, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.held.get(namespace, name)
}

// Transformer lets the reflector strip objects while a first list streams in, so that it never holds them whole.
func (*store) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return strip(object) }
}

// strip makes a node of what the reflector hands over, which may be one already.
func strip(object any) (*Node, error) {
	switch o := object.(type) {
	case *Node:
		return o, nil
	case *unstructured.Unstructured:
		return FromUnstructured(o), nil
	case cache.DeletedFinalStateUnknown:
		return strip(o.Obj)
	}
	return nil, fmt.Errorf("an object of type %T cannot be an origin", object)
}

// Add implements cache.ReflectorStore.
func (s *store) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s *store) Update(object any) error {
	node, err := strip(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.held.put(node)
	s.mu.Unlock()
	s.changed(Change{Old: old, New: node})
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(object any) error {
	node, err := strip(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	old, found := s.held.remove(node.Namespace, node.Name)
	s.mu.Unlock()
	if found {
		s.changed(Change{Old: old})
	}
	return nil
}

// Replace implements cache.ReflectorStore: after the first list, and after a watch that broke.
func (s *store) Replace(objects []any, _ string) error {
	nodes := make([]*Node, 0, len(objects))
	next := newHeld()
	for _, object := range objects {
		node, err := strip(object)
		if err != nil {
			return err
		}
		nodes = append(nodes, node)
		next.put(node)
	}
	s.mu.Lock()
	before := s.held
	s.held = next
	s.mu.Unlock()
	s.synced.Store(true)
	s.report(before, nodes)
	return nil
}

// report tells what vanished while nobody watched, and then what is there. Only the reflector that calls it writes.
func (s *store) report(before *held, nodes []*Node) {
	for _, inNamespace := range before.nodes {
		for _, old := range inNamespace {
			if _, there := s.get(old.Namespace, old.Name); !there {
				s.changed(Change{Old: old})
			}
		}
	}
	for _, node := range nodes {
		old, _ := before.get(node.Namespace, node.Name)
		s.changed(Change{Old: old, New: node})
	}
}

// Resync implements cache.ReflectorStore; there is nothing to repeat.
func (*store) Resync() error { return nil }
