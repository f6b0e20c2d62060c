package request

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// validateCreate completes the object once more: if that changes anything, somebody changed what the server had set.
func (w *Webhook) validateCreate(ctx context.Context, r *admit.Review) error {
	want := r.Object.DeepCopy()
	c, err := w.complete(ctx, &r.Caller, want, r.Namespace)
	if err != nil {
		return err
	}
	if err := untouched(r.Object, want); err != nil {
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

func untouched(have, want *unstructured.Unstructured) error {
	for _, path := range asserted {
		is, _, _ := unstructured.NestedFieldNoCopy(have.Object, path...)
		shouldBe, _, _ := unstructured.NestedFieldNoCopy(want.Object, path...)
		if !equality.Semantic.DeepEqual(is, shouldBe) {
			return admit.Invalid(field(path), "the server sets it, and another admission webhook or the client changed it: leave it alone")
		}
	}
	return nil
}

func field(path []string) string {
	name := path[0]
	for _, part := range path[1:] {
		name += "." + part
	}
	return name
}
