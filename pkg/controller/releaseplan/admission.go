package releaseplan

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
)

// admissionController keeps the status of ReleasePlanAdmissions: whether a plan releases through one.
type admissionController struct{ *Controller }

func (c *Controller) admissions() admissionController { return admissionController{c} }

func (c admissionController) begin(mgr ctrl.Manager) error {
	meant := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
	return builder.ControllerManagedBy(mgr).Named("releaseplanadmission").
		For(&releasev1alpha1.ReleasePlanAdmission{}, builder.WithPredicates(meant)).
		Watches(&releasev1alpha1.ReleasePlan{}, handler.EnqueueRequestsFromMapFunc(c.admissionsFor), builder.WithPredicates(meant)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
}

// admissionsFor are those that a plan may mean. An update tells of the plan as it was, too.
func (c admissionController) admissionsFor(ctx context.Context, obj client.Object) []reconcile.Request {
	plan, ok := obj.(*releasev1alpha1.ReleasePlan)
	if !ok {
		return nil
	}
	admissions, err := pairing.Candidates(ctx, c.client, indexAdmission, c.options.Vocabulary, plan)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "ReleasePlanAdmissions that a plan concerns cannot be found")
		return nil
	}
	var found []reconcile.Request
	for i := range admissions {
		if admissions[i].Spec.Origin == plan.Namespace {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&admissions[i])})
		}
	}
	return found
}

// Reconcile writes the status if it changed.
func (c admissionController) Reconcile(ctx context.Context, admission *releasev1alpha1.ReleasePlanAdmission) (ctrl.Result, error) {
	if admission.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if foreign, err := c.isForeign(ctx); err != nil || foreign {
		return ctrl.Result{}, err
	}
	plan, err := c.planOf(ctx, admission)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := admission.Status.DeepCopy()
	next.ObservedGeneration = admission.Generation
	apimeta.SetStatusCondition(&next.Conditions, c.matched(admission, plan))
	return status.Keep(ctx, c.client, admission, &admission.Status, next, 0, func() {})
}

// planOf is the first plan whose Releases the admission lets in; nil if there is none.
func (c admissionController) planOf(ctx context.Context, admission *releasev1alpha1.ReleasePlanAdmission) (*releasev1alpha1.ReleasePlan, error) {
	if admission.Spec.Origin == "" {
		return nil, nil
	}
	var plans releasev1alpha1.ReleasePlanList
	err := c.client.List(ctx, &plans, client.InNamespace(admission.Spec.Origin), client.MatchingFields{indexTarget: admission.Namespace}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("the ReleasePlans of namespace %s cannot be listed: %w", admission.Spec.Origin, err)
	}
	words := c.options.Vocabulary
	for i := range plans.Items {
		plan := &plans.Items[i]
		if plan.DeletionTimestamp != nil || !pairing.Means(words, plan, admission) {
			continue
		}
		candidates, err := pairing.Candidates(ctx, c.client, indexAdmission, words, plan)
		if err != nil {
			return nil, err
		}
		if found, _ := pairing.Find(words, plan, candidates); found != nil && found.Name == admission.Name {
			return plan, nil
		}
	}
	return nil, nil
}

func (c admissionController) matched(admission *releasev1alpha1.ReleasePlanAdmission, plan *releasev1alpha1.ReleasePlan) metav1.Condition {
	condition := metav1.Condition{
		Type: releasev1alpha1.ConditionMatched, Status: metav1.ConditionFalse, Reason: reasonNotMatched, ObservedGeneration: admission.Generation,
		LastTransitionTime: metav1.NewTime(c.clock.Now().UTC().Truncate(time.Second)),
		Message:            fmt.Sprintf("no ReleasePlan of namespace %s releases through it", admission.Spec.Origin),
	}
	if admission.Spec.Origin == "" {
		condition.Message = "it lets nobody in: set spec.origin to the namespace that Releases come from"
	}
	if plan != nil {
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonMatched
		condition.Message = fmt.Sprintf("the ReleasePlan %s/%s releases through it", plan.Namespace, plan.Name)
	}
	return condition
}
