// Package trial makes a check from a rule's template as a dry run, so that a template which the API server
// refuses is known before anybody asks.
package trial

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
)

// name, uid and user stand where a real question has those of a request and its requester.
const (
	name = "countersign-dry-run"
	uid  = "00000000-0000-0000-0000-000000000000"
	user = "countersign:dry-run"
)

// Finding is why no check can be made from a rule. The zero Finding is none.
type Finding struct {
	// Reason is UnknownCheckKind, InvalidTemplate or DryRunUnsupported; empty if a check can be made.
	Reason string
	// Message is one sentence for the rule's writer.
	Message string
}

// Run tries the rule's template. The error is one that may pass by itself, such as an API server that does not
// answer.
func Run(ctx context.Context, c client.Client, registry *checks.Registry, rule *approvalv1alpha1.ResourceCheckRule) (Finding, error) {
	template := &rule.Spec.CheckTemplate
	gk := schema.FromAPIVersionAndKind(template.APIVersion, template.Kind).GroupKind()
	kind, ok := registry.Lookup(gk)
	if !ok {
		return Finding{approvalv1alpha1.ReasonUnknownCheckKind, fmt.Sprintf(
			"no CheckKind registers %s; ask a cluster administrator to register it, or use another kind", gk)}, nil
	}
	if err := kind.Ready(); err != nil {
		return Finding{approvalv1alpha1.ReasonUnknownCheckKind, fmt.Sprintf("checks of kind %s cannot be made: %v", gk.Kind, err)}, nil
	}
	check, err := kind.Build(sample(rule))
	if err != nil {
		return Finding{approvalv1alpha1.ReasonInvalidTemplate, fmt.Sprintf("no check can be made from spec.checkTemplate: %v", err)}, nil
	}
	return explain(gk.Kind, c.Create(ctx, check, client.DryRunAll))
}

func explain(kind string, err error) (Finding, error) {
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return Finding{}, nil
	case apimeta.IsNoMatchError(err):
		return Finding{approvalv1alpha1.ReasonUnknownCheckKind, fmt.Sprintf("the kind %s is not installed; install its CRD", kind)}, nil
	case strings.Contains(err.Error(), "does not support dry run"):
		return Finding{approvalv1alpha1.ReasonDryRunUnsupported, fmt.Sprintf(
			"a webhook for %s does not support dry run, so the template cannot be tried; ask its owner to declare sideEffects: None", kind)}, nil
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err):
		return Finding{approvalv1alpha1.ReasonInvalidTemplate, "the API server refuses a check made from spec.checkTemplate: " + err.Error()}, nil
	}
	return Finding{}, err
}

// sample is a question like those that will be asked.
func sample(rule *approvalv1alpha1.ResourceCheckRule) *checks.BuildInput {
	object := rule.Spec.ObjectRef
	object.Namespace = rule.Namespace
	subject := approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: user}
	return &checks.BuildInput{
		Namespace: rule.Namespace, Name: name, RequestUID: uid, Template: &rule.Spec.CheckTemplate,
		Context: &approvalv1alpha1.CheckContext{Object: object, Subject: subject, Rule: rule.Name},
		Question: &approvalv1alpha1.CheckRequest{
			Ref:         approvalv1alpha1.RequestReference{Namespace: rule.Namespace, Name: name, UID: uid},
			Object:      object,
			Subject:     subject,
			RequestedBy: approvalv1alpha1.Identity{Username: user},
			Rule: approvalv1alpha1.RuleSnapshot{
				Name: rule.Name, UID: rule.UID, Generation: rule.Generation, Spec: rule.Spec,
			},
		},
	}
}
