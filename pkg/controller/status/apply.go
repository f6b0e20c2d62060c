// Package status is the one way in which controllers write a status.
package status

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// FieldOwner owns whatever the controllers write.
const FieldOwner = client.FieldOwner("countersign-controller")

// Apply writes the whole status of obj by server-side apply: status must hold everything that the controllers
// own in it, because what is left out is removed. The object's UID goes along, so a status never lands on
// another object that has taken the name. status is a pointer; obj itself is not changed.
func Apply(ctx context.Context, c client.Client, obj client.Object, status any) error {
	u, err := configuration(c, obj, status)
	if err != nil {
		return err
	}
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), FieldOwner, client.ForceOwnership)
}

// ApplyIfCurrent is Apply for a status that must not overwrite a newer one: it writes only if obj is still the stored
// version. If it is not, nothing is written and the error is nil, because the watch that brings the newer version makes
// the controller look again.
func ApplyIfCurrent(ctx context.Context, c client.Client, obj client.Object, status any) error {
	_, err := TryApply(ctx, c, obj, status)
	return err
}

// TryApply is ApplyIfCurrent for who must know whether it wrote, because more is to be done only then.
func TryApply(ctx context.Context, c client.Client, obj client.Object, status any) (written bool, err error) {
	version, err := Replace(ctx, c, obj, status)
	return version != "", err
}

// RetryStale is for a cache that lags behind what was written.
const RetryStale = time.Second

// Keep writes next by TryApply unless it is what the object has already, and then lets tell say so. Both are pointers to
// statuses of one type. The result comes back after again, or soon where the object is no longer the stored version.
func Keep(ctx context.Context, c client.Client, obj client.Object, has, next any, again time.Duration, tell func()) (ctrl.Result, error) {
	if equality.Semantic.DeepEqual(has, next) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	written, err := TryApply(ctx, c, obj, next)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case !written:
		return ctrl.Result{RequeueAfter: RetryStale}, nil
	}
	tell()
	return ctrl.Result{RequeueAfter: again}, nil
}

// Replace is ApplyIfCurrent that returns the resourceVersion it wrote, for who must not look at the object again before
// the cache has caught up; it is empty if nothing was written.
func Replace(ctx context.Context, c client.Client, obj client.Object, status any) (version string, err error) {
	u, err := configuration(c, obj, status)
	if err != nil {
		return "", err
	}
	u.SetResourceVersion(obj.GetResourceVersion())
	err = c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), FieldOwner, client.ForceOwnership)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// The client has put the answer in place of what was sent.
	return u.GetResourceVersion(), nil
}

func configuration(c client.Client, obj client.Object, status any) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil, fmt.Errorf("status of %s %s/%s: %w", kind.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": withoutNulls(content)}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(obj.GetNamespace())
	u.SetName(obj.GetName())
	u.SetUID(obj.GetUID())
	return u, nil
}

// withoutNulls drops the nulls that zero times are written as: a schema refuses a null where it allows absence.
func withoutNulls(fields map[string]any) map[string]any {
	for name, value := range fields {
		switch at := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			withoutNulls(at)
		case []any:
			for _, element := range at {
				if inner, ok := element.(map[string]any); ok {
					withoutNulls(inner)
				}
			}
		}
	}
	return fields
}
