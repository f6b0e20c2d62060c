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

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/controller/late"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
	"github.com/AlaudaDevops/countersign/pkg/controller/queue"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// name of the controller in logs, metrics and events.
const name = "releaseplan"

const (
	// workers is how many plans are looked at at once: each may wait for the API server.
	workers = 4
	// verifierName is that of the part which asks the directory.
	verifierName = "releaseplan-verifier"
	// verifiers is how many plans are verified at once: each may wait for the directory.
	verifiers = 4
)

const (
	// statusTimeout bounds what one look at a plan waits for the API server.
	statusTimeout = 10 * time.Second
	// lookupTimeout bounds one question to the directory, whose own time-outs are shorter.
	lookupTimeout = 30 * time.Second
)

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
	told     announce.Told
}

// New returns a Controller.
func New(d Dependencies, o Options) *Controller {
	return &Controller{clock: d.Clock, client: d.Client, people: d.People, recorder: d.Recorder, options: o}
}

// Register lets the controller begin once the Release kinds are installed.
func (c *Controller) Register(_ context.Context, mgr ctrl.Manager) error {
	kinds := []schema.GroupKind{releasev1alpha1.GroupKindReleasePlan, releasev1alpha1.GroupKindReleasePlanAdmission}
	return late.Register(mgr, c.clock, kinds, func(ctx context.Context) error { return c.begin(ctx, mgr) })
}

// begin watches plans but for their status: what the controller writes itself brings it back only when it said so.
func (c *Controller) begin(ctx context.Context, mgr ctrl.Manager) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	err := builder.ControllerManagedBy(mgr).Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&releasev1alpha1.ReleasePlan{}, builder.WithPredicates(queue.Meant())).
		Watches(&releasev1alpha1.ReleasePlanAdmission{}, handler.EnqueueRequestsFromMapFunc(c.plansFor), builder.WithPredicates(queue.Meant())).
		Watches(definition.New(), handler.EnqueueRequestsFromMapFunc(c.plansOfCRD), builder.OnlyMetadata).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
	if err != nil {
		return err
	}
	if err := c.verifier().begin(mgr); err != nil {
		return err
	}
	return c.admissions().begin(mgr)
}

// Reconcile writes what follows without the directory, if it changed. The verifier does the rest: a directory that is slow
// must not hold up what is known.
func (c *Controller) Reconcile(ctx context.Context, plan *releasev1alpha1.ReleasePlan) (ctrl.Result, error) {
	if plan.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	foreign, err := c.isForeign(ctx)
	if err != nil || foreign {
		return ctrl.Result{}, err
	}
	f, err := c.observe(ctx, plan)
	if err != nil {
		return ctrl.Result{}, err
	}
	next, _ := compute(f)
	return c.write(ctx, plan, next, 0)
}

// facts are those that stand in the plan.
func (c *Controller) facts(plan *releasev1alpha1.ReleasePlan) *facts {
	return &facts{words: c.options.Vocabulary, recheck: c.options.Recheck, now: c.clock.Now().UTC().Truncate(time.Second), plan: plan}
}

func (c *Controller) observe(ctx context.Context, plan *releasev1alpha1.ReleasePlan) (*facts, error) {
	f := c.facts(plan)
	var err error
	f.admissions, err = pairing.Candidates(ctx, c.client, indexAdmission, f.words, plan)
	return f, err
}

func (c *Controller) write(ctx context.Context, plan *releasev1alpha1.ReleasePlan, next *releasev1alpha1.ReleasePlanStatus, again time.Duration) (ctrl.Result, error) {
	return status.Keep(ctx, c.client, plan, &plan.Status, next, again, func() { c.announce(plan, next) })
}

// isForeign tells that the kinds are another product's, whose status is its own.
func (c *Controller) isForeign(ctx context.Context) (bool, error) {
	ours, err := definition.OursIn(ctx, c.client, releasev1alpha1.DefinitionReleasePlans)
	if err != nil {
		return false, fmt.Errorf("it cannot be told whose kind ReleasePlan is: %w", err)
	}
	return !ours, nil
}
