package gate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// heartbeat proves that watches still deliver: it renews a Lease of its own and must see each renewal come
// back on its watch. A silent watch looks exactly like a quiet cluster, so without this nobody would know.
type heartbeat struct {
	client    kubernetes.Interface
	clock     clock.Clock
	namespace string
	name      string
	// staleness is how long the watch may stay silent; a renewal goes out every third of it.
	staleness time.Duration

	renewed  atomic.Int64 // the newest renewal sent, in microseconds since the epoch
	lastSeen atomic.Int64 // when a renewal was last seen to come back, in nanoseconds since the epoch
}

// Run renews until the context ends, then gives the Lease up.
func (h *heartbeat) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		// A failed renewal needs no handling: nothing comes back, and the gate closes by itself.
		_ = h.renew(ctx)
	}, h.staleness/3)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = h.client.CoordinationV1().Leases(h.namespace).Delete(ending, h.name, metav1.DeleteOptions{})
}

func (h *heartbeat) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.staleness/3)
	defer cancel()
	leases := h.client.CoordinationV1().Leases(h.namespace)
	now := metav1.NewMicroTime(h.clock.Now())
	h.renewed.Store(now.UnixMicro())
	lease, err := leases.Get(ctx, h.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: h.name, Namespace: h.namespace},
			Spec:       h.spec(now),
		}, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	}
	lease.Spec = h.spec(now)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func (h *heartbeat) spec(now metav1.MicroTime) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(h.name),
		LeaseDurationSeconds: ptr.To(max(1, int32(h.staleness.Seconds()))),
		RenewTime:            &now,
	}
}

// observe takes a Lease from the watch. Only the newest renewal counts: an older one coming late proves
// nothing about now.
func (h *heartbeat) observe(u *unstructured.Unstructured) {
	text, _, _ := unstructured.NestedString(u.Object, "spec", "renewTime")
	at, err := time.Parse(metav1.RFC3339Micro, text)
	if err == nil && at.UnixMicro() == h.renewed.Load() {
		h.lastSeen.Store(h.clock.Now().UnixNano())
	}
}

// Check says since when no renewal has come back, once that is too long.
func (h *heartbeat) Check(now time.Time) error {
	last := h.lastSeen.Load()
	if last == 0 {
		return fmt.Errorf("no sign of life from the API server's watches yet; try again in a moment")
	}
	if silent := now.Sub(time.Unix(0, last)); silent > h.staleness {
		return fmt.Errorf("no sign of life from the API server's watches for %s, so approvals may have been withdrawn unseen; try again when the API server answers", silent.Round(time.Second))
	}
	return nil
}

func (h *heartbeat) mirror(client dynamic.Interface) *mirror {
	return &mirror{
		client:        client,
		resource:      coordinationv1.SchemeGroupVersion.WithResource("leases"),
		namespace:     h.namespace,
		fieldSelector: "metadata.name=" + h.name,
		set:           h.observe,
		forget:        func(types.NamespacedName, types.UID) {},
	}
}
