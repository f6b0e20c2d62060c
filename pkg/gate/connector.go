package gate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// Connector is a connector as the gate and the proxy read it. It is immutable: a changed object is a new
// Connector.
type Connector struct {
	Namespace, Name string
	UID             types.UID
	Generation      int64
	Spec            connectorsv1alpha1.ConnectorSpec
	// Classifier says what is a write here.
	Classifier operation.Classifier
	// Invalid says why the object cannot be used at all; empty if it can.
	Invalid string
}

// connectorFrom compiles a connector. It never fails: what cannot be read is Invalid, and denies.
func connectorFrom(u *unstructured.Unstructured) *Connector {
	c := &Connector{Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), Generation: u.GetGeneration()}
	var typed connectorsv1alpha1.Connector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &typed); err != nil {
		c.Invalid = fmt.Sprintf("the connector %s/%s cannot be read; ask its owner to write it anew", c.Namespace, c.Name)
		return c
	}
	c.Spec = typed.Spec
	c.Classifier = operation.NewClassifier(c.Spec.ConnectorClassName, overrides(c.Spec.Operations)...)
	return c
}

// overrides keeps entries that cannot be read: an invalid selection raises to Write and never lowers.
func overrides(operations []connectorsv1alpha1.ConnectorOperation) []operation.Override {
	all := make([]operation.Override, 0, len(operations))
	for _, o := range operations {
		match, _ := operation.NewHTTPMatch(o.Methods, o.Paths)
		all = append(all, operation.Override{Class: operation.Class(o.Class), HTTP: match})
	}
	return all
}
