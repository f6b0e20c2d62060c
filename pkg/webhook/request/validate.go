package request

import (
	"context"

	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// validateCreate completes the object once more: if that changes anything, somebody changed what the server had set.
func (w *Webhook) validateCreate(ctx context.Context, r *admit.Review) error {
	want := r.Object.DeepCopy()
	c, err := w.complete(ctx, &r.Caller, want, r.Namespace)
	if err != nil {
		return err
	}
	if err := admit.Untouched(r.Object, want, asserted); err != nil {
		return err
	}
	if err := w.withinLimits(ctx, c, r.DryRun); err != nil {
		return err
	}
	return w.recordAsker(ctx, c, r.DryRun)
}

// asserted are the fields that the mutating step sets; the schema guards the rest.
var asserted = [][]string{
	{"metadata", "name"}, {"metadata", "labels"}, {"metadata", "ownerReferences"}, {"metadata", "finalizers"},
	{"spec", "objectRef"}, {"spec", "context"}, {"spec", "requestedBy"}, {"spec"},
}
