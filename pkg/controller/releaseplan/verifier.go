package releaseplan

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/controller/queue"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
)

// verifier is the part of the Controller that asks the directory. It has a queue and workers of its own. Both parts write
// the whole status, each only over the version that it has seen.
type verifier struct{ *Controller }

func (c *Controller) verifier() verifier { return verifier{c} }

func (v verifier) begin(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).Named(verifierName).
		WithOptions(controller.Options{MaxConcurrentReconciles: verifiers}).
		For(&releasev1alpha1.ReleasePlan{}, builder.WithPredicates(queue.Meant())).
		Watches(&releasev1alpha1.ReleasePlan{}, handler.Funcs{DeleteFunc: v.forget}).
		Watches(definition.New(), handler.EnqueueRequestsFromMapFunc(v.plansOfCRD), builder.OnlyMetadata).
		Complete(reconcile.AsReconciler(mgr.GetClient(), v))
}

func (v verifier) forget(_ context.Context, e event.DeleteEvent, _ queue.Queue) {
	v.told.Forget(e.Object.GetUID())
}

// Reconcile asks the directory if that is due, writes the status if it changed, and comes back when the author is to be
// verified again.
func (v verifier) Reconcile(ctx context.Context, plan *releasev1alpha1.ReleasePlan) (ctrl.Result, error) {
	if plan.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	found, err := v.lookUp(ctx, plan)
	if err != nil {
		return ctrl.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	foreign, err := v.isForeign(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	// The plan may have been written while the directory was asked; if it was changed, the answer may be about somebody else.
	now := &releasev1alpha1.ReleasePlan{}
	if err := v.client.Get(ctx, client.ObjectKeyFromObject(plan), now); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	f, err := v.observe(ctx, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	if found != nil && f.due() == found.about {
		f.looked = found
	}
	if f.looked == nil && f.due() != "" {
		return ctrl.Result{RequeueAfter: status.RetryStale}, nil
	}
	next, again := compute(f)
	if foreign {
		v.advise(ctx, now, next)
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return v.write(ctx, now, next, again)
}

// lookUp asks the directory; nil if that is not due.
func (v verifier) lookUp(ctx context.Context, plan *releasev1alpha1.ReleasePlan) (*looked, error) {
	author := v.facts(plan).due()
	if author == "" {
		return nil, nil
	}
	asking, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	answer, err := v.people.Lookup(asking, author)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return &looked{Answer: answer, about: author, err: err}, nil
}
