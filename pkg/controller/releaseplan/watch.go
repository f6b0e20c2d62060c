package releaseplan

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
)

const (
	// indexTarget finds plans by the namespace that they release to.
	indexTarget = "releaseplan.target"
	// indexAdmission finds admissions by what they let in.
	indexAdmission = "releaseplan.admission"
)

func index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &releasev1alpha1.ReleasePlan{}, indexTarget, planTarget); err != nil {
		return fmt.Errorf("the index %s cannot be made: %w", indexTarget, err)
	}
	if err := indexer.IndexField(ctx, &releasev1alpha1.ReleasePlanAdmission{}, indexAdmission, pairing.Keys); err != nil {
		return fmt.Errorf("the index %s cannot be made: %w", indexAdmission, err)
	}
	return nil
}

func planTarget(obj client.Object) []string {
	plan, ok := obj.(*releasev1alpha1.ReleasePlan)
	if !ok || plan.Spec.Target == "" {
		return nil
	}
	return []string{plan.Spec.Target}
}

// plansFor are those that release to the namespace of an admission.
func (c *Controller) plansFor(ctx context.Context, admission client.Object) []reconcile.Request {
	return c.plans(ctx, client.MatchingFields{indexTarget: admission.GetNamespace()})
}

func (c *Controller) plansOfCRD(ctx context.Context, crd client.Object) []reconcile.Request {
	if crd.GetName() != releasev1alpha1.DefinitionReleasePlans {
		return nil
	}
	return c.plans(ctx)
}

func (c *Controller) plans(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var plans releasev1alpha1.ReleasePlanList
	if err := c.client.List(ctx, &plans, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "ReleasePlans that an event concerns cannot be found")
		return nil
	}
	found := make([]reconcile.Request, 0, len(plans.Items))
	for i := range plans.Items {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&plans.Items[i])})
	}
	return found
}
