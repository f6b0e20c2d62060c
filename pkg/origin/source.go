package origin

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var (
	// ErrNotFound is what an error Is when the object is not there, as far as the source has seen.
	ErrNotFound = errors.New("not found")
	// ErrUnobserved is what an error Is when the source cannot tell (OriginPending): ask again in a moment.
	ErrUnobserved = errors.New("not observed yet")
)

// Source reads objects by kind and name.
type Source interface {
	// Get returns what has the name now; errors are ErrNotFound or ErrUnobserved.
	Get(ctx context.Context, kind schema.GroupKind, namespace, name string) (*Node, error)
}

// live asks the API server each time.
type live struct {
	client dynamic.Interface
	mapper apimeta.RESTMapper
}

// NewLive returns a Source that asks the API server each time: for admission, where a cache may lag behind.
func NewLive(client dynamic.Interface, mapper apimeta.RESTMapper) Source {
	return &live{client: client, mapper: mapper}
}

func (l *live) Get(ctx context.Context, kind schema.GroupKind, namespace, name string) (*Node, error) {
	mapping, err := l.mapper.RESTMapping(kind)
	if apimeta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the kind %s is not installed: %w", kind, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("the kind %s cannot be looked up (%w): %w", kind, ErrUnobserved, err)
	}
	u, err := l.client.Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s %s/%s: %w", kind.Kind, namespace, name, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s cannot be read (%w): %w", kind.Kind, namespace, name, ErrUnobserved, err)
	}
	return FromUnstructured(u), nil
}
