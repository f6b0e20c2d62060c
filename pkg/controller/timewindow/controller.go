// Package timewindow answers TimeWindowChecks: approved inside the window, waiting before it, over once it closed.
package timewindow

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
)

// name of the controller in logs, metrics and events.
const name = "timewindow"

// Controller keeps the status of TimeWindowChecks. It must be the only writer of it, but for the request controller,
// which cancels the checks of requests that ended.
type Controller struct {
	clock    clock.PassiveClock
	client   client.Client
	recorder events.EventRecorder
}

// New returns a Controller.
func New(clock clock.PassiveClock, client client.Client, recorder events.EventRecorder) *Controller {
	return &Controller{clock: clock, client: client, recorder: recorder}
}

// Register sets the controller up with the manager.
func (c *Controller) Register(_ context.Context, mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).Named(name).
		For(&approvalv1alpha1.TimeWindowCheck{}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
}

// Reconcile writes the status if it changed, and comes back when it changes next.
func (c *Controller) Reconcile(ctx context.Context, check *approvalv1alpha1.TimeWindowCheck) (ctrl.Result, error) {
	if check.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	next, again := compute(check, c.clock.Now().UTC().Truncate(time.Second))
	if !equality.Semantic.DeepEqual(&check.Status, next) {
		if err := status.ApplyIfCurrent(ctx, c.client, check, next); err != nil {
			return ctrl.Result{}, err
		}
		c.tell(check, next)
	}
	return ctrl.Result{RequeueAfter: c.until(again)}, nil
}

// until is the time that is left, and 0 for never.
func (c *Controller) until(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(c.clock.Now()), time.Millisecond)
}
