package attribution

import (
	"context"
	"encoding/json"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/identity"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// indexContext finds the AttributionChecks that wait by the run or Release that they are about.
const indexContext = "countersign.attribution.context"

// indexIdentity finds Connectors by the user as whom they act.
const indexIdentity = "countersign.attribution.connectorIdentity"

// SetupIndexes makes the indexes that the controller's client needs.
func SetupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &approvalv1alpha1.AttributionCheck{}, indexContext, ContextKeys); err != nil {
		return fmt.Errorf("the index %s cannot be made: %w", indexContext, err)
	}
	if err := indexer.IndexField(ctx, &connectorsv1alpha1.Connector{}, indexIdentity, identity.Keys); err != nil {
		return fmt.Errorf("the index %s cannot be made: %w", indexIdentity, err)
	}
	return nil
}

// ContextKeys is the index function of AttributionChecks. The run is taken from the annotation, which serves here to find
// the check and nothing else.
func ContextKeys(object client.Object) []string {
	check, ok := object.(*approvalv1alpha1.AttributionCheck)
	if !ok || isOver(check) {
		return nil
	}
	var about approvalv1alpha1.CheckContext
	if json.Unmarshal([]byte(check.Annotations[approvalv1alpha1.AnnotationContext]), &about) != nil || about.Resource == nil {
		return nil
	}
	return []string{about.Resource.GroupKind().String() + "/" + about.Resource.Namespace + "/" + about.Resource.Name}
}

// RunChanged is to be called with every change of a run: checks that wait look again. It does nothing while this replica
// does not lead.
func (c *Controller) RunChanged(change origin.Change) {
	node, q := change.New, c.queue.Get()
	if node == nil || q == nil {
		return
	}
	ctx := context.Background()
	key := node.GroupKind().String() + "/" + node.Namespace + "/" + node.Name
	var list approvalv1alpha1.AttributionCheckList
	if err := c.Client.List(ctx, &list, client.MatchingFields{indexContext: key}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "attribution checks of a changed run cannot be listed")
		return
	}
	for i := range list.Items {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
}
