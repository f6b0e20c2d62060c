package cli

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

const kindApprovalRequest = "ApprovalRequest"

// check is a check of any kind. question is nil where the kind has no field for it; approval is set for ApprovalRequests.
type check struct {
	gvk      schema.GroupVersionKind
	meta     metav1.ObjectMeta
	question *approvalv1alpha1.CheckRequest
	status   duckv1alpha1.CheckStatus
	approval *approvalv1alpha1.ApprovalRequest
	object   *unstructured.Unstructured
}

func (c *check) key() types.NamespacedName { return keyOf(c.meta.Namespace, c.meta.Name) }

func (c *check) state() duckv1alpha1.CheckState {
	if c.status.State == "" {
		return duckv1alpha1.CheckPending
	}
	return c.status.State
}

// matches tells whether a name means this check: its own name, or that of the request that asks, alone or with its
// namespace.
func (c *check) matches(name string) bool {
	if c.meta.Name == name || c.meta.Namespace+"/"+c.meta.Name == name {
		return true
	}
	if c.question == nil {
		return false
	}
	ref := c.question.Ref
	return ref.Name == name || ref.Namespace+"/"+ref.Name == name
}

// answered tells whether the user's answer is recorded.
func (c *check) answered(user string) bool {
	for _, d := range c.status.DecidedBy {
		if d.Username == user {
			return true
		}
	}
	return false
}

// checkKind is a kind of checks and where it keeps the question.
type checkKind struct {
	gvk      schema.GroupVersionKind
	question []string
}

func builtinKinds() []checkKind {
	kinds := make([]checkKind, 0, 4)
	for _, kind := range []string{kindApprovalRequest, "AttributionCheck", "TimeWindowCheck", "ScriptCheck"} {
		kinds = append(kinds, checkKind{approvalv1alpha1.GroupVersion.WithKind(kind), []string{"spec", "request"}})
	}
	return kinds
}

// checkKinds is the built-in kinds and, where the caller may see them, those that administrators registered.
func (c *cluster) checkKinds(ctx context.Context) []checkKind {
	kinds := builtinKinds()
	registered := &approvalv1alpha1.CheckKindList{}
	if err := c.List(ctx, registered); err != nil {
		return kinds
	}
	for i := range registered.Items {
		spec := &registered.Items[i].Spec
		gvk := schema.FromAPIVersionAndKind(spec.APIVersion, spec.Kind)
		if gvk.Group != approvalv1alpha1.GroupVersion.Group {
			kinds = append(kinds, checkKind{gvk, fieldPath(spec.RequestField)})
		}
	}
	return kinds
}

func fieldPath(field string) []string {
	if field == "" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(field, "."), ".")
}

// approvals lists the ApprovalRequests of a namespace, or of all with "".
func (c *cluster) approvals(ctx context.Context, namespace string) ([]*check, error) {
	return c.checksOf(ctx, builtinKinds()[0], namespace)
}

// checksNamed finds the checks that a name means, of all kinds. What cannot be listed is looked up by its own name.
func (c *cluster) checksNamed(ctx context.Context, namespace, name string, kinds []checkKind) ([]*check, error) {
	var found []*check
	var refusal error
	for _, kind := range kinds {
		checks, err := c.checksOf(ctx, kind, namespace)
		if err != nil && unreadable(err) {
			checks, err = c.checkByName(ctx, kind, namespace, name)
		}
		switch {
		case err == nil:
			found = appendMatching(found, checks, name)
		case !unreadable(err):
			return nil, err
		case kind.gvk.Kind == kindApprovalRequest:
			refusal = err
		}
	}
	if len(found) == 0 && refusal != nil {
		return nil, refusal
	}
	return found, nil
}

func appendMatching(found, checks []*check, name string) []*check {
	for _, candidate := range checks {
		if candidate.matches(name) {
			found = append(found, candidate)
		}
	}
	return found
}

func (c *cluster) checkByName(ctx context.Context, kind checkKind, namespace, name string) ([]*check, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind.gvk)
	if err := c.Get(ctx, keyOf(namespace, name), u); err != nil {
		return nil, err
	}
	return []*check{readCheck(u, kind)}, nil
}

func (c *cluster) checksOf(ctx context.Context, kind checkKind, namespace string) ([]*check, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.gvk.GroupVersion().WithKind(kind.gvk.Kind + "List"))
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	checks := make([]*check, 0, len(list.Items))
	for i := range list.Items {
		checks = append(checks, readCheck(&list.Items[i], kind))
	}
	return checks, nil
}

// readCheck reads what can be read: a status that is no duck is a state this program does not know.
func readCheck(u *unstructured.Unstructured, kind checkKind) *check {
	read := &check{gvk: kind.gvk, object: u}
	read.meta.Name, read.meta.Namespace, read.meta.UID = u.GetName(), u.GetNamespace(), u.GetUID()
	read.meta.CreationTimestamp, read.meta.Annotations = u.GetCreationTimestamp(), u.GetAnnotations()
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	if kind.gvk.Kind == kindApprovalRequest && kind.gvk.Group == approvalv1alpha1.GroupVersion.Group {
		read.approval = &approvalv1alpha1.ApprovalRequest{}
		if err := convert(u.Object, read.approval); err != nil {
			read.approval = nil
		}
	}
	if status, ok := u.Object["status"].(map[string]any); ok {
		if err := convert(status, &read.status); err != nil {
			read.status = duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckError, Message: "its status cannot be read"}
		}
	}
	read.question = readQuestion(u, kind.question)
	return read
}

func readQuestion(u *unstructured.Unstructured, path []string) *approvalv1alpha1.CheckRequest {
	if len(path) == 0 {
		return nil
	}
	raw, ok, err := unstructured.NestedMap(u.Object, path...)
	if !ok || err != nil {
		return nil
	}
	question := &approvalv1alpha1.CheckRequest{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, question); err != nil {
		return nil
	}
	return question
}
