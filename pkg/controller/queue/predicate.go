package queue

import "sigs.k8s.io/controller-runtime/pkg/predicate"

// Meant lets through what somebody meant: changes of an object but for its status, which controllers write themselves.
func Meant() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}
