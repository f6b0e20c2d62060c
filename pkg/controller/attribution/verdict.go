package attribution

import (
	"context"
	"errors"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/identity"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// verdict is who is accountable.
type verdict struct {
	attribution.Verdict
	// asked tells that it is about who asks for himself.
	asked bool
	// settled is when the directory confirmed the author for this very Release; zero if it did not.
	settled time.Time
}

// unseenError is for what cannot be told yet: the check waits. Its text is a sentence for people.
type unseenError struct{ reason, why, waitingFor string }

// Error implements error.
func (e *unseenError) Error() string { return e.why }

func (e *unseenError) finding() finding {
	return finding{state: duckv1alpha1.CheckPending, reason: e.reason, message: e.why + ".", waitingFor: e.waitingFor, again: retryUnseen}
}

// problemError is for what somebody must repair. Its text is a sentence for people.
type problemError struct{ why string }

// Error implements error.
func (e *problemError) Error() string { return e.why }

// unseen makes an error of a Source wait, and lets others pass.
func unseen(err error, what string) error {
	if errors.Is(err, origin.ErrUnobserved) {
		return &unseenError{approvalv1alpha1.ReasonOriginPending, fmt.Sprintf("%s cannot be seen now (%s)", what, err.Error()), what}
	}
	return err
}

// verdict finds who is accountable for what the check is about: the resource that the rule names, the context of the
// request, or the person who asks.
func (c *Controller) verdict(ctx context.Context, check *approvalv1alpha1.AttributionCheck, now time.Time) (verdict, error) {
	if ok, why := c.Guard.Guarded(); !ok {
		return verdict{}, &unseenError{approvalv1alpha1.ReasonUnguarded, "nothing that was recorded can be relied on now: " + why, "the admission policies"}
	}
	request, err := c.request(ctx, check)
	if err != nil {
		return verdict{}, err
	}
	facts := attribution.Facts{AnyAuthor: !requireHuman(check), Now: now}
	ref := request.Spec.Context.Resource
	if check.Spec.Resource != nil {
		ref = check.Spec.Resource.DeepCopy()
		ref.Namespace = check.Namespace
	}
	switch {
	case ref == nil:
		return c.ofPerson(ctx, request, check, facts)
	case c.Since().IsZero():
		return verdict{}, &unseenError{approvalv1alpha1.ReasonNotReady, "it is not established yet since when creators are recorded", "the records of creators"}
	}
	node, err := c.node(ctx, ref)
	if errors.Is(err, origin.ErrNotFound) {
		return verdict{Verdict: attribution.Verdict{
			Reason:  approvalv1alpha1.ReasonNoAuthor,
			Message: fmt.Sprintf("%s %s/%s is gone, so nobody can be shown to have made it: make it anew", ref.Kind, ref.Namespace, ref.Name),
		}}, nil
	}
	if err != nil {
		return verdict{}, unseen(err, fmt.Sprintf("%s %s/%s", ref.Kind, ref.Namespace, ref.Name))
	}
	if node.Release != nil {
		return c.ofRelease(ctx, node, facts)
	}
	return c.ofRun(ctx, node, check, facts)
}

// request is what asks for the check.
func (c *Controller) request(ctx context.Context, check *approvalv1alpha1.AttributionCheck) (*approvalv1alpha1.ResourceCheckRequest, error) {
	question := check.Spec.Request
	if question == nil {
		return nil, &problemError{"The check carries no question, because it was not made from a rule"}
	}
	request := &approvalv1alpha1.ResourceCheckRequest{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: question.Ref.Namespace, Name: question.Ref.Name}, request)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("request %s/%s cannot be read: %w", question.Ref.Namespace, question.Ref.Name, err)
	case err != nil || request.UID != question.Ref.UID:
		return nil, &problemError{fmt.Sprintf("Request %s/%s, which asked for the check, is gone", question.Ref.Namespace, question.Ref.Name)}
	}
	return request, nil
}

// ofPerson is about who asks for himself.
func (c *Controller) ofPerson(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest, check *approvalv1alpha1.AttributionCheck, facts attribution.Facts) (verdict, error) {
	facts.Kind, facts.Namespace, facts.Name = "ResourceCheckRequest", request.Namespace, request.Name
	if by := request.Spec.RequestedBy; by != nil {
		facts.Creator, facts.CreatorKnown = by.Username, true
	}
	v, err := c.settle(ctx, check, facts)
	v.asked = true
	return v, err
}

