package checks

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Registry holds the present CheckKinds, compiled. Lookups take no lock. The zero Registry is empty and ready to use.
type Registry struct {
	kinds atomic.Pointer[map[schema.GroupKind]entry]

	mu        sync.Mutex
	listeners []func(schema.GroupKind)
}

// entry keeps what a kind was compiled from, to tell a change from an echo.
type entry struct {
	kind *Kind
	from *approvalv1alpha1.CheckKind
}

// Lookup finds a registered kind. It may be one that is not ready: ask Kind.Ready.
func (r *Registry) Lookup(gk schema.GroupKind) (*Kind, bool) {
	e, ok := r.load()[gk]
	return e.kind, ok
}

// Kinds are all registered kinds, in no order.
func (r *Registry) Kinds() []*Kind {
	present := r.load()
	kinds := make([]*Kind, 0, len(present))
	for _, e := range present {
		kinds = append(kinds, e.kind)
	}
	return kinds
}

// Set takes up a CheckKind as it stands now. One that does not compile is registered as not ready, so that its rules
// say why they deny.
func (r *Registry) Set(from *approvalv1alpha1.CheckKind) {
	kind, err := Compile(from)
	if err != nil {
		kind = broken(from, err)
	}
	if r.put(kind.gvk.GroupKind(), entry{kind: kind, from: from.DeepCopy()}) {
		r.notify(kind.gvk.GroupKind())
	}
}

func broken(from *approvalv1alpha1.CheckKind, err error) *Kind {
	return &Kind{
		gvk:      schema.FromAPIVersionAndKind(from.Spec.APIVersion, from.Spec.Kind),
		notReady: fmt.Sprintf("the CheckKind %s is not ready (%s): %s", from.Name, approvalv1alpha1.ReasonInvalidExpression, err),
	}
}

// Delete forgets the CheckKind of that name.
func (r *Registry) Delete(name string) {
	if gk, ok := r.remove(name); ok {
		r.notify(gk)
	}
}

// OnChange calls listener after every change, with the kind that changed. Listeners must not block.
func (r *Registry) OnChange(listener func(schema.GroupKind)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, listener)
}

// Handler feeds the registry from an informer of CheckKinds.
func (r *Registry) Handler() toolscache.ResourceEventHandler {
	set := func(obj any) {
		if from, ok := obj.(*approvalv1alpha1.CheckKind); ok {
			r.Set(from)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
		DeleteFunc: r.forget,
	}
}

func (r *Registry) forget(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if m, err := apimeta.Accessor(obj); err == nil {
		r.Delete(m.GetName())
	}
}

func (r *Registry) load() map[schema.GroupKind]entry {
	if present := r.kinds.Load(); present != nil {
		return *present
	}
	return nil
}

// put replaces the whole map, because readers hold the old one; false means that nothing changed.
func (r *Registry) put(gk schema.GroupKind, e entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.load()[gk]; ok && sameKind(old, e) {
		return false
	}
	next := map[schema.GroupKind]entry{gk: e}
	for other, kept := range r.load() {
		if other != gk {
			next[other] = kept
		}
	}
	r.kinds.Store(&next)
	return true
}

func sameKind(a, b entry) bool {
	return a.from.UID == b.from.UID && a.kind.notReady == b.kind.notReady && equality.Semantic.DeepEqual(a.from.Spec, b.from.Spec)
}

func (r *Registry) remove(name string) (schema.GroupKind, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for gk, e := range r.load() {
		if e.from.Name == name {
			next := maps.Clone(r.load())
			delete(next, gk)
			r.kinds.Store(&next)
			return gk, true
		}
	}
	return schema.GroupKind{}, false
}

func (r *Registry) notify(gk schema.GroupKind) {
	r.mu.Lock()
	listeners := r.listeners[:len(r.listeners):len(r.listeners)]
	r.mu.Unlock()
	for _, listener := range listeners {
		listener(gk)
	}
}
