package release

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/controller/late"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
	"github.com/AlaudaDevops/countersign/pkg/controller/queue"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// Indexes of this controller. Their names are its own, because two controllers cannot define the same one. Those of
// Releases hold only Releases that go on.
const (
	indexPlan    = "release.plan"
	indexTarget  = "release.target"
	indexRun     = "release.run"
	indexGoingOn = "release.goingOn"
	indexAsked   = "release.asked"
	// indexRule finds the rules that guard a plan by its name, and indexAdmission admissions by what they let in.
	indexRule      = "release.rule"
	indexAdmission = "release.admission"
)

// kinds are those that are watched, and may be installed later or never.
func kinds() []schema.GroupKind {
	return []schema.GroupKind{
		releasev1alpha1.GroupKindRelease, releasev1alpha1.GroupKindReleasePlan, releasev1alpha1.GroupKindReleasePlanAdmission,
	}
}

// Register lets the controller begin once the Release kinds are installed. Runs must be registered by who makes their
// cache, with RunChanged. It must be called before the guard starts.
func (c *Controller) Register(ctx context.Context, mgr ctrl.Manager) error {
	c.guard.OnChange(c.guardChanged)
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &approvalv1alpha1.ResourceCheckRequest{}, indexAsked, askedFor); err != nil {
		return fmt.Errorf("the index %s cannot be made: %w", indexAsked, err)
	}
	if err := indexer.IndexField(ctx, &approvalv1alpha1.ResourceCheckRule{}, indexRule, guarding); err != nil {
		return fmt.Errorf("the index %s cannot be made: %w", indexRule, err)
	}
	return late.Register(mgr, c.clock, kinds(), func(ctx context.Context) error { return c.begin(ctx, mgr) })
}

func (c *Controller) begin(ctx context.Context, mgr ctrl.Manager) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	c.begun = c.clock.Now()
	return builder.ControllerManagedBy(mgr).Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&releasev1alpha1.Release{}).
		Watches(&releasev1alpha1.Release{}, handler.Funcs{DeleteFunc: c.forget}).
		Watches(&releasev1alpha1.ReleasePlan{}, handler.EnqueueRequestsFromMapFunc(c.releasesOfPlan), builder.WithPredicates(queue.Meant())).
		Watches(&releasev1alpha1.ReleasePlanAdmission{}, handler.EnqueueRequestsFromMapFunc(c.releasesOfAdmission), builder.WithPredicates(queue.Meant())).
		Watches(&approvalv1alpha1.ResourceCheckRule{}, handler.EnqueueRequestsFromMapFunc(c.releasesOfRule)).
		Watches(&approvalv1alpha1.ResourceCheckRequest{}, handler.EnqueueRequestsFromMapFunc(c.releaseOfRequest)).
		Watches(&approvalv1alpha1.AttributionCheck{}, handler.EnqueueRequestsFromMapFunc(c.releaseOfCheck)).
		Watches(definition.New(), handler.EnqueueRequestsFromMapFunc(c.releasesOfCRD), builder.OnlyMetadata).
		WatchesRawSource(source.Func(c.queue.Hold)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
}

func index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &releasev1alpha1.ReleasePlanAdmission{}, indexAdmission, pairing.Keys); err != nil {
		return fmt.Errorf("the index %s cannot be made: %w", indexAdmission, err)
	}
	for name, extract := range map[string]func(*releasev1alpha1.Release) string{
		indexPlan:    func(r *releasev1alpha1.Release) string { return r.Namespace + "/" + r.Spec.ReleasePlan },
		indexTarget:  func(r *releasev1alpha1.Release) string { return r.Status.Target },
		indexRun:     runOf,
		indexGoingOn: func(*releasev1alpha1.Release) string { return "true" },
	} {
		if err := indexer.IndexField(ctx, &releasev1alpha1.Release{}, name, ofRelease(extract)); err != nil {
			return fmt.Errorf("the index %s cannot be made: %w", name, err)
		}
	}
	return nil
}

// ofRelease is an index function that leaves out what came to its end.
func ofRelease(extract func(*releasev1alpha1.Release) string) client.IndexerFunc {
	return func(obj client.Object) []string {
		r, ok := obj.(*releasev1alpha1.Release)
		if !ok || finished(&r.Status) {
			return nil
		}
		return []string{extract(r)}
	}
}

func runOf(r *releasev1alpha1.Release) string {
	if r.Status.ManagedProcessing == nil {
		return ""
	}
	return r.Status.ManagedProcessing.PipelineRun
}

// askedFor finds requests by the UID of the Release that they were made for.
func askedFor(obj client.Object) []string {
	r, ok := obj.(*approvalv1alpha1.ResourceCheckRequest)
	if !ok || r.Spec.Context.Resource == nil || r.Spec.Context.Resource.GroupKind() != releasev1alpha1.GroupKindRelease {
		return nil
	}
	return []string{string(r.Spec.Context.Resource.UID)}
}

