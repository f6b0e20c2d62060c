// Package script answers ScriptChecks: it reads the inputs of an expression as they are now, and evaluates it.
//
// A check is evaluated again whenever its inputs change: the run and a Connector are watched; other objects are looked
// at every so often, and so is the clock, for expressions that use it. An approval that the expression takes back is a
// rejection.
package script

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/queue"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
)

// name of the controller in logs, metrics and events.
const name = "script"

const (
	// evaluationTimeout bounds reading the inputs and evaluating, for one check.
	evaluationTimeout = 10 * time.Second
)

// Controller keeps the status of ScriptChecks. It must be the only writer of it, but for the request controller, which
// cancels the checks of requests that ended.
type Controller struct {
	clock    clock.PassiveClock
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	queue    queue.Holder
}

// New returns a Controller. The client must read from a cache with the indexes of SetupIndexes; live must not be a
// cache, because the objects that expressions see are of any kind.
func New(clock clock.PassiveClock, client client.Client, live client.Reader, recorder events.EventRecorder) *Controller {
	return &Controller{clock: clock, client: client, live: live, recorder: recorder}
}

// Register sets the controller up with the manager, with the indexes that it needs. Runs must be registered by who
// makes their cache, with RunChanged. What the controller writes itself brings it back only when it said so.
func (c *Controller) Register(ctx context.Context, mgr ctrl.Manager) error {
	if err := SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).Named(name).
		For(&approvalv1alpha1.ScriptCheck{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&connectorsv1alpha1.Connector{}, handler.EnqueueRequestsFromMapFunc(c.checksOfConnector)).
		WatchesRawSource(source.Func(c.queue.Hold)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
}

// Reconcile evaluates the check, writes its status if it changed, and comes back when it is to be evaluated again.
func (c *Controller) Reconcile(ctx context.Context, check *approvalv1alpha1.ScriptCheck) (ctrl.Result, error) {
	if check.DeletionTimestamp != nil || isOver(check) {
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, evaluationTimeout)
	defer cancel()
	now := c.clock.Now().UTC().Truncate(time.Second)
	found, err := c.evaluate(ctx, check, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	return c.write(ctx, check, compute(check, &found, now), found.again)
}

func (c *Controller) write(ctx context.Context, check *approvalv1alpha1.ScriptCheck, next *approvalv1alpha1.ScriptCheckStatus, again time.Duration) (ctrl.Result, error) {
	return status.Keep(ctx, c.client, check, &check.Status, next, again, func() { c.tell(check, next) })
}
