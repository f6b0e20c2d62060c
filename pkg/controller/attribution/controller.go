// Package attribution answers AttributionChecks: who is accountable for what a request is about, and is that a person whom
// the directory of people knows.
//
// Who is accountable follows from what admission recorded, by attribution.Behind. Only the person whom it names is looked
// up; a name that is never a person's is refused before any directory is asked. While something cannot be seen, or the
// directory does not answer, the check waits: that is neither a yes nor a no. An answer is final.
package attribution

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/controller/queue"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// name of the controller in logs, metrics and events.
const name = "attribution"

const (
	// workers is how many checks are looked at at once: each may wait for a slow directory.
	workers = 16
	// answerTimeout bounds one look at one check; the directory's own time-outs are shorter.
	answerTimeout = 30 * time.Second
)

// People is the directory. errors.Is(err, directory.ErrUnknown) is its no; any other error is neither yes nor no.
type People interface {
	Lookup(ctx context.Context, username string) (directory.Answer, error)
}

// Guard says whether the admission policies that records rest on are in force, and of which kinds they keep records.
type Guard interface {
	Guarded() (ok bool, why string)
	Records(resource schema.GroupResource) bool
}

// Watched answers from watches.
type Watched interface {
	origin.Source
	origin.Finder
}

// Climber climbs from a run to the topmost one that it belongs to.
type Climber interface {
	ClimbFrom(ctx context.Context, node *origin.Node) (*origin.Climb, error)
}

// Dependencies are what the controller works with.
type Dependencies struct {
	Clock clock.PassiveClock
	// Client reads from the manager's cache, with the indexes of SetupIndexes.
	Client client.Client
	// Live reads from the API server what a cache must not have wrong: plans, and whose the kind Release is.
	Live   client.Reader
	Mapper apimeta.RESTMapper
	// Origins reads runs and other resources from the API server, Watched from watches; Climber climbs over Origins.
	Origins origin.Source
	Watched Watched
	Climber Climber
	// Since is the moment from which on creator records are believed; zero means that none is.
	Since  func() time.Time
	Guard  Guard
	People People
	// Vocabulary has the label by which plans name admissions.
	Vocabulary attribution.Vocabulary
	Recorder   events.EventRecorder
}

// Controller keeps the status of AttributionChecks. It must be the only writer of it, but for the request controller,
// which cancels the checks of requests that ended.
type Controller struct {
	Dependencies
	username string
	queue    queue.Holder
}

// New returns a Controller. The username is its own, by which it knows the runs that it made for Releases.
func New(d Dependencies, username string) *Controller {
	return &Controller{Dependencies: d, username: username}
}

// Register sets the controller up with the manager, with the indexes that it needs. Runs must be registered by who
// makes their cache, with RunChanged. What the controller writes itself brings it back only when it said so.
func (c *Controller) Register(ctx context.Context, mgr ctrl.Manager) error {
	if err := SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	// Definitions are read from the cache whatever else watches them.
	if _, err := mgr.GetCache().GetInformer(ctx, definition.New()); err != nil {
		return fmt.Errorf("whose the Release kinds are cannot be watched: %w", err)
	}
	return builder.ControllerManagedBy(mgr).Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&approvalv1alpha1.AttributionCheck{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(c.queue.Hold)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
}

// Reconcile answers the check, writes its status if it changed, and comes back while it waits.
func (c *Controller) Reconcile(ctx context.Context, check *approvalv1alpha1.AttributionCheck) (ctrl.Result, error) {
	if check.DeletionTimestamp != nil || isOver(check) {
		return ctrl.Result{}, nil
	}
	asking, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	now := c.Clock.Now().UTC().Truncate(time.Second)
	found, err := c.answer(asking, check, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	return c.write(ctx, check, compute(check, &found, now), found.again)
}

func (c *Controller) write(ctx context.Context, check *approvalv1alpha1.AttributionCheck, next *approvalv1alpha1.AttributionCheckStatus, again time.Duration) (ctrl.Result, error) {
	return status.Keep(ctx, c.Client, check, &check.Status, next, again, func() { c.tell(check, next) })
}
