package request

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// recordAsker makes whoever asks what is asked already known on the request that asks, because nobody who asked may
// approve. A request that nobody else asks needs no record: its requestedBy says it.
//
// Each asker is applied under a field owner of its own, so that records made at the same time all survive.
func (w *Webhook) recordAsker(ctx context.Context, c *completed, dryRun bool) error {
	leader, asker := c.history.leader(w.Clock.Now()), c.request.Spec.RequestedBy.Username
	if leader == nil || dryRun || slices.Contains(leader.Status.Askers, asker) {
		return nil
	}
	if by := leader.Spec.RequestedBy; by != nil && by.Username == asker {
		return nil
	}
	record := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"askers": []any{asker}}}}
	record.SetGroupVersionKind(approvalv1alpha1.GroupVersion.WithKind("ResourceCheckRequest"))
	record.SetNamespace(leader.Namespace)
	record.SetName(leader.Name)
	record.SetUID(leader.UID)
	err := w.Status.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(record), client.FieldOwner(fieldOwner(asker)))
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return admit.Conflict("the request that asked the same ended just now: ask again")
	case apierrors.IsInvalid(err):
		return admit.Forbidden(fmt.Sprintf("%s/%s asks the same already, and too many others have asked for it: wait for its answer", leader.Namespace, leader.Name))
	case err != nil:
		return admit.Unavailable("it cannot be recorded now that you ask too: try again in a moment", err)
	}
	return nil
}

// fieldOwner is one for each user, whatever the name: field owners are printable and at most 128 characters.
func fieldOwner(user string) string {
	sum := sha256.Sum256([]byte(user))
	return "countersign-asker-" + hex.EncodeToString(sum[:])
}
