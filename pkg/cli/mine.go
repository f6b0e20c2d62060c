package cli

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// mine tells whether a request concerns the user: as its subject, as who asked, or as the creator of its run. The
// annotation of the creator is believed only for what is shown; the server looks for itself.
func (c *cluster) mine(ctx context.Context, req *approvalv1alpha1.ResourceCheckRequest, user string) bool {
	if by := req.Spec.RequestedBy; by != nil && by.Username == user {
		return true
	}
	if subjectUser(req.Spec.Context.Subject) == user {
		return true
	}
	for _, asker := range req.Status.Askers {
		if asker == user {
			return true
		}
	}
	return c.runCreator(ctx, req.Spec.Context.Resource) == user
}

// runCreator is empty where the run cannot be read.
func (c *cluster) runCreator(ctx context.Context, run *approvalv1alpha1.ObjectReference) string {
	if run == nil {
		return ""
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(run.APIVersion, run.Kind))
	if err := c.Get(ctx, keyOf(run.Namespace, run.Name), object); err != nil || object.UID != run.UID {
		return ""
	}
	return object.Annotations[approvalv1alpha1.AnnotationCreatedBy]
}
