package request

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/identity"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// maxExcluded bounds the list of those who may not answer, as its schema has it.
const maxExcluded = 64

// facts are what is to be told about a request, whatever rule asks.
type facts struct {
	hops       []approvalv1alpha1.ContextHop
	pipeline   string
	parameters []approvalv1alpha1.Parameter
	// person is who is behind the run, or answers for the Release.
	person string
	// unknown says that the creator of some object on the way is not known.
	unknown  bool
	excluded []string
}

// factsOf climbs from the request's pod or run to whoever is behind it. It fails while the way cannot be seen whole: to
// ask with less would let somebody approve his own run.
func (c *Controller) factsOf(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest) (*facts, error) {
	f := &facts{person: personOf(request)}
	f.exclude(subjectName(request.Spec.Context.Subject))
	if by := request.Spec.RequestedBy; by != nil {
		f.exclude(by.Username)
	}
	if request.Spec.Context.Resource == nil {
		return f, nil
	}
	start, err := c.beginning(ctx, &request.Spec.Context)
	if err != nil {
		return nil, err
	}
	climb, err := c.Runs.Climber.ClimbFrom(ctx, start)
	if err != nil {
		return nil, fmt.Errorf("who is behind %s cannot be seen yet: %w", start, err)
	}
	if err := f.climbed(climb, c.Runs.Since(), func(user string) (bool, error) { return c.actsAs(ctx, user) }); err != nil {
		return nil, err
	}
	if start.Release != nil {
		f.released(start.Release)
	}
	if err := c.startedFor(ctx, climb.Hops[len(climb.Hops)-1].Node, f); err != nil {
		return nil, err
	}
	f.pipeline, f.parameters = climb.Resource.Pipeline, climb.Resource.Parameters
	return f, nil
}

// startedFor adds who is behind a run that our own controller started for a Release: it did so for them.
func (c *Controller) startedFor(ctx context.Context, run *origin.Node, f *facts) error {
	since := c.Runs.Since()
	if creator, ok := run.Creator(since); !ok || creator != c.options.Username {
		return nil
	}
	release, err := origin.MadeFor(ctx, c.Runs.Watched, run, c.Clock.Now())
	if err != nil {
		return err
	}
	if release == nil {
		f.unknown = true
		return nil
	}
	creator, ok := release.Creator(since)
	acts, err := c.actsAs(ctx, creator)
	if err != nil {
		return err
	}
	f.unknown = f.unknown || !ok || acts
	f.exclude(creator)
	f.released(release.Release)
	return nil
}

// personOf is the user behind a request that no run asks.
func personOf(request *approvalv1alpha1.ResourceCheckRequest) string {
	by := request.Spec.RequestedBy
	if request.Spec.Context.Resource != nil || by == nil {
		return approvalv1alpha1.UnknownUser
	}
	return orUnknown(by.Username)
}

// orUnknown hides names that stand for no person.
func orUnknown(user string) string {
	if user == "" || strings.HasPrefix(user, "system:") {
		return approvalv1alpha1.UnknownUser
	}
	return user
}

// beginning is where the climb starts: the pod that asked, or the run if the pod is gone or a person asked. Admission
// has proven the way from the pod to the run.
func (c *Controller) beginning(ctx context.Context, in *approvalv1alpha1.RequestContext) (*origin.Node, error) {
	if in.Pod != nil {
		pod, err := c.node(ctx, &approvalv1alpha1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: in.Pod.Namespace, Name: in.Pod.Name, UID: in.Pod.UID})
		if !errors.Is(err, origin.ErrNotFound) {
			return pod, err
		}
	}
	return c.node(ctx, in.Resource)
}

// node reads an object by name and UID, from the watches if they have it.
func (c *Controller) node(ctx context.Context, ref *approvalv1alpha1.ObjectReference) (*origin.Node, error) {
	node, err := c.Runs.Watched.Get(ctx, ref.GroupKind(), ref.Namespace, ref.Name)
	if err != nil || node.UID != ref.UID {
		node, err = c.Runs.Live.Get(ctx, ref.GroupKind(), ref.Namespace, ref.Name)
	}
	switch {
	case err != nil:
		return nil, err
	case node.UID != ref.UID:
		return nil, fmt.Errorf("%s %s/%s is another one than was asked for: %w", ref.Kind, ref.Namespace, ref.Name, origin.ErrNotFound)
	}
	return node, nil
}

// actsAs tells whether a connector acts as the user. An object created by him may come from anybody who may use the
// connector.
func (c *Controller) actsAs(ctx context.Context, user string) (bool, error) {
	return identity.ActsAs(ctx, c.Client, indexIdentity, user)
}