// ofRun is about whoever made the topmost run.
func (c *Controller) ofRun(ctx context.Context, node *origin.Node, check *approvalv1alpha1.AttributionCheck, facts attribution.Facts) (verdict, error) {
	climb, err := c.Climber.ClimbFrom(ctx, node)
	if err != nil {
		return verdict{}, unseen(err, "what "+node.String()+" belongs to")
	}
	run := climb.Resource
	facts.Kind, facts.Namespace, facts.Name = run.Kind, run.Namespace, run.Name
	if err := c.creator(run, &facts); err != nil {
		return verdict{}, err
	}
	if check.Spec.Resource != nil && run.UID == node.UID {
		if err := c.lastAuthor(ctx, run, &facts); err != nil {
			return verdict{}, err
		}
	}
	if facts.CreatorKnown && facts.Creator == c.username {
		if made, err := c.startedBy(ctx, run, facts.Now); made != nil || err != nil {
			return ofStarted(made, run), err
		}
	}
	return c.settle(ctx, check, facts)
}

// creator fills in who made the object. A record counts only if the policies keep one of every object of the kind.
func (c *Controller) creator(node *origin.Node, facts *attribution.Facts) error {
	facts.Creator, facts.CreatorKnown = node.Creator(c.Since())
	if !facts.CreatorKnown {
		facts.Creator = approvalv1alpha1.UnknownUser
		return nil
	}
	mapping, err := c.Mapper.RESTMapping(node.GroupKind(), node.Version)
	switch {
	case apimeta.IsNoMatchError(err):
		facts.CreatorKnown = false
	case err != nil:
		return fmt.Errorf("the kind %s cannot be looked up: %w", node.GroupKind(), err)
	default:
		facts.CreatorKnown = c.Guard.Records(mapping.Resource.GroupResource())
	}
	return nil
}

// lastAuthor takes who set the present content of a resource that the rule names for its author: unlike a run's, its content
// may have become another's since it was made. Whom the API server could not name is nobody.
func (c *Controller) lastAuthor(ctx context.Context, node *origin.Node, facts *attribution.Facts) error {
	if !facts.CreatorKnown {
		return nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(node.GroupVersionKind)
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: node.Namespace, Name: node.Name}, object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("who changed %s last cannot be read: %w", node, err)
	}
	by := object.Annotations[approvalv1alpha1.AnnotationChangedBy]
	facts.Changed, facts.CreatorKnown = by != facts.Creator, by != "" && object.UID == node.UID
	facts.Creator = by
	return nil
}

// settle decides, with the plan that the check names where a robot made the thing.
func (c *Controller) settle(ctx context.Context, check *approvalv1alpha1.AttributionCheck, facts attribution.Facts) (verdict, error) {
	if err := c.disown(ctx, &facts); err != nil {
		return verdict{}, err
	}
	if facts.CreatorKnown && attribution.IsRobot(facts.Creator) {
		if err := c.standing(ctx, check, &facts); err != nil {
			return verdict{}, err
		}
	}
	return c.behind(ctx, facts)
}

// behind decides. Somebody as whom a connector acts stands for no plan, either.
func (c *Controller) behind(ctx context.Context, facts attribution.Facts) (verdict, error) {
	v := verdict{Verdict: attribution.Behind(facts)}
	if !v.Attributed() || v.Source != approvalv1alpha1.SourceStanding {
		return v, nil
	}
	acts, err := c.actsAs(ctx, v.Author)
	if acts {
		v.Reason = approvalv1alpha1.ReasonNoAuthor
		v.Message = fmt.Sprintf("%s stands for the ReleasePlan %s, but a connector acts as %s, so whoever may use it may have accepted the plan: let somebody else accept it, then make the thing anew",
			v.Author, facts.Standing.Name, v.Author)
	}
	return v, err
}

// disown takes back what is known of a creator whom a connector acts as: whoever may use the connector may have done it.
func (c *Controller) disown(ctx context.Context, facts *attribution.Facts) error {
	if !facts.CreatorKnown {
		return nil
	}
	acts, err := c.actsAs(ctx, facts.Creator)
	facts.CreatorKnown = !acts
	return err
}

// actsAs tells whether a connector acts as the user.
func (c *Controller) actsAs(ctx context.Context, username string) (bool, error) {
	return identity.ActsAs(ctx, c.Client, indexIdentity, username)
}

// node reads an object, from the watches if they have it: what was recorded when it was made does not change.
func (c *Controller) node(ctx context.Context, ref *approvalv1alpha1.ObjectReference) (*origin.Node, error) {
	kind := ref.GroupKind()
	node, err := c.Watched.Get(ctx, kind, ref.Namespace, ref.Name)
	if err != nil || ref.UID == "" || node.UID != ref.UID {
		node, err = c.Origins.Get(ctx, kind, ref.Namespace, ref.Name)
	}
	if err == nil && ref.UID != "" && node.UID != ref.UID {
		return nil, fmt.Errorf("%s is another one than is meant: %w", node, origin.ErrNotFound)
	}
	return node, err
}
