package request

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
)

type duckStatus = duckv1alpha1.CheckStatus

const pendingState = duckv1alpha1.CheckPending

var approvalRequestKind = approvalv1alpha1.GroupVersion.WithKind("ApprovalRequest").GroupKind()

// errProblem is what an error Is when somebody must repair what keeps a check from being made. Its text is for people.
var errProblem = errors.New("the check cannot be made")

type problem string

func (p problem) Error() string   { return string(p) }
func (p problem) Is(e error) bool { return e == errProblem }

// ask makes the checks that the plan wants and notes in the observation what came of it. The wait is how long to leave
// the rest for. An error is one that passes: what was made before it is noted.
func (c *Controller) ask(ctx context.Context, s *observation, plan *decision.Plan) (time.Duration, error) {
	if plan.Again {
		if wait := c.reasks.delay(s.Request.UID, c.Clock.Now()); wait > 0 {
			c.metrics.reasksDelayed.Inc()
			return wait, nil
		}
	}
	facts, err := c.factsOf(ctx, s.Request)
	if err != nil {
		return 0, err
	}
	var wait time.Duration
	for i := range plan.Ask {
		rule := &plan.Ask[i]
		check, err := c.askRule(ctx, s, facts, rule)
		switch {
		case errors.Is(err, errProblem):
			s.Asked = append(s.Asked, decision.FoldAsked{Rule: rule.Name, Problem: err.Error()})
			wait = retryProblem
		case err != nil:
			return wait, err
		default:
			c.metrics.asked(plan.Again)
			s.Asked = append(s.Asked, decision.FoldAsked{Rule: rule.Name, Check: check})
		}
	}
	return wait, nil
}

func (c *Controller) askRule(ctx context.Context, s *observation, facts *facts, rule *approvalv1alpha1.RuleSnapshot) (*decision.FoldCheck, error) {
	kind, resource, err := c.kindFor(&rule.Spec.CheckTemplate, objectNamespace(s.Request))
	if err != nil {
		return nil, err
	}
	check, err := kind.Build(&checks.BuildInput{
		Namespace: objectNamespace(s.Request), Name: checkName(s, rule), RequestUID: s.Request.UID,
		Template: &rule.Spec.CheckTemplate, Context: contextOf(s.Request, rule.Name),
		Question: facts.question(s.Request, rule, kind.Deadline(&rule.Spec.CheckTemplate, s.Now)),
	})
	if err != nil {
		return nil, problem("rule " + strconv.Quote(rule.Name) + ": " + err.Error())
	}
	made, err := c.create(ctx, s, resource, check)
	if err != nil {
		return nil, err
	}
	ref := refTo(made, rule.Name)
	ref.SpecDigest = kind.SpecDigest(made)
	return &decision.FoldCheck{Ref: ref, Status: readStatus(kind, made)}, nil
}