// guarding finds rules by the name of the plan that they guard.
func guarding(obj client.Object) []string {
	rule, ok := obj.(*approvalv1alpha1.ResourceCheckRule)
	if !ok || !guards(rule, rule.Spec.ObjectRef.Name) {
		return nil
	}
	return []string{rule.Spec.ObjectRef.Name}
}

// requestOf is the name of the request that this controller made for the Release, as far as the cache has it: the one that
// goes on, or else the newest.
func (c *Controller) requestOf(ctx context.Context, release *releasev1alpha1.Release) (string, error) {
	var list approvalv1alpha1.ResourceCheckRequestList
	err := c.client.List(ctx, &list, client.InNamespace(release.Namespace), client.MatchingFields{indexAsked: string(release.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", fmt.Errorf("requests cannot be listed: %w", err)
	}
	var newest *approvalv1alpha1.ResourceCheckRequest
	for i := range list.Items {
		r := &list.Items[i]
		if !ownRequest(r, c.options.Username, release.UID) {
			continue
		}
		if _, _, ended := decision.Ended(r, c.clock.Now()); !ended {
			return r.Name, nil
		}
		if newest == nil || newest.CreationTimestamp.Before(&r.CreationTimestamp) {
			newest = r
		}
	}
	if newest == nil {
		return "", nil
	}
	return newest.Name, nil
}

func (c *Controller) releasesBy(ctx context.Context, index, value string) []reconcile.Request {
	var list releasev1alpha1.ReleaseList
	if err := c.client.List(ctx, &list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Releases that an event concerns cannot be found", "index", index)
		return nil
	}
	found := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return found
}

func (c *Controller) releasesOfPlan(ctx context.Context, obj client.Object) []reconcile.Request {
	return c.releasesBy(ctx, indexPlan, obj.GetNamespace()+"/"+obj.GetName())
}

func (c *Controller) releasesOfAdmission(ctx context.Context, obj client.Object) []reconcile.Request {
	return c.releasesBy(ctx, indexTarget, obj.GetNamespace())
}

func (c *Controller) releasesOfRule(ctx context.Context, obj client.Object) []reconcile.Request {
	rule, ok := obj.(*approvalv1alpha1.ResourceCheckRule)
	if !ok || !guards(rule, rule.Spec.ObjectRef.Name) {
		return nil
	}
	return c.releasesBy(ctx, indexPlan, rule.Namespace+"/"+rule.Spec.ObjectRef.Name)
}

func (c *Controller) releaseOfRequest(_ context.Context, obj client.Object) []reconcile.Request {
	request, ok := obj.(*approvalv1alpha1.ResourceCheckRequest)
	if !ok || request.Spec.Context.Resource == nil || request.Spec.Context.Resource.GroupKind() != releasev1alpha1.GroupKindRelease {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.Context.Resource.Name}}}
}

// releaseOfCheck is the Release that a check was made for. What it waits for shows in the check sooner than in the request.
func (c *Controller) releaseOfCheck(ctx context.Context, obj client.Object) []reconcile.Request {
	check, ok := obj.(*approvalv1alpha1.AttributionCheck)
	if !ok || check.Spec.Request == nil {
		return nil
	}
	ref, request := check.Spec.Request.Ref, &approvalv1alpha1.ResourceCheckRequest{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, request); err != nil {
		return nil
	}
	return c.releaseOfRequest(ctx, request)
}

func (c *Controller) releasesOfCRD(ctx context.Context, obj client.Object) []reconcile.Request {
	if obj.GetName() != releasev1alpha1.DefinitionReleases {
		return nil
	}
	return c.releasesBy(ctx, indexGoingOn, "true")
}

func (c *Controller) forget(_ context.Context, e event.DeleteEvent, _ queue.Queue) {
	c.told.Forget(e.Object.GetUID())
}

// guardChanged looks at every Release that goes on: policies change rarely.
func (c *Controller) guardChanged() {
	if q := c.queue.Get(); q != nil {
		for _, release := range c.releasesBy(context.Background(), indexGoingOn, "true") {
			q.Add(release)
		}
	}
}

// RunChanged is to be called with every change of a run. It does nothing while this replica does not lead, and little for
// changes that no Release reflects.
func (c *Controller) RunChanged(change origin.Change) {
	node := change.New
	if node == nil {
		node = change.Old
	}
	q := c.queue.Get()
	if node == nil || q == nil || node.GroupKind() != runKind.GroupKind() || !worthALook(change) {
		return
	}
	for _, release := range c.releasesBy(context.Background(), indexRun, node.Namespace+"/"+node.Name) {
		q.Add(release)
	}
}

func worthALook(change origin.Change) bool {
	return change.Old == nil || change.New == nil || change.Old.UID != change.New.UID || change.Old.Finished != change.New.Finished
}
