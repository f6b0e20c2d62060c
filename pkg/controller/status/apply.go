// Package status is the one way in which controllers write a status.
package status

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// FieldOwner owns whatever the controllers write.
const FieldOwner = client.FieldOwner("countersign-controller")

// Apply writes the whole status of obj by server-side apply: status must hold everything that the controllers
// own in it, because what is left out is removed. The object's UID goes along, so a status never lands on
// another object that has taken the name. obj itself is not changed.
func Apply(ctx context.Context, c client.Client, obj client.Object, status any) error {
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("status of %s %s/%s: %w", kind.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(obj.GetNamespace())
	u.SetName(obj.GetName())
	u.SetUID(obj.GetUID())
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), FieldOwner, client.ForceOwnership)
}