// climbed notes the creator of every object on the way; the last one is behind all of them. A controller that made the
// last one did so for somebody who cannot be seen.
func (f *facts) climbed(climb *origin.Climb, since time.Time, actsAs func(user string) (bool, error)) error {
	for i := range climb.Hops {
		hop := &climb.Hops[i]
		creator, ok := hop.Node.Creator(since)
		acts, err := actsAs(creator)
		if err != nil {
			return err
		}
		if !ok || acts {
			creator, f.unknown = approvalv1alpha1.UnknownUser, true
		} else {
			f.exclude(creator)
		}
		f.unknown = f.unknown || hop.Detached
		f.person = orUnknown(creator)
		f.hops = append(f.hops, approvalv1alpha1.ContextHop{Resource: hop.Node.Reference(), CreatedBy: creator, Proven: hop.Proven})
	}
	return nil
}

// released adds who answers for a Release: he asks for it as much as whoever made it.
func (f *facts) released(release *origin.Release) {
	f.person = orUnknown(release.Accountable())
	f.exclude(release.Accountable())
}

func (f *facts) exclude(user string) {
	if user == "" || slices.Contains(f.excluded, user) {
		return
	}
	if len(f.excluded) == maxExcluded {
		// Whoever does not fit could approve for himself.
		f.unknown = true
		return
	}
	f.excluded = append(f.excluded, user)
}

// subjectName is the subject as a user name.
func subjectName(s *approvalv1alpha1.Subject) string {
	switch {
	case s == nil:
		return ""
	case s.Kind == approvalv1alpha1.SubjectServiceAccount:
		return "system:serviceaccount:" + s.Namespace + ":" + s.Name
	}
	return s.Name
}

// question is all that an approver needs to know.
func (f *facts) question(request *approvalv1alpha1.ResourceCheckRequest, rule *approvalv1alpha1.RuleSnapshot, deadline *metav1.Time) *approvalv1alpha1.CheckRequest {
	spec := &request.Spec
	q := &approvalv1alpha1.CheckRequest{
		Ref:    approvalv1alpha1.RequestReference{Namespace: request.Namespace, Name: request.Name, UID: request.UID},
		Object: *objectOf(request), Person: f.person, Use: spelledOut(spec.Use), Reason: spec.Reason,
		Duration: grantedFor(spec, rule).String(), Context: f.hops, Pipeline: f.pipeline, Parameters: f.parameters,
		Deadline: notLaterThanUse(deadline, spec.TimeRange), Rule: *rule, Excluded: f.excluded, UnknownCreator: f.unknown,
	}
	if spec.Context.Subject != nil {
		q.Subject = *spec.Context.Subject
	}
	if spec.RequestedBy != nil {
		q.RequestedBy = *spec.RequestedBy
	}
	return q
}

// spelledOut says what an absent use means, because approvers should not have to know.
func spelledOut(use *approvalv1alpha1.OperationSelector) *approvalv1alpha1.OperationSelector {
	if use == nil {
		return &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationWrite}}
	}
	return use
}

// grantedFor is how long the grant would last at most.
func grantedFor(spec *approvalv1alpha1.ResourceCheckRequestSpec, rule *approvalv1alpha1.RuleSnapshot) time.Duration {
	asked := decision.AskedDuration(spec)
	if grant := rule.Spec.Grant; grant != nil && grant.MaxDuration != nil {
		return min(asked, grant.MaxDuration.Duration)
	}
	return asked
}

func notLaterThanUse(deadline *metav1.Time, asked *approvalv1alpha1.TimeRange) *metav1.Time {
	if asked == nil || asked.Before == nil || deadline != nil && deadline.Before(asked.Before) {
		return deadline
	}
	return asked.Before
}

// contextOf is what a check of any kind says of the question.
func contextOf(request *approvalv1alpha1.ResourceCheckRequest, rule string) *approvalv1alpha1.CheckContext {
	spec := &request.Spec
	c := &approvalv1alpha1.CheckContext{
		Object: *objectOf(request), Resource: spec.Context.Resource, Use: spelledOut(spec.Use), Reason: spec.Reason, Rule: rule,
	}
	if spec.Context.Subject != nil {
		c.Subject = *spec.Context.Subject
	}
	if spec.TimeRange != nil {
		c.Until = spec.TimeRange.Before
	}
	return c
}

func objectOf(request *approvalv1alpha1.ResourceCheckRequest) *approvalv1alpha1.ObjectReference {
	ref := request.Spec.ObjectRef
	ref.Namespace = objectNamespace(request)
	return &ref
}
