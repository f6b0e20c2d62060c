package request

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
)

var connectorKind = connectorsv1alpha1.GroupVersion.WithKind("Connector").GroupKind()

// objects watches the metadata of protected objects that are no connectors. The watch of a kind begins when a request
// first names it, and ends with the lead.
type objects struct {
	client  metadata.Interface
	mapper  apimeta.RESTMapper
	changed func(gk schema.GroupKind, namespace, name string)

	mu      sync.Mutex
	ctx     context.Context
	watches map[schema.GroupVersionResource]toolscache.SharedIndexInformer
}

func newObjects(client metadata.Interface, mapper apimeta.RESTMapper, changed func(schema.GroupKind, string, string)) *objects {
	return &objects{client: client, mapper: mapper, changed: changed, ctx: stopped()}
}

// stopped is the context of watches before the lead is won.
func stopped() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (o *objects) start(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ctx, o.watches = ctx, map[schema.GroupVersionResource]toolscache.SharedIndexInformer{}
}

// get reads the metadata of an object; watched tells that a change will be noticed. Only an object of the wanted UID is
// taken from the watch: anything else is asked of the API server, because a watch may lag behind.
func (o *objects) get(ctx context.Context, ref *approvalv1alpha1.ObjectReference, namespace string) (found metav1.Object, watched bool, err error) {
	gk := ref.GroupKind()
	mapping, err := o.mapper.RESTMapping(gk)
	if err != nil {
		return nil, false, fmt.Errorf("its kind cannot be looked up: %w", err)
	}
	informer := o.watch(gk, mapping.Resource)
	watched = informer != nil && informer.HasSynced()
	if watched {
		obj, ok, _ := informer.GetStore().GetByKey(namespace + "/" + ref.Name)
		if m, isObject := obj.(metav1.Object); ok && isObject && m.GetUID() == ref.UID {
			return m, true, nil
		}
	}
	live, err := o.client.Resource(mapping.Resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, watched, err
	}
	return live, watched, nil
}

func (o *objects) watch(gk schema.GroupKind, resource schema.GroupVersionResource) toolscache.SharedIndexInformer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ctx.Err() != nil {
		return nil
	}
	if informer := o.watches[resource]; informer != nil {
		return informer
	}
	informer := metadatainformer.NewFilteredMetadataInformer(o.client, resource, metav1.NamespaceAll, 0, toolscache.Indexers{}, nil).Informer()
	notify := func(obj any) { o.notify(gk, obj) }
	// The handler of an informer that has not started cannot be refused.
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, obj any) { notify(obj) }, DeleteFunc: notify,
	})
	_ = informer.SetTransform(dropManagedFields)
	o.watches[resource] = informer
	go informer.RunWithContext(o.ctx)
	return informer
}

func (o *objects) notify(gk schema.GroupKind, obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if m, err := apimeta.Accessor(obj); err == nil {
		o.changed(gk, m.GetNamespace(), m.GetName())
	}
}

// observeObject looks at the protected object. Before an object is taken for gone, the API server is asked.
func (c *Controller) observeObject(ctx context.Context, s *observation) error {
	ref := &s.Request.Spec.ObjectRef
	switch {
	case s.Request.Spec.Context.Subject == nil:
		s.Object = decision.FoldObject{Problem: "the request names no subject, so it did not pass admission; delete it and ask again"}
		return nil
	case ref.GroupKind() == connectorKind:
		return c.observeConnector(ctx, s)
	}
	found, watched, err := c.objects.get(ctx, ref, objectNamespace(s.Request))
	if !watched {
		s.wait(retryUnwatched)
	}
	return s.setObject(found, err)
}

func (c *Controller) observeConnector(ctx context.Context, s *observation) error {
	ref := &s.Request.Spec.ObjectRef
	key := types.NamespacedName{Namespace: objectNamespace(s.Request), Name: ref.Name}
	connector := &connectorsv1alpha1.Connector{}
	err := c.Client.Get(ctx, key, connector)
	if client.IgnoreNotFound(err) == nil && (err != nil || connector.UID != ref.UID) {
		connector = &connectorsv1alpha1.Connector{}
		err = c.Live.Get(ctx, key, connector)
	}
	s.RequireChecks = connector.Spec.RequireChecks
	return s.setObject(connector, err)
}

// setObject notes what was found. What keeps the controller from looking, other than an API server that is busy or
// away, is somebody's to repair and is shown.
func (s *observation) setObject(found metav1.Object, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		s.Object = decision.FoldObject{Gone: true}
	case apimeta.IsNoMatchError(err), apierrors.IsForbidden(err):
		s.Object = decision.FoldObject{Problem: err.Error()}
		s.wait(retryProblem)
	case err != nil:
		return fmt.Errorf("the protected object cannot be read: %w", err)
	case found.GetUID() != s.Request.Spec.ObjectRef.UID:
		s.Object = decision.FoldObject{Gone: true}
	default:
		s.Object = decision.FoldObject{UID: found.GetUID(), Generation: found.GetGeneration()}
	}
	return nil
}
