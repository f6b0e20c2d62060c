// Package release reconciles Releases: who answers for one, is that a person whom the directory knows, does everything
// that guards its plan allow it, and then the pipeline run that carries it out.
//
// What a Release's next step is follows from compute, which is pure; this package observes what that needs and does what
// the step says. A step that cannot be taken back, a failure or the start of a run, is computed again from what the API
// server says before it is done, because a cache may lag behind.
//
// The source is the ADR "Release Objects Attribution Tracking and Propagation".
package release

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
	"github.com/AlaudaDevops/countersign/pkg/controller/queue"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
)

// name of the controller in logs, metrics and events.
const name = "release"

// workers is how many Releases are looked at at once: each mostly waits for the API server.
const workers = 8

// stepTimeout bounds one step of one Release, so that an API server that hangs does not keep the workers.
const stepTimeout = 30 * time.Second

// Guard says whether the admission policies that everything rests on are in force.
type Guard interface {
	Guarded() (ok bool, why string)
	// OnChange is called before the guard starts.
	OnChange(func())
}

// Dependencies are what the controller works with.
type Dependencies struct {
	Clock clock.WithTicker
	// Client reads from the manager's cache.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Mapper apimeta.RESTMapper
	Guard  Guard
	// Since is the moment from which on creator records are believed; zero means that none is.
	Since    func() time.Time
	Recorder events.EventRecorder
}

// Options are what the operator may set.
type Options struct {
	// Username is the user name of this controller, by which it knows what it made.
	Username   string
	Vocabulary attribution.Vocabulary
}

// Controller reconciles Releases. It must be the only writer of their status.
type Controller struct {
	clock    clock.WithTicker
	client   client.Client
	live     client.Reader
	mapper   apimeta.RESTMapper
	guard    Guard
	since    func() time.Time
	recorder events.EventRecorder
	options  Options
	queue    queue.Holder
	told     announce.Told
	// begun is since when this replica leads.
	begun time.Time
}

// New returns a Controller.
func New(d Dependencies, o Options) *Controller {
	return &Controller{
		clock: d.Clock, client: d.Client, live: d.Live, mapper: d.Mapper, guard: d.Guard, since: d.Since, recorder: d.Recorder, options: o,
	}
}

// Reconcile takes the next step of a Release.
func (c *Controller) Reconcile(ctx context.Context, release *releasev1alpha1.Release) (ctrl.Result, error) {
	if release.DeletionTimestamp != nil || finished(&release.Status) {
		c.told.Forget(release.UID)
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	request, err := c.requestOf(ctx, release)
	if err != nil {
		return ctrl.Result{}, err
	}
	f, err := c.fromCache().observe(ctx, release, request)
	if err != nil {
		return ctrl.Result{}, err
	}
	if f.foreign {
		return c.advise(ctx, f)
	}
	s := compute(f)
	if s.decisive(&release.Status) {
		var current bool
		if f, s, current, err = c.confirm(ctx, release, request); err != nil || !current {
			return ctrl.Result{}, err
		}
	}
	return c.do(ctx, f, s)
}

// confirm computes the step again from what the API server says. Unless the Release is what it was, its watch will tell.
func (c *Controller) confirm(ctx context.Context, seen *releasev1alpha1.Release, request string) (*facts, *step, bool, error) {
	release := &releasev1alpha1.Release{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(seen), release); err != nil {
		return nil, nil, false, client.IgnoreNotFound(err)
	}
	if release.UID != seen.UID || release.ResourceVersion != seen.ResourceVersion {
		return nil, nil, false, nil
	}
	f, err := c.fromServer().observe(ctx, release, request)
	if err != nil {
		return nil, nil, false, err
	}
	return f, compute(f), true, nil
}

// do carries a step out: whatever the status then speaks of is done before the status is written, but for the run, which
// the status names first, so that a run always has a Release that stands by it.
func (c *Controller) do(ctx context.Context, f *facts, s *step) (ctrl.Result, error) {
	if s.copyAuthor != "" {
		if err := c.copyAuthor(ctx, f, s.copyAuthor); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := c.prepare(ctx, f, s); err != nil {
		return ctrl.Result{}, err
	}
	current, err := c.write(ctx, f, s)
	if err != nil || !current || s.start == nil {
		return ctrl.Result{RequeueAfter: s.again}, err
	}
	return c.start(ctx, f, s)
}

// prepare makes what the step asks with.
func (c *Controller) prepare(ctx context.Context, f *facts, s *step) error {
	if s.ensureRule {
		if err := c.ensureRule(ctx, f, s); err != nil {
			return err
		}
	}
	if s.ask {
		return c.ask(ctx, f, s)
	}
	return nil
}

// write stores the status if it changed, and tells of it. It is not current if a newer Release is stored.
func (c *Controller) write(ctx context.Context, f *facts, s *step) (current bool, err error) {
	if equality.Semantic.DeepEqual(&f.release.Status, &s.status) {
		return true, nil
	}
	version, err := status.Replace(ctx, c.client, f.release, &s.status)
	if err != nil {
		return false, fmt.Errorf("the status of Release %s/%s cannot be written: %w", f.release.Namespace, f.release.Name, err)
	}
	if version == "" {
		return false, nil
	}
	c.announce(f, &s.status)
	f.release.ResourceVersion, f.release.Status = version, *s.status.DeepCopy()
	return true, nil
}
