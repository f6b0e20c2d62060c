package guarded

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// EpochReader tells since when creator records can be believed.
type EpochReader struct {
	watcher  *Watcher
	factory  informers.SharedInformerFactory
	informer cache.SharedIndexInformer

	stored atomic.Pointer[epoch]
	answer atomic.Pointer[answer]
}

// answer is what followed from one comparison of the policies and one stored epoch.
type answer struct {
	state *state
	epoch *epoch
	since time.Time
}

// NewEpochReader returns a reader of the epoch in the system namespace. The Watcher must be started too.
func NewEpochReader(client kubernetes.Interface, watcher *Watcher, namespace string) *EpochReader {
	r := &EpochReader{watcher: watcher}
	r.stored.Store(&epoch{})
	r.factory = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, EpochName).String()
		}))
	r.informer = r.factory.Core().V1().ConfigMaps().Informer()
	return r
}

// Since is the epoch: a creator record is believed when its object was created after it. Zero means that no
// record is: the policies are not in force, or not known to have been so without a gap. It takes no lock.
func (r *EpochReader) Since() time.Time {
	state, epoch := r.watcher.state.Load(), r.stored.Load()
	if known := r.answer.Load(); known != nil && known.state == state && known.epoch == epoch {
		return known.since
	}
	found := &answer{state: state, epoch: epoch}
	if state.why == "" && epoch.covers(state.live) {
		found.since = epoch.since
	}
	r.answer.Store(found)
	return found.since
}

// HasSynced says whether the epoch was looked for; it may be absent.
func (r *EpochReader) HasSynced() bool { return r.informer.HasSynced() }

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica reads.
func (r *EpochReader) NeedLeaderElection() bool { return false }

// Start watches until the context ends. It implements manager.Runnable.
func (r *EpochReader) Start(ctx context.Context) error {
	if _, err := r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.store(object) },
		UpdateFunc: func(_, object any) { r.store(object) },
		DeleteFunc: func(any) { r.stored.Store(&epoch{}) },
	}); err != nil {
		return fmt.Errorf("the epoch of the admission policies cannot be watched: %w", err)
	}
	r.factory.Start(ctx.Done())
	defer r.factory.Shutdown()
	<-ctx.Done()
	return nil
}

func (r *EpochReader) store(object any) {
	configMap, _ := object.(*corev1.ConfigMap)
	stored := parseEpoch(configMap)
	r.stored.Store(&stored)
}
