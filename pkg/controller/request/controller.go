// Package request makes the checks that a ResourceCheckRequest asks, and folds their answers into its status.
//
// What a request's status should be is decided by decision.Fold; this package observes what that needs, and does what
// the plan says: it makes checks in the object's namespace, writes the status once, closes checks that nothing rests on,
// and, after the retention time, writes evidence and deletes.
package request

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/archive"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/controller/queue"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// How long to wait before looking again at what announces itself by no event.
const (
	// retryStale is for a cache that lags behind what was just read or written.
	retryStale = 200 * time.Millisecond
	// retryUnobserved is for a run that no watch has seen yet.
	retryUnobserved = 5 * time.Second
	// retryUnwatched is for what can be read but not watched.
	retryUnwatched = 30 * time.Second
	// retryProblem is for what somebody must repair.
	retryProblem = 30 * time.Second
	// retryArchive is for a sink that takes no evidence.
	retryArchive = time.Minute
)

// errStale is what an error Is when the cache lags behind: nothing is wrong, look again.
var errStale = errors.New("the cache lags behind the API server")

// Climber climbs from a run to whoever created what it came from.
type Climber interface {
	ClimbFrom(ctx context.Context, node *origin.Node) (*origin.Climb, error)
}

// Watched answers from watches.
type Watched interface {
	origin.Source
	origin.Finder
}

// Runs tells of the runs that requests are bound to.
type Runs struct {
	Watched Watched
	// Live answers from the API server.
	Live    origin.Source
	Climber Climber
	// Since is the moment from which on creator records are believed; zero means that none is.
	Since func() time.Time
}

// Dependencies are what the controller works with.
type Dependencies struct {
	Clock clock.Clock
	// Client reads from the manager's cache, with the indexes of Index.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	Mapper   apimeta.RESTMapper
	Kinds    *checks.Registry
	Runs     Runs
	Archive  archive.Sink
	Recorder events.EventRecorder
	Metrics  prometheus.Registerer
}

// Options are what the operator may set.
type Options struct {
	// Username is the user name of this controller, by which it knows the checks that it made.
	Username string
	// Retention is how long what ended is kept.
	Retention time.Duration
	// ReasksPerSecond bounds how many questions are asked again in a second, over all requests.
	ReasksPerSecond float64
	// Workers is how many requests are looked at at once.
	Workers int
}

// Controller reconciles ResourceCheckRequests.
type Controller struct {
	Dependencies
	options  Options
	children *children
	objects  *objects
	reasks   *spread
	own      *ownWrites
	keeper   *keeper
	metrics  *metrics
	queue    queue.Holder
}

// NewController returns a Controller. It fails if its metrics are registered already.
func NewController(d Dependencies, o Options) (*Controller, error) {
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, err
	}
	c := &Controller{Dependencies: d, options: o, metrics: m, reasks: newSpread(o.ReasksPerSecond), own: newOwnWrites(), keeper: newKeeper(d.Archive, d.Recorder, m)}
	c.children = newChildren(d.Clock, d.Dynamic, d.Mapper, d.Kinds, c.enqueueAsker)
	c.objects = newObjects(d.Metadata, d.Mapper, c.objectChanged)
	return c, nil
}

// Reconcile looks at one request, or, if the key has no namespace, at the checks of the request with that UID.
func (c *Controller) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	var result ctrl.Result
	var err error
	if key.Namespace == "" {
		result, err = c.reconcileUID(ctx, uidOf(key))
	} else {
		result, err = c.reconcileRequest(ctx, key)
	}
	switch {
	case errors.Is(err, errStale):
		return ctrl.Result{RequeueAfter: retryStale}, nil
	case errors.Is(err, origin.ErrUnobserved):
		ctrl.LoggerFrom(ctx).Info("waiting for a run to be seen", "reason", err.Error())
		return ctrl.Result{RequeueAfter: retryUnobserved}, nil
	}
	return result, err
}

func (c *Controller) reconcileRequest(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	request := &approvalv1alpha1.ResourceCheckRequest{}
	if err := c.Client.Get(ctx, key.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if c.own.lags(request) {
		return ctrl.Result{}, nil
	}
	if err := c.lastWords(ctx, request); err != nil {
		return ctrl.Result{}, err
	}
	if request.Status.Ended != nil {
		return c.reconcileEnded(ctx, request)
	}
	if request.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	return c.reconcileLive(ctx, request)
}

// reconcileLive asks, folds, writes and cancels, in this order.
func (c *Controller) reconcileLive(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest) (ctrl.Result, error) {
	seen, err := c.observe(ctx, request)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := decision.Fold(&seen.FoldInput)
	again := seen.again
	var askErr error
	if len(plan.Ask) > 0 {
		var wait time.Duration
		wait, askErr = c.ask(ctx, seen, &plan)
		again = soonest(again, wait)
		plan = decision.Fold(&seen.FoldInput)
	}
	if err := c.confirm(ctx, request, &plan); err != nil {
		return ctrl.Result{}, err
	}
	if err := c.carryOut(ctx, request, &plan); err != nil {
		return ctrl.Result{}, errors.Join(askErr, err)
	}
	if err := c.recordAskers(ctx, request, seen.equals); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: soonest(again, c.until(plan.Wake))}, askErr
}

// carryOut writes the status and, only if what is stored is what the plan rests on, closes checks.
func (c *Controller) carryOut(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest, plan *decision.Plan) error {
	written, err := c.writeStatus(ctx, request, plan)
	if err != nil || len(plan.Cancel) == 0 {
		return err
	}
	if !written {
		if err := c.confirmCurrent(ctx, request); err != nil {
			return err
		}
	}
	return c.cancel(ctx, plan.Cancel, string(request.UID))
}

// until is how long it is to a moment; 0 if there is none.
func (c *Controller) until(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(c.Clock.Now()), time.Millisecond)
}

// soonest is the shorter of two waits, of which 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
