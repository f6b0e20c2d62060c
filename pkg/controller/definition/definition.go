// Package definition tells whose the Release kinds of a cluster are, which stands in their CustomResourceDefinitions. Only of
// ours is the status guarded.
package definition

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// Kind is that of definitions.
var Kind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// New is the outline of a definition, to read or to watch.
func New() *metav1.PartialObjectMetadata {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(Kind)
	return definition
}

// Ours tells whether a definition is one of Countersign's.
func Ours(definition metav1.Object) bool {
	return definition.GetLabels()[releasev1alpha1.LabelPartOf] == releasev1alpha1.PartOf
}

// OursIn reads the definition with the name. The error is apierrors.IsNotFound if there is none.
func OursIn(ctx context.Context, reader client.Reader, name string) (bool, error) {
	definition := New()
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
		return false, err
	}
	return Ours(definition), nil
}
