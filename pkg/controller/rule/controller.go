// Package rule says whether checks can be made from rules.
package rule

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/checks/trial"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// How often a rule is looked at again: other admission of the cluster, and objects that are no connectors, change
// unseen.
const (
	recheckReady    = 10 * time.Minute
	recheckNotReady = 15 * time.Second
	// recheckLagging is for a registry that is about to take a kind up, after a start.
	recheckLagging = 200 * time.Millisecond
)

// Controller reconciles rules.
type Controller struct {
	clock    clock.PassiveClock
	client   client.Client
	reader   client.Reader // uncached: protected objects are of any kind
	registry *checks.Registry
	recorder events.EventRecorder
	kinds    chan event.TypedGenericEvent[client.Object]
}

// NewController returns a Controller. reader must not be a cache.
func NewController(clock clock.PassiveClock, c client.Client, reader client.Reader, registry *checks.Registry, recorder events.EventRecorder) *Controller {
	return &Controller{
		clock: clock, client: c, reader: reader, registry: registry, recorder: recorder,
		kinds: make(chan event.TypedGenericEvent[client.Object], 1),
	}
}

// Register adds the controller to the manager. Rules are looked at again when check kinds or their connector
// change. The registry tells of kinds, not a watch, because it is the registry that is asked.
func (c *Controller) Register(_ context.Context, mgr ctrl.Manager) error {
	c.registry.OnChange(c.kindChanged)
	return ctrl.NewControllerManagedBy(mgr).
		Named("rule").
		For(&approvalv1alpha1.ResourceCheckRule{}).
		WatchesRawSource(source.Channel(c.kinds, handler.EnqueueRequestsFromMapFunc(c.allRules))).
		Watches(&connectorsv1alpha1.Connector{}, handler.EnqueueRequestsFromMapFunc(c.rulesOfConnector), builder.OnlyMetadata).
		Complete(c)
}

// kindChanged does not block: one waiting event is as good as many.
func (c *Controller) kindChanged(schema.GroupKind) {
	select {
	case c.kinds <- event.TypedGenericEvent[client.Object]{Object: &approvalv1alpha1.CheckKind{}}:
	default:
	}
}

func (c *Controller) allRules(ctx context.Context, _ client.Object) []ctrl.Request {
	return c.rules(ctx, "", func(*approvalv1alpha1.ResourceCheckRule) bool { return true })
}

func (c *Controller) rulesOfConnector(ctx context.Context, obj client.Object) []ctrl.Request {
	return c.rules(ctx, obj.GetNamespace(), func(rule *approvalv1alpha1.ResourceCheckRule) bool {
		return rule.Spec.ObjectRef.Kind == connectorsv1alpha1.KindConnector && rule.Spec.ObjectRef.Name == obj.GetName()
	})
}

func (c *Controller) rules(ctx context.Context, namespace string, wanted func(*approvalv1alpha1.ResourceCheckRule) bool) []ctrl.Request {
	var list approvalv1alpha1.ResourceCheckRuleList
	if err := c.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "rules cannot be listed")
		return nil
	}
	var requests []ctrl.Request
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile brings the status of one rule up to date.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var rule approvalv1alpha1.ResourceCheckRule
	if err := c.client.Get(ctx, req.NamespacedName, &rule); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !rule.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if lags, err := c.registryLags(ctx, &rule); err != nil || lags {
		return ctrl.Result{RequeueAfter: recheckLagging}, err
	}
	found, err := c.inspect(ctx, &rule)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := c.writeStatus(ctx, &rule, found); err != nil {
		return ctrl.Result{}, err
	}
	if found.Reason != "" {
		return ctrl.Result{RequeueAfter: recheckNotReady}, nil
	}
	return ctrl.Result{RequeueAfter: recheckReady}, nil
}

// registryLags tells that the rule's kind exists, but has not reached the registry. A rule that is not ready closes what it
// guards, so nothing negative is said before everything has been seen.
func (c *Controller) registryLags(ctx context.Context, rule *approvalv1alpha1.ResourceCheckRule) (bool, error) {
	template := &rule.Spec.CheckTemplate
	gk := schema.FromAPIVersionAndKind(template.APIVersion, template.Kind).GroupKind()
	if _, ok := c.registry.Lookup(gk); ok {
		return false, nil
	}
	var kinds approvalv1alpha1.CheckKindList
	if err := c.client.List(ctx, &kinds); err != nil {
		return false, err
	}
	return slices.ContainsFunc(kinds.Items, func(k approvalv1alpha1.CheckKind) bool {
		return schema.FromAPIVersionAndKind(k.Spec.APIVersion, k.Spec.Kind).GroupKind() == gk
	}), nil
}

// inspect finds the first thing that keeps the rule from asking.
func (c *Controller) inspect(ctx context.Context, rule *approvalv1alpha1.ResourceCheckRule) (trial.Finding, error) {
	if when := rule.Spec.When; when != nil && when.HTTP != nil {
		if _, err := operation.NewHTTPMatch(when.HTTP.Methods, when.HTTP.Paths); err != nil {
			return trial.Finding{Reason: approvalv1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
				"spec.when cannot be read, so the rule applies to everything: %v", err)}, nil
		}
	}
	found, err := trial.Run(ctx, c.client, c.registry, rule)
	if err != nil || found.Reason != "" {
		return found, err
	}
	return c.inspectObject(ctx, rule), nil
}

// inspectObject tells of an object that is not there: the rule may have come first.
func (c *Controller) inspectObject(ctx context.Context, rule *approvalv1alpha1.ResourceCheckRule) trial.Finding {
	ref := rule.Spec.ObjectRef
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	err := c.reader.Get(ctx, client.ObjectKey{Namespace: rule.Namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) {
		return trial.Finding{Reason: approvalv1alpha1.ReasonObjectMissing, Message: fmt.Sprintf(
			"there is no %s %s in namespace %s yet; the rule applies as soon as there is", ref.Kind, ref.Name, rule.Namespace)}
	}
	return trial.Finding{}
}

func (c *Controller) writeStatus(ctx context.Context, rule *approvalv1alpha1.ResourceCheckRule, found trial.Finding) error {
	condition := c.readyCondition(rule, found)
	next := approvalv1alpha1.ResourceCheckRuleStatus{
		ObservedGeneration: rule.Generation,
		Conditions:         append([]metav1.Condition(nil), rule.Status.Conditions...),
	}
	apimeta.SetStatusCondition(&next.Conditions, condition)
	if equality.Semantic.DeepEqual(&rule.Status, &next) {
		return nil
	}
	written, err := status.TryApply(ctx, c.client, rule, &next)
	before := apimeta.FindStatusCondition(rule.Status.Conditions, approvalv1alpha1.ConditionReady)
	if written && (before == nil || before.Reason != condition.Reason) {
		c.recorder.Eventf(rule, nil, eventType(found), condition.Reason, "Inspect", "%s", announce.Note(condition.Message))
	}
	return err
}

func (c *Controller) readyCondition(rule *approvalv1alpha1.ResourceCheckRule, found trial.Finding) metav1.Condition {
	if found.Reason == "" {
		return metav1.Condition{
			Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: approvalv1alpha1.ReasonReady,
			ObservedGeneration: rule.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()), Message: "checks can be made from this rule",
		}
	}
	return metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: found.Reason,
		ObservedGeneration: rule.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()), Message: found.Message,
	}
}

func eventType(found trial.Finding) string {
	if found.Reason == "" {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}
