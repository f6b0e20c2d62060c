package request

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// IndexObject finds requests by the object that they ask for.
const IndexObject = "admission.spec.objectRef"

// SetupIndex adds the index that the webhook reads.
func SetupIndex(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &approvalv1alpha1.ResourceCheckRequest{}, IndexObject, func(o client.Object) []string {
		req, ok := o.(*approvalv1alpha1.ResourceCheckRequest)
		if !ok {
			return nil
		}
		return []string{objectKey(&req.Spec.ObjectRef)}
	})
}

func objectKey(ref *approvalv1alpha1.ObjectReference) string {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	return strings.Join([]string{kind.Group, kind.Kind, ref.Namespace, ref.Name}, "/")
}
