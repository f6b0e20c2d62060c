package script

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// indexInput finds ScriptChecks by the objects that their expressions may see.
const indexInput = "countersign.input"

// SetupIndexes makes the indexes that the controller's client needs.
func SetupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &approvalv1alpha1.ScriptCheck{}, indexInput, InputKeys)
}

// InputKeys is the index function of ScriptChecks. The run is taken from the annotation, which serves here to find the
// check and nothing else.
func InputKeys(object client.Object) []string {
	check, ok := object.(*approvalv1alpha1.ScriptCheck)
	if !ok || check.Spec.Request == nil {
		return nil
	}
	keys := []string{keyOf(&check.Spec.Request.Object)}
	var about approvalv1alpha1.CheckContext
	text := check.Annotations[approvalv1alpha1.AnnotationContext]
	if json.Unmarshal([]byte(text), &about) == nil && about.Resource != nil {
		keys = append(keys, keyOf(about.Resource))
	}
	return keys
}

func keyOf(ref *approvalv1alpha1.ObjectReference) string {
	return inputKey(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), ref.Namespace, ref.Name)
}

func inputKey(gk schema.GroupKind, namespace, name string) string {
	return gk.String() + "/" + namespace + "/" + name
}

// checksOf lists the checks that may see an object and are not over.
func (c *Controller) checksOf(ctx context.Context, key string) []reconcile.Request {
	var list approvalv1alpha1.ScriptCheckList
	if err := c.client.List(ctx, &list, client.MatchingFields{indexInput: key}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "script checks of a changed input cannot be listed")
		return nil
	}
	var found []reconcile.Request
	for i := range list.Items {
		if !isOver(&list.Items[i]) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return found
}

func (c *Controller) checksOfConnector(ctx context.Context, object client.Object) []reconcile.Request {
	gk := connectorsv1alpha1.GroupVersion.WithKind(connectorsv1alpha1.KindConnector).GroupKind()
	return c.checksOf(ctx, inputKey(gk, object.GetNamespace(), object.GetName()))
}

// RunChanged is to be called with every change of a run. It does nothing while this replica does not lead.
func (c *Controller) RunChanged(change origin.Change) {
	node := change.New
	if node == nil {
		node = change.Old
	}
	q := c.queue.Get()
	if node == nil || q == nil {
		return
	}
	for _, check := range c.checksOf(context.Background(), inputKey(node.GroupVersionKind.GroupKind(), node.Namespace, node.Name)) {
		q.Add(check)
	}
}
