package request

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// target is the object that is asked for.
type target struct {
	ref approvalv1alpha1.ObjectReference
	// verbs are what the subject must hold for the use; empty only for Releases.
	verbs []string
	// Of the connector, if it is one; otherwise their zero values, which are the defaults.
	scope        connectorsv1alpha1.ContextScope
	allowUnbound bool
}

var connectorKind = connectorsv1alpha1.GroupVersion.WithKind(connectorsv1alpha1.KindConnector).GroupKind()

// target finds the object, once it is sure that the subject may use it. Who may not learns nothing about it: the answer
// is the same where it does not exist.
func (w *Webhook) target(ctx context.Context, a *asker, spec *approvalv1alpha1.ResourceCheckRequestSpec, namespace string) (*target, error) {
	if a.way == forRelease {
		return w.plan(ctx, a, spec, namespace)
	}
	t := &target{ref: spec.ObjectRef, verbs: []string{approvalv1alpha1.VerbRequest}}
	if t.ref.Namespace == "" {
		t.ref.Namespace = namespace
	}
	if isConnector(&t.ref) {
		t.verbs = connectorVerbs(decision.Use(spec.Use))
	}
	gvk := schema.FromAPIVersionAndKind(t.ref.APIVersion, t.ref.Kind)
	mapping, err := w.Mapper.RESTMapping(gvk.GroupKind())
	switch {
	case apimeta.IsNoMatchError(err):
		return nil, t.unknown(a)
	case err != nil:
		return nil, admit.Unavailable("the object's kind cannot be looked up now: try again in a moment", err)
	case mapping.Scope.Name() != apimeta.RESTScopeNameNamespace:
		return nil, admit.Invalid("spec.objectRef.kind", fmt.Sprintf("%s is not namespaced: only namespaced objects are protected", t.ref.Kind))
	}
	if err := w.permitted(ctx, a, t, mapping.Resource); err != nil {
		return nil, err
	}
	return t, w.find(ctx, a, t, mapping.GroupVersionKind)
}

func isConnector(ref *approvalv1alpha1.ObjectReference) bool {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() == connectorKind
}

// permitted asks for every right that the use needs.
func (w *Webhook) permitted(ctx context.Context, a *asker, t *target, resource schema.GroupVersionResource) error {
	attrs := authz.ResourceAttributes{
		Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Namespace: t.ref.Namespace, Name: t.ref.Name,
	}
	if isConnector(&t.ref) {
		attrs.Subresource = connectorsv1alpha1.APIsSubresource
	}
	for _, verb := range t.verbs {
		attrs.Verb = verb
		allowed, _, err := w.Access.Allowed(ctx, a.user, attrs)
		if err != nil {
			return admit.Unavailable("it cannot be told now what the subject may do: try again in a moment", err)
		}
		if !allowed {
			return t.lacks(a, verb)
		}
	}
	return nil
}

func connectorVerbs(use operation.Use) []string {
	var verbs []string
	for _, class := range use.Classes() {
		if class == operation.Read {
			verbs = append(verbs, connectorsv1alpha1.VerbRead)
		} else {
			verbs = append(verbs, connectorsv1alpha1.VerbWrite)
		}
	}
	return verbs
}

// unknown is for an object that does not exist.
func (t *target) unknown(a *asker) error {
	if a.way == forRelease {
		return admit.Because(approvalv1alpha1.ReasonObjectGone, fmt.Sprintf("there is no %s %s/%s: create it, then the Release anew",
			t.ref.Kind, t.ref.Namespace, t.ref.Name))
	}
	return t.lacks(a, t.verbs[0])
}

// lacks is the one answer to who names nothing, or nothing that the subject may use.
func (t *target) lacks(a *asker, verb string) error {
	resource := "it"
	if isConnector(&t.ref) {
		resource = "connectors/" + connectorsv1alpha1.APIsSubresource
	}
	return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
		"%s %s/%s does not exist, or %s lacks the verb %q on %s in that namespace: ask the owners of the namespace for that right",
		t.ref.Kind, t.ref.Namespace, plaintext.Line(t.ref.Name, maxShown), plaintext.Quote(admit.Username(&a.subject), maxShown), verb, resource))
}

// find reads the object. Of kinds other than our own only the metadata is read, because it may be a Secret.
func (w *Webhook) find(ctx context.Context, a *asker, t *target, gvk schema.GroupVersionKind) error {
	var object client.Object
	if isConnector(&t.ref) {
		object = &connectorsv1alpha1.Connector{}
	} else {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(gvk)
		object = meta
	}
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: t.ref.Namespace, Name: t.ref.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return t.unknown(a)
	case apierrors.IsForbidden(err):
		return admit.Unavailable(fmt.Sprintf("Countersign may not read %s objects: ask an administrator for a ClusterRole that is aggregated to the controller", t.ref.Kind), err)
	case err != nil:
		return admit.Unavailable("the object cannot be read now: try again in a moment", err)
	case object.GetDeletionTimestamp() != nil:
		return admit.Because(approvalv1alpha1.ReasonObjectGone, fmt.Sprintf("%s %s/%s is being deleted: nobody can use it any more", t.ref.Kind, t.ref.Namespace, t.ref.Name))
	}
	if err := same("spec.objectRef.uid", string(t.ref.UID), string(object.GetUID())); err != nil {
		return err
	}
	t.ref.UID = object.GetUID()
	if connector, ok := object.(*connectorsv1alpha1.Connector); ok {
		t.scope, t.allowUnbound = connector.Spec.ContextScope, connector.Spec.AllowUnboundServiceAccounts
	}
	return nil
}

// accountUID reads the UID of a service account.
func (w *Webhook) accountUID(ctx context.Context, name types.NamespacedName) (types.UID, error) {
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := w.Live.Get(ctx, name, account)
	if apierrors.IsNotFound(err) {
		return "", admit.Invalid("spec.context.subject", fmt.Sprintf("there is no service account %s: create it, or name another one that the run uses", name))
	}
	if err != nil {
		return "", admit.Unavailable("the service account cannot be read now: try again in a moment", err)
	}
	return account.UID, nil
}
