package guarded

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	registrationinformers "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/AlaudaDevops/countersign/config/policies"
)

// Watcher compares the live policies and bindings with those of the release. Every replica of every consumer
// runs one. It shares the API server's connection with whoever uses the same rest.Config, so a heartbeat on
// that connection speaks for these watches too.
type Watcher struct {
	options   policies.Options
	factory   informers.SharedInformerFactory
	informers map[string]cache.SharedIndexInformer
	handlers  []func()
	// known has all names that may ever be compared.
	known policies.Set

	comparing sync.Mutex
	accepted  []policies.Set
	state     atomic.Pointer[state]
}

// state is one comparison; it is never changed.
type state struct {
	// why is empty when the policies are in force.
	why  string
	live record
	// selections are what the bindings of the creator record select.
	selections []*admissionregistrationv1.MatchResources
}

// notRead is the state before all policies have been listed.
var notRead = &state{why: "The admission policies have not been read yet: try again in a moment."}

// NewWatcher returns a Watcher for the sets that this release accepts with these options. It is not guarded until
// Start has read the policies.
func NewWatcher(client kubernetes.Interface, options policies.Options) *Watcher {
	w := newWatcher(client, policies.Accepted(options))
	w.options = options
	options.Releases = true
	for _, set := range policies.Accepted(options) {
		maps.Copy(w.known, set)
	}
	return w
}

func newWatcher(client kubernetes.Interface, accepted []policies.Set) *Watcher {
	w := &Watcher{accepted: accepted, known: policies.Set{}}
	for _, set := range accepted {
		maps.Copy(w.known, set)
	}
	w.state.Store(notRead)
	w.factory = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(w.strip))
	w.informers = map[string]cache.SharedIndexInformer{}
	for key := range w.known {
		w.informers[key.Kind] = informerOf(w.factory.Admissionregistration().V1(), key.Kind)
	}
	return w
}

// informerOf is the factory's only one of the kind. Kinds that no set has are not watched: the API server may not
// know them.
func informerOf(registration registrationinformers.Interface, kind string) cache.SharedIndexInformer {
	switch kind {
	case policies.KindMutatingPolicy:
		return registration.MutatingAdmissionPolicies().Informer()
	case policies.KindMutatingBinding:
		return registration.MutatingAdmissionPolicyBindings().Informer()
	case policies.KindValidatingPolicy:
		return registration.ValidatingAdmissionPolicies().Informer()
	case policies.KindValidatingBinding:
		return registration.ValidatingAdmissionPolicyBindings().Informer()
	case policies.KindMutatingWebhook:
		return registration.MutatingWebhookConfigurations().Informer()
	default:
		return registration.ValidatingWebhookConfigurations().Informer()
	}
}

// WantReleases says whether the Release kinds are ours in this cluster, so that their policies count. It may be called
// at any time; before the first call they do not unless the options say so.
func (w *Watcher) WantReleases(want bool) {
	w.comparing.Lock()
	w.options.Releases = want
	w.accepted = policies.Accepted(w.options)
	w.comparing.Unlock()
	w.compare()
}

// OnChange registers a handler that is called after every change of what Guarded answers or of the policies'
// identities. It must be called before Start; handlers must not block.
func (w *Watcher) OnChange(handler func()) { w.handlers = append(w.handlers, handler) }

// Guarded is false, with one sentence for people, while a policy or binding of the release is missing or
// altered, and until all have been read. It takes no lock.
func (w *Watcher) Guarded() (ok bool, why string) {
	current := w.state.Load()
	return current.why == "", current.why
}

// Records says whether the creator record is kept of all objects of a resource: then what they say is as good as the
// epoch, which moves when the selection does. It is false while Guarded is.
func (w *Watcher) Records(resource schema.GroupResource) bool {
	current := w.state.Load()
	return current.why == "" && !slices.ContainsFunc(current.selections, func(selection *admissionregistrationv1.MatchResources) bool {
		return !policies.SelectsRecord(selection, resource)
	})
}

// HasSynced is true once the policies have been read: until then Guarded is false because nothing is known.
func (w *Watcher) HasSynced() bool { return w.state.Load() != notRead }

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica watches.
func (w *Watcher) NeedLeaderElection() bool { return false }

// Start watches until the context ends. It implements manager.Runnable.
func (w *Watcher) Start(ctx context.Context) error {
	for _, informer := range w.informers {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { w.compare() },
			UpdateFunc: func(any, any) { w.compare() },
			DeleteFunc: func(any) { w.compare() },
		}); err != nil {
			return fmt.Errorf("the admission policies cannot be watched: %w", err)
		}
	}
	w.factory.Start(ctx.Done())
	defer w.factory.Shutdown()
	w.factory.WaitForCacheSync(ctx.Done())
	w.compare()
	<-ctx.Done()
	return nil
}

