package request

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/queue"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// uidKey stands for the request with a UID, wherever it is.
func uidKey(uid types.UID) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: string(uid)}}
}

func uidOf(key ctrl.Request) types.UID { return types.UID(key.Name) }

func keyFor(r *approvalv1alpha1.ResourceCheckRequest) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(r)}
}

// Register adds the controller to the manager. Runs must be registered by who makes their cache, with RunChanged.
func (c *Controller) Register(_ context.Context, mgr ctrl.Manager) error {
	namespaces := &metav1.PartialObjectMetadata{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	c.Kinds.OnChange(c.kindChanged)
	return ctrl.NewControllerManagedBy(mgr).
		Named("resourcecheckrequest").
		WithOptions(controller.Options{MaxConcurrentReconciles: c.options.Workers}).
		For(&approvalv1alpha1.ResourceCheckRequest{}).
		Watches(&approvalv1alpha1.ResourceCheckRequest{}, c.equalsHandler()).
		Watches(&approvalv1alpha1.ResourceCheckRule{}, handler.EnqueueRequestsFromMapFunc(c.requestsOfRule)).
		Watches(&connectorsv1alpha1.Connector{}, handler.EnqueueRequestsFromMapFunc(c.requestsOfConnector)).
		Watches(&approvalv1alpha1.ApprovalResponse{}, handler.EnqueueRequestsFromMapFunc(c.requestsOfRevocation)).
		Watches(namespaces, handler.EnqueueRequestsFromMapFunc(c.requestsOfNamespace), builder.OnlyMetadata, builder.WithPredicates(beginsToEnd())).
		WatchesRawSource(source.Func(c.start)).
		Complete(c)
}

// start begins the watches that this controller keeps by itself; they end when the lead is lost.
func (c *Controller) start(ctx context.Context, q queue.Queue) error {
	if err := c.queue.Hold(ctx, q); err != nil {
		return err
	}
	go c.children.run(ctx)
	c.objects.start(ctx)
	return nil
}

// equalsHandler passes what happens to a request on to those of the same fingerprint, which may follow it, and keeps
// the last state of a deleted one for the evidence.
func (c *Controller) equalsHandler() handler.EventHandler {
	enqueueEquals := handler.EnqueueRequestsFromMapFunc(c.equalsOf)
	return handler.Funcs{
		CreateFunc: enqueueEquals.Create,
		UpdateFunc: enqueueEquals.Update,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue.Queue) {
			enqueueEquals.Delete(ctx, e, q)
			if last, ok := e.Object.(*approvalv1alpha1.ResourceCheckRequest); ok {
				c.keeper.remember(last)
				q.Add(uidKey(last.UID))
			}
		},
	}
}

func (c *Controller) equalsOf(ctx context.Context, obj client.Object) []ctrl.Request {
	changed, ok := obj.(*approvalv1alpha1.ResourceCheckRequest)
	if !ok {
		return nil
	}
	return without(c.keysBy(ctx, indexFingerprint, keyOf(changed).String()), keyFor(changed))
}

// without leaves a key out: it is enqueued by its own watch.
func without(keys []ctrl.Request, own ctrl.Request) []ctrl.Request {
	kept := keys[:0]
	for _, key := range keys {
		if key != own {
			kept = append(kept, key)
		}
	}
	return kept
}

func (c *Controller) keysBy(ctx context.Context, index, value string) []ctrl.Request {
	found, err := c.requestsBy(ctx, index, value)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "requests that an event concerns cannot be found", "index", index)
		return nil
	}
	keys := make([]ctrl.Request, 0, len(found))
	for _, r := range found {
		keys = append(keys, keyFor(r))
	}
	return keys
}

func (c *Controller) requestsOfRule(ctx context.Context, obj client.Object) []ctrl.Request {
	for _, key := range ruleObject(obj) {
		return c.keysBy(ctx, indexObject, key)
	}
	return nil
}

func (c *Controller) requestsOfConnector(ctx context.Context, obj client.Object) []ctrl.Request {
	return c.keysBy(ctx, indexObject, nameKey(connectorKind, obj.GetNamespace(), obj.GetName()))
}

// requestsOfRevocation finds the requests that rest on a check which somebody takes back.
func (c *Controller) requestsOfRevocation(ctx context.Context, obj client.Object) []ctrl.Request {
	answer, ok := obj.(*approvalv1alpha1.ApprovalResponse)
	if !ok || answer.Spec.Decision != approvalv1alpha1.DecisionRevoke || answer.Spec.RequestRef.UID == "" {
		return nil
	}
	return c.keysBy(ctx, indexCheck, string(answer.Spec.RequestRef.UID))
}

func (c *Controller) requestsOfNamespace(ctx context.Context, obj client.Object) []ctrl.Request {
	var inside approvalv1alpha1.ResourceCheckRequestList
	if err := c.Client.List(ctx, &inside, client.InNamespace(obj.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "requests of a namespace that is being deleted cannot be listed")
		return nil
	}
	keys := c.keysBy(ctx, indexObjectNamespace, obj.GetName())
	for i := range inside.Items {
		keys = append(keys, keyFor(&inside.Items[i]))
	}
	return keys
}

// beginsToEnd passes namespaces that are being deleted.
func beginsToEnd() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil })
}

// RunChanged is to be called with every change of a run. It is cheap for changes that end nothing.
func (c *Controller) RunChanged(change origin.Change) {
	if change.New != nil && !change.New.Deleting && !change.New.Finished {
		return
	}
	node := change.New
	if node == nil {
		node = change.Old
	}
	if node != nil {
		c.enqueue(indexRun, nameKey(node.GroupVersionKind.GroupKind(), node.Namespace, node.Name))
	}
}

func (c *Controller) objectChanged(gk schema.GroupKind, namespace, name string) {
	c.enqueue(indexObject, nameKey(gk, namespace, name))
}

// kindChanged makes all live requests look again: registrations change rarely.
func (c *Controller) kindChanged(schema.GroupKind) {
	c.children.wake()
	q := c.queue.Get()
	if q == nil {
		return
	}
	ctx := context.Background()
	var list approvalv1alpha1.ResourceCheckRequestList
	if err := c.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.Log.Error(err, "requests that a changed check kind concerns cannot be listed")
		return
	}
	for i := range list.Items {
		if list.Items[i].Status.Ended == nil {
			q.Add(keyFor(&list.Items[i]))
		}
	}
}

// enqueueAsker makes the request with the UID look again. The cache may not have it yet, or not any more.
func (c *Controller) enqueueAsker(uid types.UID) {
	q := c.queue.Get()
	if q == nil {
		return
	}
	if found, err := c.byUID(context.Background(), uid); err == nil && found != nil {
		q.Add(keyFor(found))
		return
	}
	q.Add(uidKey(uid))
}

func (c *Controller) enqueue(index, value string) {
	q := c.queue.Get()
	if q == nil {
		return
	}
	for _, key := range c.keysBy(context.Background(), index, value) {
		q.Add(key)
	}
}
