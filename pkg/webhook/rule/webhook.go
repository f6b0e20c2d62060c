package rule

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// Paths at which the steps are served.
const (
	MutatePath   = "/mutate/resourcecheckrules"
	ValidatePath = "/validate/resourcecheckrules"
)

// Access answers whether a user may do something; an error is a no.
type Access interface {
	Allowed(ctx context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (allowed bool, reason string, err error)
}

// Deps is what the webhook needs.
type Deps struct {
	Clock clock.PassiveClock
	// Live asks the API server.
	Live client.Reader
	// Cache holds all requests, indexed by asked.SetupIndex.
	Cache client.Reader
	// Trial makes checks as a dry run.
	Trial    client.Client
	Registry *checks.Registry
	Access   Access
}

// Webhook admits rules.
type Webhook struct{ Deps }

// New returns a Webhook.
func New(deps Deps) *Webhook { return &Webhook{deps} }

// Register serves both steps.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(MutatePath, &admission.Webhook{Handler: admit.Mutating(w.Mutate)})
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
}

// asserted are the fields that the mutating step sets.
var asserted = [][]string{{"metadata", "labels"}, {"spec", "objectRef"}}

// Mutate completes the reference to the object, and labels the rule by it.
func (w *Webhook) Mutate(_ context.Context, r *admit.Review) error {
	return complete(r.Object, r.Namespace)
}

func complete(u *unstructured.Unstructured, namespace string) error {
	var rule approvalv1alpha1.ResourceCheckRule
	if err := admit.Decode(u, &rule); err != nil {
		return err
	}
	ref := &rule.Spec.ObjectRef
	if ref.Namespace == "" {
		ref.Namespace = namespace
	}
	// A rule outlives its object, and may come before it.
	ref.UID = ""
	admit.SetLabels(u, map[string]string{
		approvalv1alpha1.LabelObjectKind: admit.LabelValue(ref.Kind),
		approvalv1alpha1.LabelObjectName: admit.LabelValue(ref.Name),
	})
	return admit.Set(u, ref, "spec", "objectRef")
}

// Validate refuses what no rule may say, and warns about the rest. An update of labels and annotations alone asks
// nothing, so anybody who may write the rule may make it.
func (w *Webhook) Validate(ctx context.Context, r *admit.Review) error {
	want := r.Object.DeepCopy()
	if err := complete(want, r.Namespace); err != nil {
		return err
	}
	if err := admit.Untouched(r.Object, want, asserted); err != nil {
		return err
	}
	if r.Operation == admissionv1.Update {
		if err := w.mayHaveCollected(ctx, r); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(r.Object.Object["spec"], r.Old.Object["spec"]) {
			return nil
		}
	}
	rule := &approvalv1alpha1.ResourceCheckRule{}
	if err := admit.Decode(r.Object, rule); err != nil {
		return err
	}
	rule.Namespace = r.Namespace
	if err := checkSpec(rule); err != nil {
		return err
	}
	if err := w.mayUse(ctx, &r.Caller, rule); err != nil {
		return err
	}
	w.warn(ctx, r, rule)
	return nil
}

func checkSpec(rule *approvalv1alpha1.ResourceCheckRule) error {
	spec := &rule.Spec
	if spec.ObjectRef.Namespace != rule.Namespace {
		return admit.Invalid("spec.objectRef.namespace", fmt.Sprintf("it must be %s, the rule's own: write the rule where the object is", rule.Namespace))
	}
	if when := spec.When; when != nil && when.HTTP != nil {
		if _, err := operation.NewHTTPMatch(when.HTTP.Methods, when.HTTP.Paths); err != nil {
			return admit.Invalid("spec.when.http", err.Error())
		}
	}
	if spec.Grant != nil && spec.Grant.MaxDuration != nil && spec.Grant.MaxDuration.Duration <= 0 {
		return admit.Invalid("spec.grant.maxDuration", "it must be longer than nothing: give a duration such as 4h")
	}
	return nil
}

// mayUse keeps whoever writes rules from having checks made that he has no say in: the controller makes them with its
// own rights.
func (w *Webhook) mayUse(ctx context.Context, caller *admit.Caller, rule *approvalv1alpha1.ResourceCheckRule) error {
	template := &rule.Spec.CheckTemplate
	name := checkKindName(template)
	allowed, _, err := w.Access.Allowed(ctx, caller.UserInfo, authz.ResourceAttributes{
		Group: approvalv1alpha1.GroupVersion.Group, Version: approvalv1alpha1.GroupVersion.Version, Resource: "checkkinds",
		Verb: approvalv1alpha1.VerbUse, Namespace: rule.Namespace, Name: name,
	})
	if err != nil {
		return admit.Unavailable("it cannot be told now whether you may use this kind of check: try again in a moment", err)
	}
	if !allowed {
		return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
			"you lack the verb %q on checkkinds %s in namespace %s: ask an administrator of the namespace for that right, or use another kind of check",
			approvalv1alpha1.VerbUse, name, rule.Namespace))
	}
	return nil
}

// mayHaveCollected keeps whoever may edit a rule and not delete it from giving it an owner that is gone: garbage collection
// would delete it for him, and open what it guards.
func (w *Webhook) mayHaveCollected(ctx context.Context, r *admit.Review) error {
	if !admit.GainsOwner(r.Object, r.Old) {
		return nil
	}
	allowed, _, err := w.Access.Allowed(ctx, r.Caller.UserInfo, authz.ResourceAttributes{
		Group: approvalv1alpha1.GroupVersion.Group, Version: approvalv1alpha1.GroupVersion.Version, Resource: "resourcecheckrules",
		Verb: "delete", Namespace: r.Namespace, Name: r.Object.GetName(),
	})
	if err != nil {
		return admit.Unavailable("it cannot be told now whether you may delete this rule: try again in a moment", err)
	}
	if !allowed {
		return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
			"metadata.ownerReferences of the rule %s/%s are added to only by who may delete it, because a rule goes with its owner: leave them as they are, or ask an owner of the namespace",
			r.Namespace, r.Object.GetName()))
	}
	return nil
}

// checkKindName is the name under which the kind of a template is registered.
func checkKindName(template *approvalv1alpha1.CheckTemplate) string {
	gk := schema.FromAPIVersionAndKind(template.APIVersion, template.Kind).GroupKind()
	if gk.Group == "" {
		gk.Group = "core"
	}
	return strings.ToLower(gk.Kind + "." + gk.Group)
}
