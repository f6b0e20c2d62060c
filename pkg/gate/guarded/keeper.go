package guarded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// DefaultSettle is added to the moment at which the policies were seen in force by the one API server that
	// was asked: each further one takes up policies from its own watch, once a second.
	DefaultSettle = 10 * time.Second
	// DefaultProbeEvery is how often it is tried whether the policies act, beside every change of them.
	DefaultProbeEvery = 10 * time.Minute

	// reselect is the least that is added after the selection of recorded kinds moved. The probe is about a kind that
	// is always selected, so it cannot show that the API server has taken the new selection up.
	reselect = 5 * time.Second

	retryAfter  = 2 * time.Second
	callTimeout = 10 * time.Second
)

// ErrNotInForce says that an API server let a forged creator record stand.
var ErrNotInForce = errors.New("the API server keeps a forged creator record, although the admission policies are installed: see whether it has just started, and whether its admission plugins MutatingAdmissionPolicy and ValidatingAdmissionPolicy are enabled")

// Prober tries out whether the policies act.
type Prober interface {
	// Probe returns the API server's time when it acted on a forgery. The error Is ErrNotInForce if it did not;
	// any other means that it is not known.
	Probe(ctx context.Context) (time.Time, error)
}

// Keeper keeps the epoch. One runs at a time, on the controller's leader.
type Keeper struct {
	clock      clock.WithTicker
	client     kubernetes.Interface
	prober     Prober
	watcher    *Watcher
	namespace  string
	settle     time.Duration
	probeEvery time.Duration
	changed    chan struct{}
}

// KeeperOption changes a Keeper.
type KeeperOption func(*Keeper)

// WithSettle replaces DefaultSettle; zero is right with a single API server. It says nothing of a selection that moves.
func WithSettle(settle time.Duration) KeeperOption {
	return func(k *Keeper) { k.settle = settle }
}

// WithProbeEvery replaces DefaultProbeEvery.
func WithProbeEvery(every time.Duration) KeeperOption {
	return func(k *Keeper) { k.probeEvery = every }
}

// NewKeeper returns a Keeper of the epoch in the system namespace. It must be made before the Watcher starts.
func NewKeeper(clock clock.WithTicker, client kubernetes.Interface, prober Prober, watcher *Watcher, namespace string, options ...KeeperOption) *Keeper {
	k := &Keeper{
		clock: clock, client: client, prober: prober, watcher: watcher, namespace: namespace,
		settle: DefaultSettle, probeEvery: DefaultProbeEvery, changed: make(chan struct{}, 1),
	}
	for _, option := range options {
		option(k)
	}
	watcher.OnChange(k.wake)
	return k
}

func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader writes.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Start keeps the epoch until the context ends. It implements manager.Runnable.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := k.probeEvery
		if err := k.Sync(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "The epoch of the admission policies was not confirmed")
			wait = retryAfter
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
		case <-k.clock.After(wait):
		}
	}
}

// Sync confirms, establishes, raises or withdraws the epoch once. While the policies are not what they should
// be it does nothing: every EpochReader sees that by itself.
func (k *Keeper) Sync(ctx context.Context) error {
	// What is recorded must have been seen before the probe, so that the probe speaks of it.
	seen := k.watcher.state.Load()
	if seen.why != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	at, probeErr := k.prober.Probe(ctx)
	if probeErr != nil && !errors.Is(probeErr, ErrNotInForce) {
		return fmt.Errorf("it cannot be tried out whether the admission policies are in force: %w", probeErr)
	}
	stored, err := k.get(ctx)
	if err != nil {
		return err
	}
	was := parseEpoch(stored)
	settle := k.settle
	if was.policies.reselected(seen.live) {
		settle = max(settle, reselect)
	}
	is := was.next(seen.live, at.Add(settle))
	if probeErr != nil {
		is = epoch{policies: was.policies}
	}
	return errors.Join(probeErr, k.put(ctx, stored, was, is))
}

// get returns nil if there is no ConfigMap yet.
func (k *Keeper) get(ctx context.Context) (*corev1.ConfigMap, error) {
	stored, err := k.client.CoreV1().ConfigMaps(k.namespace).Get(ctx, EpochName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap %s/%s cannot be read: %w", k.namespace, EpochName, err)
	}
	return stored, nil
}

// put writes the epoch if it changed. The stored object's resourceVersion keeps a former leader from
// overwriting what a newer one found.
func (k *Keeper) put(ctx context.Context, stored *corev1.ConfigMap, was, is epoch) error {
	if is.equal(was) {
		return nil
	}
	data, err := is.data()
	if err != nil {
		return err
	}
	configMaps := k.client.CoreV1().ConfigMaps(k.namespace)
	if stored == nil {
		fresh := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: EpochName, Namespace: k.namespace}, Data: data}
		_, err = configMaps.Create(ctx, fresh, metav1.CreateOptions{})
	} else if !maps.Equal(stored.Data, data) {
		stored = stored.DeepCopy()
		stored.Data = data
		_, err = configMaps.Update(ctx, stored, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("the ConfigMap %s/%s cannot be written: %w", k.namespace, EpochName, err)
	}
	k.report(ctx, was, is)
	return nil
}

func (k *Keeper) report(ctx context.Context, was, is epoch) {
	if is.since.Equal(was.since) {
		return
	}
	if is.since.IsZero() {
		epochChanges.WithLabelValues(changeWithdrawn).Inc()
		return // the error that caused it is logged
	}
	epochChanges.WithLabelValues(changeRaised).Inc()
	ctrl.LoggerFrom(ctx).Info("Creator records count from a later moment, because the admission policies were not in force before or had a gap",
		"since", is.since, "before", was.since)
}
