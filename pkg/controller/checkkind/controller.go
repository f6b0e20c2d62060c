// Package checkkind says whether checks of the registered kinds can be made and relied on.
package checkkind

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
)

// How often a kind is looked at again: changes of our own rights are not announced, and discovery lags behind a CRD.
const (
	recheckReady    = 5 * time.Minute
	recheckNotReady = 5 * time.Second
	// retryUnknown is for policies that have not been read yet; being read is announced too.
	retryUnknown = time.Second
)

// Guard tells whether the admission policies that guard the status of checks are in force.
type Guard interface {
	Guarded() (ok bool, why string)
	// HasSynced is false while Guarded does not know yet; OnChange tells when it does.
	HasSynced() bool
	// OnChange is called before the guard starts.
	OnChange(func())
}

// Discovery tells which kinds the API server serves now. A cached discovery must not stand behind it.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Controller reconciles CheckKinds.
type Controller struct {
	clock     clock.PassiveClock
	client    client.Client
	discovery Discovery
	guard     Guard
	recorder  events.EventRecorder
	unguarded chan event.TypedGenericEvent[client.Object]
}

// NewController returns a Controller. The client must be able to create SelfSubjectAccessReviews.
func NewController(clock clock.PassiveClock, c client.Client, discovery Discovery, guard Guard, recorder events.EventRecorder) *Controller {
	return &Controller{
		clock: clock, client: c, discovery: discovery, guard: guard, recorder: recorder,
		unguarded: make(chan event.TypedGenericEvent[client.Object], 1),
	}
}

// Register adds the controller to the manager, and feeds the registry from the manager's cache in every replica.
func (c *Controller) Register(ctx context.Context, mgr ctrl.Manager, registry *checks.Registry) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &approvalv1alpha1.CheckKind{})
	if err != nil {
		return fmt.Errorf("the CheckKinds cannot be watched: %w", err)
	}
	if _, err := informer.AddEventHandler(registry.Handler()); err != nil {
		return fmt.Errorf("the CheckKinds cannot be watched: %w", err)
	}
	c.guard.OnChange(c.guardChanged)
	crds := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("checkkind").
		For(&approvalv1alpha1.CheckKind{}).
		Watches(crds, handler.EnqueueRequestsFromMapFunc(c.kindsOfGroup), builder.OnlyMetadata).
		WatchesRawSource(source.Channel(c.unguarded, handler.EnqueueRequestsFromMapFunc(c.allKinds))).
		Complete(c)
}

// guardChanged does not block: one waiting event is as good as many.
func (c *Controller) guardChanged() {
	select {
	case c.unguarded <- event.TypedGenericEvent[client.Object]{Object: &approvalv1alpha1.CheckKind{}}:
	default:
	}
}

// kindsOfGroup finds the CheckKinds that a CRD may serve: CRDs are named <plural>.<group>, CheckKinds <kind>.<group>.
func (c *Controller) kindsOfGroup(ctx context.Context, crd client.Object) []ctrl.Request {
	_, group, _ := strings.Cut(crd.GetName(), ".")
	return c.kinds(ctx, func(name string) bool { return strings.HasSuffix(name, "."+group) })
}

func (c *Controller) allKinds(ctx context.Context, _ client.Object) []ctrl.Request {
	return c.kinds(ctx, func(string) bool { return true })
}

func (c *Controller) kinds(ctx context.Context, wanted func(name string) bool) []ctrl.Request {
	var list approvalv1alpha1.CheckKindList
	if err := c.client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "check kinds cannot be listed")
		return nil
	}
	var requests []ctrl.Request
	for i := range list.Items {
		if wanted(list.Items[i].Name) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile brings the status of one CheckKind up to date.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var kind approvalv1alpha1.CheckKind
	if err := c.client.Get(ctx, req.NamespacedName, &kind); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !c.guard.HasSynced() {
		// A kind that was ready before this process began must not close anything because of that.
		return ctrl.Result{RequeueAfter: retryUnknown}, nil
	}
	found, err := c.inspect(ctx, &kind)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: found.recheck()}, c.writeStatus(ctx, &kind, found)
}

func (c *Controller) writeStatus(ctx context.Context, kind *approvalv1alpha1.CheckKind, found finding) error {
	next := c.nextStatus(kind, found)
	if equality.Semantic.DeepEqual(kind.Status, next) {
		return nil
	}
	written, err := status.TryApply(ctx, c.client, kind, &next)
	if written {
		c.announce(kind, found)
	}
	return err
}
