package release

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// record is what the server writes of a Release. An empty value stands for none.
type record struct{ annotations, labels map[string]string }

func (r *record) writeTo(u *unstructured.Unstructured) {
	admit.SetAnnotations(u, r.annotations)
	admit.SetLabels(u, r.labels)
}

// planName is the plan that a Release names; empty if it names none that could be there.
func planName(release *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(release.Object, "spec", "releasePlan")
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return name
}

// standing is what a new Release stands on: the plan as it is at this moment, and for a program's Release also who stands
// for the plan. Without the plan it is empty; such a Release is stored, and fails when it is looked at.
func (w *Webhook) standing(ctx context.Context, r *admit.Review, automated bool) (string, error) {
	name := planName(r.Object)
	if name == "" {
		return "", nil
	}
	plan := &unstructured.Unstructured{}
	plan.SetGroupVersionKind(releasev1alpha1.GroupVersion.WithKind(releasev1alpha1.KindReleasePlan))
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name}, plan)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", admit.Unavailable(fmt.Sprintf(
			"the ReleasePlan %s/%s cannot be read now: create the Release again in a moment", r.Namespace, plaintext.Line(name, maxName)), err)
	}
	standing := attribution.Standing{
		Kind: releasev1alpha1.KindReleasePlan, Namespace: r.Namespace, Name: name, UID: plan.GetUID(), Generation: plan.GetGeneration(),
		Admission: plan.GetLabels()[w.Vocabulary.AdmissionLabel],
	}
	if accepted := w.accepted(plan); automated && accepted != nil {
		standing.Author, standing.AcceptedAt, standing.ExpiresAt = accepted.Author, accepted.AcceptedAt, accepted.ExpiresAt
	}
	return standing.String(), nil
}

// accepted is who stands for the plan as it is; nil if nobody does. Admission keeps the parts of the record in step, so one
// whose parts disagree was not written by it.
func (w *Webhook) accepted(plan *unstructured.Unstructured) *attribution.Standing {
	annotations := plan.GetAnnotations()
	standing, err := attribution.ParseStanding(annotations[approvalv1alpha1.AnnotationStanding])
	if err != nil || !admit.IsOn(plan, w.Vocabulary.StandingLabel) ||
		standing.Generation != plan.GetGeneration() || standing.Admission != plan.GetLabels()[w.Vocabulary.AdmissionLabel] ||
		standing.Author != annotations[approvalv1alpha1.AnnotationAuthor] {
		return nil
	}
	return standing
}
