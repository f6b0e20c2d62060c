package script

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks/script"
)

// inputs reads what the program uses and nothing else. A problem is a clause for people about what somebody must repair;
// an error is an API server that could not be asked.
func (c *Controller) inputs(ctx context.Context, check *approvalv1alpha1.ScriptCheck, program *script.Program) (in *script.Inputs, problem string, err error) {
	request := check.Spec.Request
	if request == nil {
		return nil, "the check carries no question, because it was not made from a rule", nil
	}
	in = &script.Inputs{}
	if in.Request, err = asMap(request); err != nil {
		return nil, "", err
	}
	if in.Rule, err = asMap(&request.Rule); err != nil {
		return nil, "", err
	}
	if program.Uses(script.Object) {
		if in.Object, problem, err = c.read(ctx, &request.Object); problem != "" || err != nil {
			return nil, problem, err
		}
	}
	if program.Uses(script.Resource) {
		in.Resource, problem, err = c.readResource(ctx, request)
	}
	return in, problem, err
}

// readResource reads the run that the approval is for. Which one that is stands in the request that asks, not in an
// annotation.
func (c *Controller) readResource(ctx context.Context, question *approvalv1alpha1.CheckRequest) (map[string]any, string, error) {
	var asking approvalv1alpha1.ResourceCheckRequest
	err := c.client.Get(ctx, client.ObjectKey{Namespace: question.Ref.Namespace, Name: question.Ref.Name}, &asking)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, "", fmt.Errorf("request %s/%s cannot be read: %w", question.Ref.Namespace, question.Ref.Name, err)
	case err != nil || asking.UID != question.Ref.UID:
		return nil, fmt.Sprintf("request %s/%s, which asked for the check, is gone", question.Ref.Namespace, question.Ref.Name), nil
	case asking.Spec.Context.Resource == nil:
		return nil, "", nil
	}
	return c.read(ctx, asking.Spec.Context.Resource)
}

// read reads one object live. It must be the one that is meant, not another under its name, and never a Secret: what an
// expression sees can be guessed from its answers.
func (c *Controller) read(ctx context.Context, ref *approvalv1alpha1.ObjectReference) (map[string]any, string, error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if gvk.GroupKind() == corev1.SchemeGroupVersion.WithKind("Secret").GroupKind() {
		return nil, "a script never reads a Secret; guard it by another kind of check", nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	err := c.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	shown := ref.Kind + " " + ref.Namespace + "/" + ref.Name
	switch {
	case apierrors.IsNotFound(err) || err == nil && object.GetUID() != ref.UID:
		return nil, shown + " is gone", nil
	case apimeta.IsNoMatchError(err):
		return nil, fmt.Sprintf("the kind of %s is not installed in version %s", shown, gvk.GroupVersion()), nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("the controller may not read %s: grant get on it by a ClusterRole with the label approval.alaudadevops.io/aggregate-to-checks", shown), nil
	case err != nil:
		return nil, "", fmt.Errorf("%s cannot be read: %w", shown, err)
	}
	return object.Object, "", nil
}

func isConnector(ref *approvalv1alpha1.ObjectReference) bool {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() ==
		connectorsv1alpha1.GroupVersion.WithKind(connectorsv1alpha1.KindConnector).GroupKind()
}
