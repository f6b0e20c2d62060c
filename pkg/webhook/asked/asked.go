// Package asked finds the requests for an object in the cache.
package asked

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// IndexObject is the index of requests by the object that they ask for.
const IndexObject = "admission.spec.objectRef"

// SetupIndex adds the index.
func SetupIndex(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &approvalv1alpha1.ResourceCheckRequest{}, IndexObject, ByObject)
}

// ByObject is the index function.
func ByObject(o client.Object) []string {
	req, ok := o.(*approvalv1alpha1.ResourceCheckRequest)
	if !ok {
		return nil
	}
	return []string{Key(&req.Spec.ObjectRef)}
}

// Key is what the index knows an object by: group, kind, namespace and name.
func Key(ref *approvalv1alpha1.ObjectReference) string {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	return strings.Join([]string{kind.Group, kind.Kind, ref.Namespace, ref.Name}, "/")
}

// For lists the requests for an object in all namespaces, as the cache has them.
func For(ctx context.Context, cache client.Reader, ref *approvalv1alpha1.ObjectReference) ([]approvalv1alpha1.ResourceCheckRequest, error) {
	var list approvalv1alpha1.ResourceCheckRequestList
	err := cache.List(ctx, &list, client.MatchingFields{IndexObject: Key(ref)})
	return list.Items, err
}
