package request

import (
	"context"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
)

// byRequest indexes checks by the UID of the request that asks.
const byRequest = "byRequest"

// children watches the checks of all registered kinds that are ready: watches begin and end as CheckKinds come and go.
type children struct {
	clock   clock.Clock
	client  dynamic.Interface
	mapper  apimeta.RESTMapper
	kinds   *checks.Registry
	changed func(types.UID)
	woken   chan struct{}

	mu      sync.RWMutex
	watches map[schema.GroupKind]*childWatch
}

// childWatch is the watch of one kind.
type childWatch struct {
	resource schema.GroupVersionResource
	informer toolscache.SharedIndexInformer
	stop     context.CancelFunc
}

func newChildren(clock clock.Clock, client dynamic.Interface, mapper apimeta.RESTMapper, kinds *checks.Registry, changed func(types.UID)) *children {
	return &children{
		clock: clock, client: client, mapper: mapper, kinds: kinds, changed: changed,
		woken: make(chan struct{}, 1), watches: map[schema.GroupKind]*childWatch{},
	}
}

// wake looks at the registered kinds again; it does not block.
func (w *children) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// run watches until the context ends.
func (w *children) run(ctx context.Context) {
	defer w.stopAll()
	for {
		var retry <-chan time.Time
		if !w.adjust(ctx) {
			retry = w.clock.After(retryUnobserved)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
		case <-retry:
		}
	}
}

// adjust begins and ends watches so that each ready kind has one. It is false if some kind could not be looked up.
func (w *children) adjust(ctx context.Context) bool {
	wanted, sure := w.wanted(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	for gk, watch := range w.watches {
		if wanted[gk] != watch.resource {
			watch.stop()
			delete(w.watches, gk)
		}
	}
	for gk, resource := range wanted {
		if w.watches[gk] == nil {
			w.watches[gk] = w.begin(ctx, resource)
		}
	}
	return sure
}

func (w *children) wanted(ctx context.Context) (wanted map[schema.GroupKind]schema.GroupVersionResource, sure bool) {
	wanted, sure = map[schema.GroupKind]schema.GroupVersionResource{}, true
	for _, kind := range w.kinds.Kinds() {
		if kind.Ready() != nil {
			continue
		}
		gvk := kind.GroupVersionKind()
		mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "checks of a kind cannot be watched", "kind", gvk.String())
			sure = false
			continue
		}
		wanted[gvk.GroupKind()] = mapping.Resource
	}
	return wanted, sure
}

func (w *children) begin(ctx context.Context, resource schema.GroupVersionResource) *childWatch {
	ctx, stop := context.WithCancel(ctx)
	informer := dynamicinformer.NewFilteredDynamicInformer(w.client, resource, metav1.NamespaceAll, 0,
		toolscache.Indexers{byRequest: indexByRequest},
		func(o *metav1.ListOptions) { o.LabelSelector = approvalv1alpha1.LabelRequestUID }).Informer()
	// The handler of an informer that has not started cannot be refused.
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    w.notify,
		UpdateFunc: func(_, obj any) { w.notify(obj) },
		DeleteFunc: w.notify,
	})
	_ = informer.SetTransform(dropManagedFields)
	go informer.RunWithContext(ctx)
	return &childWatch{resource: resource, informer: informer, stop: stop}
}

func indexByRequest(obj any) ([]string, error) {
	m, err := apimeta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	return []string{m.GetLabels()[approvalv1alpha1.LabelRequestUID]}, nil
}

// dropManagedFields keeps the bookkeeping of the API server out of memory: nobody reads it.
func dropManagedFields(obj any) (any, error) {
	if m, err := apimeta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

func (w *children) notify(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if m, err := apimeta.Accessor(obj); err == nil {
		w.changed(types.UID(m.GetLabels()[approvalv1alpha1.LabelRequestUID]))
	}
}

func (w *children) stopAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for gk, watch := range w.watches {
		watch.stop()
		delete(w.watches, gk)
	}
}

// get finds a check in the watches; nil if it has not been seen. It must not be changed.
func (w *children) get(gk schema.GroupKind, namespace, name string) *unstructured.Unstructured {
	w.mu.RLock()
	defer w.mu.RUnlock()
	watch := w.watches[gk]
	if watch == nil {
		return nil
	}
	obj, ok, err := watch.informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil
	}
	check, _ := obj.(*unstructured.Unstructured)
	return check
}

// of are all checks that carry the request's label. They must not be changed.
func (w *children) of(uid types.UID) []*unstructured.Unstructured {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var found []*unstructured.Unstructured
	for _, watch := range w.watches {
		objects, err := watch.informer.GetIndexer().ByIndex(byRequest, string(uid))
		if err != nil {
			continue
		}
		for _, obj := range objects {
			if check, ok := obj.(*unstructured.Unstructured); ok {
				found = append(found, check)
			}
		}
	}
	return found
}

// synced tells whether every watch has seen all there is, so that what it does not have is not there.
func (w *children) synced() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, watch := range w.watches {
		if !watch.informer.HasSynced() {
			return false
		}
	}
	return true
}
