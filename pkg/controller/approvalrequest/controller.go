// Package approvalrequest counts the answers of people into the status of ApprovalRequests.
package approvalrequest

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// name of the controller in logs, metrics and events.
const name = "approvalrequest"

// workers is how many checks are counted at a time. Each count is a few reads of the cache and at most one write.
const workers = 4

// Controller keeps the status of ApprovalRequests. It must be the only writer of it, but for the request controller,
// which cancels the checks of requests that ended.
type Controller struct {
	clock    clock.PassiveClock
	client   client.Client
	recorder events.EventRecorder
}

// New returns a Controller. The client must read from a cache with the indexes of SetupIndexes.
func New(clock clock.PassiveClock, client client.Client, recorder events.EventRecorder) *Controller {
	return &Controller{clock: clock, client: client, recorder: recorder}
}

// Register sets the controller up with the manager, with the indexes that it needs.
func (c *Controller) Register(ctx context.Context, mgr ctrl.Manager) error {
	if err := SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).Named(name).
		For(&approvalv1alpha1.ApprovalRequest{}).
		Watches(&approvalv1alpha1.ApprovalResponse{}, handler.EnqueueRequestsFromMapFunc(answered)).
		Watches(&approvalv1alpha1.ResourceCheckRequest{}, handler.EnqueueRequestsFromMapFunc(asked), builder.WithPredicates(askersChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
}

// Reconcile computes the status from the spec, the answers and the askers, and writes it if it changed. It comes back
// when the check times out.
func (c *Controller) Reconcile(ctx context.Context, check *approvalv1alpha1.ApprovalRequest) (ctrl.Result, error) {
	if check.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	in, err := c.observe(ctx, check)
	if err != nil {
		return ctrl.Result{}, err
	}
	outcome := quorum.Count(in)
	next := compute(check, &in, &outcome)
	if !equality.Semantic.DeepEqual(&check.Status, next) {
		if err := status.ApplyIfCurrent(ctx, c.client, check, next); err != nil {
			return ctrl.Result{}, err
		}
		c.tell(check, next, reason(&outcome))
	}
	return ctrl.Result{RequeueAfter: c.until(outcome.Next)}, nil
}

// until is the time that is left, and 0 for never.
func (c *Controller) until(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(c.clock.Now()), time.Millisecond)
}

// now has the precision that a status keeps, so that what is computed equals what is read back.
func (c *Controller) now() metav1.Time {
	return metav1.NewTime(c.clock.Now().UTC().Truncate(time.Second))
}