// compare stores what is live now. One runs at a time, so the last to finish is the newest.
func (w *Watcher) compare() {
	w.comparing.Lock()
	defer w.comparing.Unlock()
	next := w.look()
	if before := w.state.Load(); before.why == next.why && maps.Equal(before.live, next.live) {
		return
	}
	w.state.Store(next)
	for _, handler := range w.handlers {
		handler()
	}
}

func (w *Watcher) look() *state {
	for _, informer := range w.informers {
		if !informer.HasSynced() {
			return notRead
		}
	}
	live := w.live()
	return &state{why: w.findFault(live), live: recordOf(live), selections: w.selections(live)}
}

// selections are those of the live bindings, or of the webhooks that stand in for them.
func (w *Watcher) selections(live policies.Set) (all []*admissionregistrationv1.MatchResources) {
	kinds := []string{policies.KindMutatingBinding, policies.KindValidatingBinding}
	if w.options.CreatorWebhook {
		kinds = []string{policies.KindMutatingWebhook, policies.KindValidatingWebhook}
	}
	for _, kind := range kinds {
		all = append(all, policies.Selection(live[policies.Key{Kind: kind, Name: policies.CreatorRecord}]))
	}
	return all
}

func (w *Watcher) live() policies.Set {
	live := policies.Set{}
	for _, set := range w.accepted {
		for key := range set {
			if object, exists, err := w.informers[key.Kind].GetStore().GetByKey(key.Name); err == nil && exists {
				live[key] = object.(metav1.Object)
			}
		}
	}
	return live
}

// findFault is empty when some accepted set is complete. Objects are replaced one after the other in an
// upgrade, so each may be that of any accepted set; otherwise the fault is told against the set of this release.
func (w *Watcher) findFault(live policies.Set) string {
	first := ""
	for _, set := range w.accepted {
		fault := w.faultIn(set, live)
		if fault == "" {
			return ""
		}
		if first == "" {
			first = fault
		}
	}
	return first
}

func (w *Watcher) faultIn(set, live policies.Set) string {
	for _, key := range slices.SortedFunc(maps.Keys(set), compareKeys) {
		object, exists := live[key]
		if !exists {
			return fmt.Sprintf("The %s %s is missing, so nothing that rests on it can be relied on: a cluster administrator has to apply the policies of this release.", key.Kind, key.Name)
		}
		if !w.accepts(key, object) {
			return fmt.Sprintf("The %s %s was altered%s, so nothing that rests on it can be relied on: a cluster administrator has to apply the policies of this release.", key.Kind, key.Name, narrowed(set[key], object))
		}
	}
	return ""
}

// narrowed says more of what may be altered, but not so.
func narrowed(shipped, live metav1.Object) string {
	want, have := policies.Selection(shipped), policies.Selection(live)
	if want == nil || have == nil || policies.Covers(have, want) {
		return ""
	}
	return " and leaves out objects that the shipped one selects"
}

func (w *Watcher) accepts(key policies.Key, object metav1.Object) bool {
	return slices.ContainsFunc(w.accepted, func(set policies.Set) bool {
		return policies.Accepts(set[key], object)
	})
}

// strip drops what is not compared, and everything but the name of other people's policies.
func (w *Watcher) strip(object any) (any, error) {
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		if !w.owns(policies.KindMutatingPolicy, o.Name) {
			o.Spec = admissionregistrationv1.MutatingAdmissionPolicySpec{}
		}
		trim(&o.ObjectMeta)
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		if !w.owns(policies.KindMutatingBinding, o.Name) {
			o.Spec = admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{}
		}
		trim(&o.ObjectMeta)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if !w.owns(policies.KindValidatingPolicy, o.Name) {
			o.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{}
		}
		o.Status = admissionregistrationv1.ValidatingAdmissionPolicyStatus{}
		trim(&o.ObjectMeta)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		if !w.owns(policies.KindValidatingBinding, o.Name) {
			o.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{}
		}
		trim(&o.ObjectMeta)
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		if !w.owns(policies.KindMutatingWebhook, o.Name) {
			o.Webhooks = nil
		}
		trim(&o.ObjectMeta)
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		if !w.owns(policies.KindValidatingWebhook, o.Name) {
			o.Webhooks = nil
		}
		trim(&o.ObjectMeta)
	}
	return object, nil
}

func (w *Watcher) owns(kind, name string) bool {
	_, ok := w.known[policies.Key{Kind: kind, Name: name}]
	return ok
}

func trim(meta *metav1.ObjectMeta) {
	meta.ManagedFields, meta.Annotations, meta.Labels = nil, nil, nil
}

func compareKeys(a, b policies.Key) int { return strings.Compare(a.String(), b.String()) }
