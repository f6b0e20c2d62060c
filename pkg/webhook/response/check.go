package response

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// maxShown bounds what refusals repeat of names, in characters.
const maxShown = 128

// answer is an answer that is being admitted.
type answer struct {
	caller    *admit.Caller
	namespace string
	response  approvalv1alpha1.ApprovalResponse
	gvk       schema.GroupVersionKind
	// meta is the check's metadata; check is the check itself if it is an ApprovalRequest, nil otherwise.
	meta  client.Object
	check *approvalv1alpha1.ApprovalRequest
}

// findCheck reads the check that is answered.
func (w *Webhook) findCheck(ctx context.Context, a *answer) error {
	ref := &a.response.Spec.RequestRef
	if ref.Kind == "" {
		ref.Kind = approvalRequestKind.Kind
	}
	var err error
	if a.gvk, err = w.kindOf(a); err != nil {
		return err
	}
	object := client.Object(&approvalv1alpha1.ApprovalRequest{})
	if a.gvk.GroupKind() != approvalRequestKind.GroupKind() {
		foreign := &metav1.PartialObjectMetadata{}
		foreign.SetGroupVersionKind(a.gvk)
		object = foreign
	}
	err = w.Live.Get(ctx, types.NamespacedName{Namespace: a.namespace, Name: ref.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return admit.Invalid("spec.requestRef", fmt.Sprintf("there is no %s %s in namespace %s: answer one that `kubectl countersign inbox` lists",
			a.gvk.Kind, plaintext.Line(ref.Name, maxShown), a.namespace))
	case apierrors.IsForbidden(err):
		return admit.Unavailable(fmt.Sprintf("Countersign may not read %s objects: ask an administrator for a ClusterRole that is aggregated to the controller", a.gvk.Kind), err)
	case err != nil:
		return admit.Unavailable("the check cannot be read now: try again in a moment", err)
	case object.GetDeletionTimestamp() != nil:
		return admit.Invalid("spec.requestRef", "the check is being deleted: nobody waits for its answer any more")
	case ref.UID != "" && ref.UID != object.GetUID():
		return admit.Invalid("spec.requestRef.uid", "another check has this name by now: read it before you answer, and leave the uid out")
	case object.GetLabels()[approvalv1alpha1.LabelRequestUID] == "":
		return admit.Invalid("spec.requestRef", "no request asks through this object: name a check that Countersign made")
	}
	a.meta = object
	a.check, _ = object.(*approvalv1alpha1.ApprovalRequest)
	return nil
}

// kindOf is the kind that the answer names. Only a Revoke may be about another kind than ApprovalRequest.
func (w *Webhook) kindOf(a *answer) (schema.GroupVersionKind, error) {
	ref := a.response.Spec.RequestRef
	if ref.APIVersion == "" && ref.Kind == approvalRequestKind.Kind {
		return approvalRequestKind, nil
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	if kind == approvalRequestKind.GroupKind() {
		return approvalRequestKind, nil
	}
	if ref.APIVersion == "" {
		return approvalRequestKind, admit.Invalid("spec.requestRef.apiVersion", fmt.Sprintf("say which %s is meant: give its apiVersion", ref.Kind))
	}
	if a.response.Spec.Decision != approvalv1alpha1.DecisionRevoke {
		return approvalRequestKind, admit.Invalid("spec.requestRef.kind", fmt.Sprintf("a %s is answered in its own way: an ApprovalResponse can only revoke it", ref.Kind))
	}
	mapping, err := w.Mapper.RESTMapping(kind)
	if apimeta.IsNoMatchError(err) || err == nil && mapping.Scope.Name() != apimeta.RESTScopeNameNamespace {
		return approvalRequestKind, admit.Invalid("spec.requestRef.kind", fmt.Sprintf("there is no namespaced kind %s: name the check's own", kind))
	}
	if err != nil {
		return approvalRequestKind, admit.Unavailable("the check's kind cannot be looked up now: try again in a moment", err)
	}
	return mapping.GroupVersionKind, nil
}

// named tells whether the check names the group as an approver: those are the groups that matter.
func (a *answer) named(group string) bool {
	if a.check == nil {
		return false
	}
	approver := approvalv1alpha1.Approver{Type: approvalv1alpha1.ApproverGroup, Name: group}
	return slices.ContainsFunc(a.check.Spec.Policies, func(p approvalv1alpha1.ApprovalPolicy) bool {
		return slices.Contains(p.Approvers, approver)
	})
}

// settleOwner finds out whether a Revoke rests on the verb revoke. The check lives with the object.
func (w *Webhook) settleOwner(ctx context.Context, a *answer) error {
	a.response.Spec.AsOwner = false
	if a.response.Spec.Decision != approvalv1alpha1.DecisionRevoke {
		return nil
	}
	allowed, _, err := w.Access.Allowed(ctx, a.caller.UserInfo, authz.ResourceAttributes{
		Group: approvalv1alpha1.GroupVersion.Group, Version: approvalv1alpha1.GroupVersion.Version, Resource: "resourcecheckrules",
		Verb: approvalv1alpha1.VerbRevoke, Namespace: a.namespace,
	})
	if err != nil {
		return admit.Unavailable("it cannot be told now whether you may revoke: try again in a moment", err)
	}
	a.response.Spec.AsOwner = allowed
	return nil
}