func (c *Controller) kindFor(template *approvalv1alpha1.CheckTemplate, namespace string) (*checks.Kind, dynamic.ResourceInterface, error) {
	gk := schema.FromAPIVersionAndKind(template.APIVersion, template.Kind).GroupKind()
	kind, ok := c.Kinds.Lookup(gk)
	if !ok {
		return nil, nil, problem("the kind " + gk.String() + " is not registered; ask a cluster administrator for its CheckKind")
	}
	if err := kind.Ready(); err != nil {
		return nil, nil, problem(err.Error())
	}
	gvk := kind.GroupVersionKind()
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if apimeta.IsNoMatchError(err) {
		return nil, nil, problem("the API server does not serve the kind " + gvk.String())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the kind %s cannot be looked up: %w", gvk, err)
	}
	return kind, c.Dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// checkName is the same for whoever asks the same, so even a race ends in one check; and another one for another use,
// for the object after a change, and once an equal request has ended.
func checkName(s *observation, rule *approvalv1alpha1.RuleSnapshot) string {
	asking := decision.EndedKey(s.equals) + "|" + strconv.FormatInt(s.Object.Generation, 10) + "|" + fingerprint.UseText(s.Request.Spec.Use)
	return fingerprint.CheckName(s.key, rule.Name, string(rule.UID), rule.Generation, asking)
}

// create makes the check. One that has its name already is never adopted.
func (c *Controller) create(ctx context.Context, s *observation, in dynamic.ResourceInterface, check *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	made, err := in.Create(ctx, check, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		return made, nil
	case apierrors.IsAlreadyExists(err):
		if err := c.clear(ctx, s, in, check); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the name of the check was taken by a leftover: %w", errStale)
	case passes(err):
		return nil, fmt.Errorf("the check %s cannot be made: %w", describe(check), err)
	}
	return nil, problem("the API server refuses the check " + describe(check) + ": " + err.Error())
}

// passes tells whether an error goes away by itself.
func passes(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= 500 || code == 429 || code == 409 || code == 0
}

// clear takes a leftover away that has the name of the check: one that this controller made for this request and did
// not get to note, or one of a request that is there no more. Whatever somebody else made stays, and is named.
func (c *Controller) clear(ctx context.Context, s *observation, in dynamic.ResourceInterface, check *unstructured.Unstructured) error {
	found, err := in.Get(ctx, check.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("the check %s cannot be read: %w", describe(check), err)
	}
	if by := found.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy]; by != c.options.Username {
		return problem(fmt.Sprintf("the %s has the name of the check but was made by %q, so it is no check of this request; have it deleted", describe(found), by))
	}
	asker := found.GetLabels()[approvalv1alpha1.LabelRequestUID]
	if asker == string(s.Request.UID) {
		// Only the API server knows whether the status names it after all.
		if err := c.confirmCurrent(ctx, s.Request); err != nil {
			return err
		}
	} else if exists, err := c.askerExists(ctx, s, asker); err != nil || exists {
		return errors.Join(err, errStale)
	}
	ctrl.LoggerFrom(ctx).Info("a leftover has the name of a check and is deleted", "check", describe(found), "asker", asker)
	return deleteExactly(ctx, in, found)
}

// askerExists asks the API server whether the request that a check was made for is still there: then the cache lags
// behind, and this request is going to follow that one, or to use another name.
func (c *Controller) askerExists(ctx context.Context, s *observation, uid string) (bool, error) {
	var list approvalv1alpha1.ResourceCheckRequestList
	if err := c.Live.List(ctx, &list, client.MatchingLabels{approvalv1alpha1.LabelFingerprint: s.Fingerprint}); err != nil {
		return false, fmt.Errorf("equal requests cannot be listed: %w", err)
	}
	for i := range list.Items {
		if string(list.Items[i].UID) == uid {
			return true, nil
		}
	}
	return false, nil
}

// deleteExactly deletes the object as it was seen.
func deleteExactly(ctx context.Context, in dynamic.ResourceInterface, seen *unstructured.Unstructured) error {
	uid, version := seen.GetUID(), seen.GetResourceVersion()
	err := in.Delete(ctx, seen.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return errStale
	}
	return fmt.Errorf("the check %s cannot be deleted: %w", describe(seen), err)
}

// confirmCurrent tells whether the request is stored as it was seen.
func (c *Controller) confirmCurrent(ctx context.Context, seen *approvalv1alpha1.ResourceCheckRequest) error {
	stored := &approvalv1alpha1.ResourceCheckRequest{}
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(seen), stored)
	if apierrors.IsNotFound(err) || err == nil && stored.ResourceVersion != seen.ResourceVersion {
		return errStale
	}
	return err
}

// confirm asks the API server for rules before it is said that none asks: the cache may not have a new one yet.
func (c *Controller) confirm(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest, plan *decision.Plan) error {
	ready := apimeta.FindStatusCondition(plan.Status.Conditions, approvalv1alpha1.ConditionReady)
	if !plan.Transition || ready == nil || ready.Reason != approvalv1alpha1.ReasonNoChecksNeeded {
		return nil
	}
	var list approvalv1alpha1.ResourceCheckRuleList
	if err := c.Live.List(ctx, &list, client.InNamespace(objectNamespace(request))); err != nil {
		return fmt.Errorf("rules cannot be listed: %w", err)
	}
	use := decision.Use(request.Spec.Use)
	for i := range list.Items {
		rule := decision.FromRule(&list.Items[i])
		if ruleObject(&list.Items[i])[0] == objectKeyOf(request) && list.Items[i].DeletionTimestamp == nil && decision.AppliesTo(&rule, use) {
			return errStale
		}
	}
	return nil
}
