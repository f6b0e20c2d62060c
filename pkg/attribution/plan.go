package attribution

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// OfPlan is a ReleasePlan as it is now, with whoever stands for that, and what an author gave his word for, which may have
// been another generation; accepted is nil if nobody gave any.
func OfPlan(plan metav1.Object, words Vocabulary) (now, accepted *Standing) {
	now = &Standing{
		Kind: releasev1alpha1.KindReleasePlan, Namespace: plan.GetNamespace(), Name: plan.GetName(), UID: plan.GetUID(),
		Generation: plan.GetGeneration(), Admission: plan.GetLabels()[words.AdmissionLabel],
	}
	annotations := plan.GetAnnotations()
	accepted, err := ParseStanding(annotations[approvalv1alpha1.AnnotationStanding])
	if err != nil || accepted.Author == "" || accepted.Author != annotations[approvalv1alpha1.AnnotationAuthor] {
		return now, nil
	}
	// What a plan says of itself needs no UID, and a new plan has none while it is admitted.
	accepted.Kind, accepted.Namespace, accepted.Name, accepted.UID = now.Kind, now.Namespace, now.Name, now.UID
	if accepted.Generation == now.Generation && accepted.Admission == now.Admission {
		now.Author, now.AcceptedAt, now.ExpiresAt = accepted.Author, accepted.AcceptedAt, accepted.ExpiresAt
	}
	return now, accepted
}
