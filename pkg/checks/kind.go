package checks

import (
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Built-in kinds, which our own controllers answer.
const (
	kindApprovalRequest  = "ApprovalRequest"
	kindAttributionCheck = "AttributionCheck"
	kindScriptCheck      = "ScriptCheck"
)

// Kind is a compiled CheckKind. It is immutable.
type Kind struct {
	gvk          schema.GroupVersionKind
	requestField fieldPath
	expand       []fieldPath
	answers      []fieldPath
	state        *stateReader
	notReady     string
	// registration tells one CheckKind of a foreign kind from a later one; empty for built-in kinds. It ends with a
	// character that begins no JSON.
	registration string
}

// Compile reads a CheckKind. The error is for people and says what to change; the kind's readiness is taken from its
// status.
func Compile(from *approvalv1alpha1.CheckKind) (*Kind, error) {
	gv, err := schema.ParseGroupVersion(from.Spec.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("spec.apiVersion %q is no group and version", from.Spec.APIVersion)
	}
	k := &Kind{gvk: gv.WithKind(from.Spec.Kind), notReady: notReady(from)}
	if !k.BuiltIn() {
		k.registration = string(from.UID) + "|"
	}
	if k.state, err = compileState(from.Spec.State); err != nil {
		return nil, err
	}
	return k, k.compileFields(&from.Spec)
}

func (k *Kind) compileFields(spec *approvalv1alpha1.CheckKindSpec) (err error) {
	if k.expand, err = parseFieldPaths(spec.Expand); err != nil {
		return err
	}
	if k.answers, err = parseFieldPaths(spec.Answers); err != nil {
		return err
	}
	if len(k.expand) > 0 && k.gvk.GroupKind() == builtIn(kindScriptCheck) {
		return errors.New("spec.expand cannot be used with ScriptCheck: its expression has the values as CEL variables")
	}
	if spec.RequestField == "" {
		return nil
	}
	if k.requestField, err = parseFieldPath(spec.RequestField); err == nil && k.requestField.hasElements() {
		return fmt.Errorf("spec.requestField %s goes through a list; name one field", k.requestField)
	}
	return err
}

func parseFieldPaths(texts []string) ([]fieldPath, error) {
	paths := make([]fieldPath, 0, len(texts))
	for _, text := range texts {
		path, err := parseFieldPath(text)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// notReady says why checks of the kind cannot be relied on now; it is empty if they can.
func notReady(from *approvalv1alpha1.CheckKind) string {
	ready := apimeta.FindStatusCondition(from.Status.Conditions, approvalv1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != from.Generation:
		return fmt.Sprintf("the CheckKind %s has not been looked at yet", from.Name)
	case ready.Status != metav1.ConditionTrue:
		return fmt.Sprintf("the CheckKind %s is not ready (%s): %s", from.Name, ready.Reason, ready.Message)
	}
	return ""
}

// GroupVersionKind is the registered kind, in the version that checks are made and read in.
func (k *Kind) GroupVersionKind() schema.GroupVersionKind { return k.gvk }

// Ready is nil when checks of the kind can be made and relied on; otherwise it says why not.
func (k *Kind) Ready() error {
	if k.notReady != "" {
		return errors.New(k.notReady)
	}
	return nil
}

// BuiltIn tells that our own controllers answer the kind, so that the controller may write its status.
func (k *Kind) BuiltIn() bool { return IsBuiltIn(k.gvk.GroupKind()) }

// IsBuiltIn tells whether our own controllers answer the kind.
func IsBuiltIn(gk schema.GroupKind) bool { return gk.Group == approvalv1alpha1.GroupVersion.Group }

func builtIn(kind string) schema.GroupKind {
	return approvalv1alpha1.GroupVersion.WithKind(kind).GroupKind()
}
