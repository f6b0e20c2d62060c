// Package releaseplan says on ReleasePlans who stands for them and whether the directory still knows him, and on both sides
// whether a ReleasePlan and a ReleasePlanAdmission have found each other.
//
// Whether a Release may go on is not decided here: what it stands on is fixed when it is made, and its author is verified by
// its own check. This is for people, so that a person who left is noticed before the next Release fails.
package releaseplan

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/late"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// name of the controller in logs, metrics and events.
const name = "releaseplan"

// workers is how many plans are looked at at once: each may wait for the directory.
const workers = 4

// retryStale is for a cache that lags behind what was written.
const retryStale = time.Second

// Whose kind ReleasePlan is stands in a label of its CRD.
const (
	planCRD = "releaseplans.appstudio.redhat.com"
	partOf  = "app.kubernetes.io/part-of"
	product = "countersign"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// People answers who a user name is.
type People interface {
	Lookup(ctx context.Context, username string) (directory.Answer, error)
}

// Dependencies are what the controller works with.
type Dependencies struct {
	Clock clock.WithTicker
	// Client reads from the manager's cache.
	Client   client.Client
	People   People
	Recorder events.EventRecorder
}

// Options are what the operator may set.
type Options struct {
	Vocabulary attribution.Vocabulary
	// Recheck is how often a standing author is verified again.
	Recheck time.Duration
}

// Controller keeps the status of ReleasePlans. It must be the only writer of it.
type Controller struct {
	clock    clock.WithTicker
	client   client.Client
	people   People
	recorder events.EventRecorder
	options  Options
	told     told
}

// New returns a Controller.
func New(d Dependencies, o Options) *Controller {
	return &Controller{clock: d.Clock, client: d.Client, people: d.People, recorder: d.Recorder, options: o, told: told{reasons: map[types.UID]string{}}}
}

// Register lets the controller begin once the Release kinds are installed.
func (c *Controller) Register(_ context.Context, mgr ctrl.Manager) error {
	group := releasev1alpha1.GroupVersion.Group
	kinds := []schema.GroupKind{{Group: group, Kind: releasev1alpha1.KindReleasePlan}, {Group: group, Kind: releasev1alpha1.KindReleasePlanAdmission}}
	return late.Register(mgr, c.clock, kinds, func(ctx context.Context) error { return c.begin(ctx, mgr) })
}

// begin watches plans but for their status: what the controller writes itself brings it back only when it said so.
func (c *Controller) begin(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &releasev1alpha1.ReleasePlan{}, indexTarget, planTarget); err != nil {
		return fmt.Errorf("the index %s cannot be made: %w", indexTarget, err)
	}
	crds := &metav1.PartialObjectMetadata{}
	crds.SetGroupVersionKind(crdKind)
	meant := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
	err := builder.ControllerManagedBy(mgr).Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&releasev1alpha1.ReleasePlan{}, builder.WithPredicates(meant)).
		Watches(&releasev1alpha1.ReleasePlan{}, handler.Funcs{DeleteFunc: c.forget}).
		Watches(&releasev1alpha1.ReleasePlanAdmission{}, handler.EnqueueRequestsFromMapFunc(c.plansFor), builder.WithPredicates(meant)).
		Watches(crds, handler.EnqueueRequestsFromMapFunc(c.plansOfCRD), builder.OnlyMetadata).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
	if err != nil {
		return err
	}
	return c.admissions().begin(mgr)
}

func (c *Controller) forget(_ context.Context, e event.DeleteEvent, _ queue) {
	c.told.forget(e.Object.GetUID())
}

// Reconcile writes the status if it changed, and comes back when the author is to be verified again.
func (c *Controller) Reconcile(ctx context.Context, plan *releasev1alpha1.ReleasePlan) (ctrl.Result, error) {
	if plan.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	f, err := c.observe(ctx, plan)
	if err != nil {
		return ctrl.Result{}, err
	}
	if author := f.due(); author != "" {
		answer, err := c.people.Lookup(ctx, author)
		if err != nil && ctx.Err() != nil {
			return ctrl.Result{}, ctx.Err()
		}
		f.looked = &looked{Answer: answer, err: err}
	}
	next, again := compute(f)
	foreign, err := isForeign(ctx, c.client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if foreign {
		c.advise(plan, next)
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return c.write(ctx, plan, next, again)
}

func (c *Controller) observe(ctx context.Context, plan *releasev1alpha1.ReleasePlan) (*facts, error) {
	f := &facts{words: c.options.Vocabulary, recheck: c.options.Recheck, now: c.clock.Now().UTC().Truncate(time.Second), plan: plan}
	if plan.Spec.Target == "" {
		return f, nil
	}
	var admissions releasev1alpha1.ReleasePlanAdmissionList
	if err := c.client.List(ctx, &admissions, client.InNamespace(plan.Spec.Target)); err != nil {
		return nil, fmt.Errorf("the ReleasePlanAdmissions of namespace %s cannot be listed: %w", plan.Spec.Target, err)
	}
	f.admissions = admissions.Items
	return f, nil
}

func (c *Controller) write(ctx context.Context, plan *releasev1alpha1.ReleasePlan, next *releasev1alpha1.ReleasePlanStatus, again time.Duration) (ctrl.Result, error) {
	if equality.Semantic.DeepEqual(&plan.Status, next) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	written, err := status.TryApply(ctx, c.client, plan, next)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case !written:
		return ctrl.Result{RequeueAfter: retryStale}, nil
	}
	c.announce(plan, next)
	return ctrl.Result{RequeueAfter: again}, nil
}

// isForeign tells that the kinds are another product's, whose status is its own.
func isForeign(ctx context.Context, c client.Reader) (bool, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	if err := c.Get(ctx, client.ObjectKey{Name: planCRD}, crd); err != nil {
		return false, fmt.Errorf("it cannot be told whose kind ReleasePlan is: %w", err)
	}
	return crd.Labels[partOf] != product, nil
}
