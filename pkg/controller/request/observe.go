package request

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// observation is what the controller sees of a request and around it.
type observation struct {
	decision.FoldInput
	key fingerprint.Key
	// equals are the other requests with the fingerprint. They must not be changed.
	equals []*approvalv1alpha1.ResourceCheckRequest
	// again is when to look again at what announces itself by no event; 0 if everything does.
	again time.Duration
}

func (s *observation) wait(d time.Duration) { s.again = soonest(s.again, d) }

// observe gathers what a request's status follows from.
func (c *Controller) observe(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest) (*observation, error) {
	s := &observation{key: keyOf(request)}
	s.FoldInput = decision.FoldInput{Request: request, Fingerprint: s.key.String(), Now: c.Clock.Now()}
	for _, look := range []func(context.Context, *observation) error{
		c.observeEquals, c.observeObject, c.observeRules, c.observeRun, c.observeChecks,
	} {
		if err := look(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (c *Controller) observeEquals(ctx context.Context, s *observation) error {
	found, err := c.requestsBy(ctx, indexFingerprint, s.Fingerprint)
	if err != nil {
		return err
	}
	s.equals = slices.DeleteFunc(found, func(r *approvalv1alpha1.ResourceCheckRequest) bool { return r.UID == s.Request.UID })
	s.Leader = decision.Leader(s.Request, s.equals, s.Now)
	return nil
}

func (c *Controller) observeRules(ctx context.Context, s *observation) error {
	var list approvalv1alpha1.ResourceCheckRuleList
	if err := c.Client.List(ctx, &list, client.MatchingFields{indexRuleObject: objectKeyOf(s.Request)}); err != nil {
		return fmt.Errorf("rules cannot be listed: %w", err)
	}
	use := decision.Use(s.Request.Spec.Use)
	for i := range list.Items {
		rule := decision.FromRule(&list.Items[i])
		if list.Items[i].DeletionTimestamp == nil && decision.AppliesTo(&rule, use) {
			s.Rules = append(s.Rules, decision.FoldRule{RuleSnapshot: snapshot(&list.Items[i]), NotReady: rule.NotReady})
		}
	}
	// Equal requests ask in the same order, so that of two at once one makes all checks.
	slices.SortFunc(s.Rules, func(a, b decision.FoldRule) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func snapshot(rule *approvalv1alpha1.ResourceCheckRule) approvalv1alpha1.RuleSnapshot {
	author := rule.Annotations[approvalv1alpha1.AnnotationChangedBy]
	if author == "" {
		author = rule.Annotations[approvalv1alpha1.AnnotationCreatedBy]
	}
	if author == "" {
		author = approvalv1alpha1.UnknownUser
	}
	return approvalv1alpha1.RuleSnapshot{Name: rule.Name, UID: rule.UID, Generation: rule.Generation, Spec: rule.Spec, LastAuthor: author}
}

// observeRun looks whether the run of the request is over. A run that cannot be seen now goes on: the gate sees its end
// by itself, and what is written here is final.
func (c *Controller) observeRun(ctx context.Context, s *observation) error {
	run := s.Request.Spec.Context.Resource
	if run == nil {
		return nil
	}
	why, ended, err := c.runEnded(ctx, run)
	if errors.Is(err, origin.ErrUnobserved) {
		s.wait(retryUnobserved)
		return nil
	}
	s.Context = decision.FoldContext{Ended: ended, Why: why}
	return err
}

// runEnded believes a watch that shows the run going on, finishing or being deleted. That a run is gone is asked of the
// API server, because a watch may lag behind.
func (c *Controller) runEnded(ctx context.Context, run *approvalv1alpha1.ObjectReference) (why string, ended bool, err error) {
	node, err := c.Runs.Watched.Get(ctx, run.GroupKind(), run.Namespace, run.Name)
	if err == nil && node.UID == run.UID {
		why, ended = origin.Ended(node, run.UID)
		return why, ended, nil
	}
	node, err = c.Runs.Live.Get(ctx, run.GroupKind(), run.Namespace, run.Name)
	if err != nil && !errors.Is(err, origin.ErrNotFound) {
		return "", false, err
	}
	why, ended = origin.Ended(node, run.UID)
	return why, ended, nil
}

// observeChecks looks at every check that the request refers to, and for others that carry its label.
func (c *Controller) observeChecks(ctx context.Context, s *observation) error {
	referred := map[types.UID]bool{}
	for i := range s.Request.Status.RequestRefs {
		ref := &s.Request.Status.RequestRefs[i]
		referred[ref.UID] = true
		check, err := c.observeCheck(ctx, s, ref)
		if err != nil {
			return err
		}
		s.Checks = append(s.Checks, *check)
	}
	for _, live := range c.children.of(s.Request.UID) {
		if !referred[live.GetUID()] {
			s.Strays = append(s.Strays, c.stray(live))
		}
	}
	return nil
}

// observeCheck reads a check from its watch. While the watch has not seen it, nothing tells of its changes, so it is read
// from the API server and looked at again.
func (c *Controller) observeCheck(ctx context.Context, s *observation, ref *approvalv1alpha1.CheckReference) (*decision.FoldCheck, error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	check := &decision.FoldCheck{Ref: *ref}
	kind, ok := c.Kinds.Lookup(gvk.GroupKind())
	switch {
	case !ok:
		check.Problem = "the kind " + gvk.GroupKind().String() + " is not registered; ask a cluster administrator for its CheckKind"
		return check, nil
	case kind.Ready() != nil:
		check.Problem = kind.Ready().Error()
		return check, nil
	}
	live := c.children.get(gvk.GroupKind(), ref.Namespace, ref.ObjectName)
	if live == nil || live.GetUID() != ref.UID {
		var err error
		if live, err = c.liveCheck(ctx, kind.GroupVersionKind(), ref.Namespace, ref.ObjectName); err != nil {
			return nil, err
		}
		s.wait(retryUnobserved)
	}
	return check, c.readCheck(ctx, kind, live, check)
}

// liveCheck reads a check from the API server; nil if it is not there.
func (c *Controller) liveCheck(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if apimeta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the kind %s cannot be looked up: %w", gvk, err)
	}
	live, err := c.Dynamic.Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the check %s %s/%s cannot be read: %w", gvk.Kind, namespace, name, err)
	}
	return live, nil
}

// readCheck fills in what the live check says; live is nil if there is none.
func (c *Controller) readCheck(ctx context.Context, kind *checks.Kind, live *unstructured.Unstructured, check *decision.FoldCheck) error {
	switch {
	case live == nil || live.GetUID() != check.Ref.UID:
		check.Gone = true
		return nil
	case live.GetDeletionTimestamp() != nil:
		check.Problem = "the check " + describe(live) + " is being deleted; it is asked anew when it is gone"
		return nil
	}
	check.Ref.SpecDigest = kind.SpecDigest(live)
	check.Status = readStatus(kind, live)
	var err error
	check.Revocation, err = c.revocation(ctx, kind, live)
	return err
}

func readStatus(kind *checks.Kind, live *unstructured.Unstructured) (status duckStatus) {
	status = kind.Read(live)
	if status.State == pendingState && len(status.WaitingFor) == 0 && status.Message == "" {
		status.WaitingFor, status.Message = kind.Initial(live)
	}
	return status
}

// revocation is who took the approval back. ApprovalRequests say it themselves; for checks of other kinds an owner says
// it with an ApprovalResponse, which admission lets through only with the verb revoke.
func (c *Controller) revocation(ctx context.Context, kind *checks.Kind, live *unstructured.Unstructured) (*approvalv1alpha1.CheckRevocation, error) {
	if kind.GroupVersionKind().GroupKind() == approvalRequestKind {
		return ownRevocation(live), nil
	}
	var answers approvalv1alpha1.ApprovalResponseList
	if err := c.Client.List(ctx, &answers, client.InNamespace(live.GetNamespace()), client.MatchingFields{indexAnswered: string(live.GetUID())}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("answers cannot be listed: %w", err)
	}
	var first *approvalv1alpha1.ApprovalResponse
	for i := range answers.Items {
		a := &answers.Items[i]
		if a.Spec.Decision == approvalv1alpha1.DecisionRevoke && a.Spec.AsOwner && a.Spec.Responder != nil && (first == nil || a.CreationTimestamp.Before(&first.CreationTimestamp)) {
			first = a
		}
	}
	if first == nil {
		return nil, nil
	}
	return &approvalv1alpha1.CheckRevocation{
		Username: first.Spec.Responder.Username, Asserted: first.Spec.Responder.Asserted(), ByOwner: true, At: first.CreationTimestamp, Comment: first.Spec.Comment,
	}, nil
}

func ownRevocation(live *unstructured.Unstructured) *approvalv1alpha1.CheckRevocation {
	raw, ok, err := unstructured.NestedMap(live.Object, "status", "revocation")
	if err != nil || !ok {
		return nil
	}
	revocation := &approvalv1alpha1.CheckRevocation{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, revocation) != nil {
		return nil
	}
	return revocation
}

// stray is a check that carries the request's label and stands in no reference.
func (c *Controller) stray(live *unstructured.Unstructured) decision.FoldCheck {
	check := decision.FoldCheck{Ref: refTo(live, "")}
	if live.GetDeletionTimestamp() != nil {
		check.Gone = true
		return check
	}
	if kind, ok := c.Kinds.Lookup(live.GroupVersionKind().GroupKind()); ok {
		check.Status = kind.Read(live)
	}
	return check
}

func refTo(check *unstructured.Unstructured, rule string) approvalv1alpha1.CheckReference {
	return approvalv1alpha1.CheckReference{
		Name: rule, APIVersion: check.GetAPIVersion(), Kind: check.GetKind(),
		Namespace: check.GetNamespace(), ObjectName: check.GetName(), UID: check.GetUID(),
	}
}

func describe(check *unstructured.Unstructured) string {
	return check.GetKind() + " " + check.GetNamespace() + "/" + check.GetName()
}
