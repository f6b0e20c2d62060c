package pairing

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// Keys is an index function of ReleasePlanAdmissions, for Candidates: where Releases come from, and what they release.
func Keys(obj client.Object) []string {
	a, ok := obj.(*releasev1alpha1.ReleasePlanAdmission)
	if !ok || a.Spec.Origin == "" {
		return nil
	}
	var keys []string
	for _, application := range a.Spec.Applications {
		keys = append(keys, applicationKey(a.Spec.Origin, application))
	}
	for _, group := range a.Spec.ComponentGroups {
		keys = append(keys, groupKey(a.Spec.Origin, group))
	}
	return keys
}

// Namespaces have no slash in their names.
func applicationKey(origin, application string) string { return origin + "/application/" + application }

func groupKey(origin, group string) string { return origin + "/group/" + group }

// Candidates are the admissions that Find must know: the one that the plan's label names, or else those that let in what it
// releases. With an index, which has Keys, the reader must be a cache, and what is returned must not be changed. Without
// one, all of the target namespace are returned where none is named, because one that is not known by name might be there.
func Candidates(ctx context.Context, reader client.Reader, index string, words attribution.Vocabulary, plan *releasev1alpha1.ReleasePlan) ([]releasev1alpha1.ReleasePlanAdmission, error) {
	if plan.Spec.Target == "" {
		return nil, nil
	}
	if name := plan.Labels[words.AdmissionLabel]; name != "" {
		return one(ctx, reader, client.ObjectKey{Namespace: plan.Spec.Target, Name: name})
	}
	if index == "" {
		return list(ctx, reader, plan.Spec.Target)
	}
	var found []releasev1alpha1.ReleasePlanAdmission
	for _, key := range planKeys(plan) {
		some, err := list(ctx, reader, plan.Spec.Target, client.MatchingFields{index: key}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return once(found), nil
}

func planKeys(plan *releasev1alpha1.ReleasePlan) []string {
	var keys []string
	if plan.Spec.Application != "" {
		keys = append(keys, applicationKey(plan.Namespace, plan.Spec.Application))
	}
	if plan.Spec.ComponentGroup != "" {
		keys = append(keys, groupKey(plan.Namespace, plan.Spec.ComponentGroup))
	}
	return keys
}

// once drops what was found by both keys.
func once(found []releasev1alpha1.ReleasePlanAdmission) []releasev1alpha1.ReleasePlanAdmission {
	seen := map[string]bool{}
	return slices.DeleteFunc(found, func(a releasev1alpha1.ReleasePlanAdmission) bool {
		again := seen[a.Name]
		seen[a.Name] = true
		return again
	})
}

func one(ctx context.Context, reader client.Reader, key client.ObjectKey) ([]releasev1alpha1.ReleasePlanAdmission, error) {
	admission := releasev1alpha1.ReleasePlanAdmission{}
	err := reader.Get(ctx, key, &admission)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the ReleasePlanAdmission %s cannot be read: %w", key, err)
	}
	return []releasev1alpha1.ReleasePlanAdmission{admission}, nil
}

func list(ctx context.Context, reader client.Reader, namespace string, options ...client.ListOption) ([]releasev1alpha1.ReleasePlanAdmission, error) {
	var admissions releasev1alpha1.ReleasePlanAdmissionList
	if err := reader.List(ctx, &admissions, append(options, client.InNamespace(namespace))...); err != nil {
		return nil, fmt.Errorf("the ReleasePlanAdmissions of namespace %s cannot be listed: %w", namespace, err)
	}
	return admissions.Items, nil
}
