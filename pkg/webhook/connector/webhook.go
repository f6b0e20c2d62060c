package connector

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// ValidatePath is where the webhook is served.
const ValidatePath = "/validate/connectors"

// Access answers whether a user may do something; an error is a no.
type Access interface {
	Allowed(ctx context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (allowed bool, reason string, err error)
}

// Deps is what the webhook needs.
type Deps struct {
	// Live asks the API server for the rules of a namespace; it must not be a cache.
	Live   client.Reader
	Access Access
}

// Webhook admits connectors.
type Webhook struct{ Deps }

// New returns a Webhook.
func New(deps Deps) *Webhook { return &Webhook{deps} }

// Register serves the webhook.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
}

// Validate refuses what cannot be used, and what the caller lacks a right for.
func (w *Webhook) Validate(ctx context.Context, r *admit.Review) error {
	if r.Operation == admissionv1.Delete {
		return w.validateDelete(ctx, r)
	}
	c, err := read(r)
	if err != nil {
		return err
	}
	if err := c.wellFormed(); err != nil {
		return err
	}
	if err := w.mayReadSecrets(ctx, r, c.credentialsAtStake()); err != nil {
		return err
	}
	return w.mayChange(ctx, r, c)
}

// mayReadSecrets refuses to send credentials somewhere for who could not have read them.
func (w *Webhook) mayReadSecrets(ctx context.Context, r *admit.Review, names []string) error {
	for _, name := range names {
		allowed, err := w.allowed(ctx, r, authz.ResourceAttributes{Version: "v1", Resource: "secrets", Verb: "get", Namespace: r.Namespace, Name: name})
		if err != nil {
			return err
		}
		if !allowed {
			return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
				"you may not get the Secret %s/%s, so you cannot say where a connector sends it: ask somebody who may to make this change", r.Namespace, name))
		}
	}
	return nil
}

// mayChange asks for the right on rules if something changes that rules rely on, or that they already guard.
func (w *Webhook) mayChange(ctx context.Context, r *admit.Review, c *change) error {
	if field := c.guarded(); field != "" {
		return w.mayWriteRules(ctx, r, fmt.Sprintf("%s of the connector %s/%s is set only by who may update resourcecheckrules there", field, r.Namespace, c.new.Name))
	}
	if !c.created {
		return nil
	}
	ruled, err := w.isRuled(ctx, r.Namespace, c.new.Name)
	if err != nil || !ruled {
		return err
	}
	return w.mayWriteRules(ctx, r, fmt.Sprintf("rules guard a connector %s/%s already, so it is made only by who may update resourcecheckrules there", r.Namespace, c.new.Name))
}

// collectors may delete everything: a namespace that is going would never be gone otherwise.
// Garbage collection follows owner references, which are guarded.
var collectors = []string{
	"system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:kube-system:generic-garbage-collector",
	"system:kube-controller-manager",
}

func (w *Webhook) validateDelete(ctx context.Context, r *admit.Review) error {
	if slices.Contains(collectors, r.Caller.Username) {
		return nil
	}
	var old connectorsv1alpha1.Connector
	if err := admit.Decode(r.Old, &old); err != nil {
		return err
	}
	ruled, err := w.isRuled(ctx, r.Namespace, old.Name)
	if err != nil || !ruled && !old.Spec.RequireChecks {
		return err
	}
	return w.mayWriteRules(ctx, r, fmt.Sprintf("the connector %s/%s is protected, so it is deleted only by who may update resourcecheckrules there", r.Namespace, old.Name))
}

// isRuled tells whether a rule guards the connector of that name.
func (w *Webhook) isRuled(ctx context.Context, namespace, name string) (bool, error) {
	var rules approvalv1alpha1.ResourceCheckRuleList
	if err := w.Live.List(ctx, &rules, client.InNamespace(namespace)); err != nil {
		return false, admit.Unavailable("it cannot be told now whether the connector is protected: try again in a moment", err)
	}
	return slices.ContainsFunc(rules.Items, func(rule approvalv1alpha1.ResourceCheckRule) bool {
		ref := &rule.Spec.ObjectRef
		return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() == connectorKind && ref.Name == name
	}), nil
}

var connectorKind = connectorsv1alpha1.GroupVersion.WithKind(connectorsv1alpha1.KindConnector).GroupKind()

// mayWriteRules refuses with the sentence unless the caller may update rules in the connector's namespace.
func (w *Webhook) mayWriteRules(ctx context.Context, r *admit.Review, sentence string) error {
	allowed, err := w.allowed(ctx, r, authz.ResourceAttributes{
		Group: approvalv1alpha1.GroupVersion.Group, Version: approvalv1alpha1.GroupVersion.Version, Resource: "resourcecheckrules",
		Verb: "update", Namespace: r.Namespace,
	})
	if err != nil {
		return err
	}
	if !allowed {
		return admit.Because(approvalv1alpha1.ReasonNotPermitted, sentence+": ask an owner")
	}
	return nil
}

func (w *Webhook) allowed(ctx context.Context, r *admit.Review, attrs authz.ResourceAttributes) (bool, error) {
	allowed, _, err := w.Access.Allowed(ctx, r.Caller.UserInfo, attrs)
	if err != nil {
		return false, admit.Unavailable("it cannot be told now whether you may change the connector: try again in a moment", err)
	}
	return allowed, nil
}
