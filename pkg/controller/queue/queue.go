// Package queue lets controllers be woken by what they do not watch themselves.
package queue

import (
	"context"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is where a controller's keys wait.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Holder holds a controller's queue while this replica leads. The zero value is ready.
type Holder struct{ held atomic.Pointer[Queue] }

// Hold is a source.Func that brings no events of its own.
func (h *Holder) Hold(_ context.Context, q Queue) error {
	h.held.Store(&q)
	return nil
}

// Get returns nil while this replica does not lead.
func (h *Holder) Get() Queue {
	if q := h.held.Load(); q != nil {
		return *q
	}
	return nil
}
