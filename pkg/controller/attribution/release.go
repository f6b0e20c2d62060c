package attribution

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// ofRelease is about a Release. What was verified for it already is not asked for again.
func (c *Controller) ofRelease(ctx context.Context, node *origin.Node, facts attribution.Facts) (verdict, error) {
	facts.Kind, facts.Namespace, facts.Name = releasev1alpha1.KindRelease, node.Namespace, node.Name
	facts.Author, facts.Automated, facts.Standing = node.Release.Author, node.Release.AutomatedBy != "", node.Release.Standing
	if err := c.creator(node, &facts); err != nil {
		return verdict{}, err
	}
	if err := c.disown(ctx, &facts); err != nil {
		return verdict{}, err
	}
	if v, done, err := c.verified(ctx, node, &facts); done || err != nil {
		return v, err
	}
	if facts.Standing != nil {
		now, _, err := c.plan(ctx, node.Namespace, facts.Standing.Name)
		if err != nil {
			return verdict{}, err
		}
		facts.StandingNow = now
	}
	return c.behind(ctx, facts)
}

// verified takes the guarded status of a Release for what was found out before, if it is about the same author.
func (c *Controller) verified(ctx context.Context, node *origin.Node, facts *attribution.Facts) (verdict, bool, error) {
	author := node.Release.Accountable()
	if !facts.CreatorKnown || author == "" || node.Release.Verified != author || attribution.IsRobot(author) {
		return verdict{}, false, nil
	}
	if acts, err := c.actsAs(ctx, author); err != nil || acts {
		return verdict{}, false, err
	}
	guarded, err := c.guarded(ctx)
	if err != nil || !guarded {
		return verdict{}, false, err
	}
	v := verdict{settled: node.Release.VerifiedAt}
	v.Author, v.Reason, v.Source = author, approvalv1alpha1.ReasonAttributed, approvalv1alpha1.SourceDirect
	v.Message = fmt.Sprintf("%s answers for %s", author, node)
	if facts.Automated {
		v.Source, v.Standing = approvalv1alpha1.SourceStanding, facts.Standing
	}
	return v, true, nil
}

// startedBy finds the Release that a run of our own controller was made for; nil if there is none. Its status says so,
// which is written before the run is made. While it is waited for, nothing is asked of the API server.
func (c *Controller) startedBy(ctx context.Context, run *origin.Node, now time.Time) (*origin.Node, error) {
	if ours, err := ownReleases(ctx, c.Client); err != nil || !ours {
		return nil, err
	}
	release, err := origin.MadeFor(ctx, c.Watched, run, now)
	if errors.Is(err, origin.ErrUnobserved) {
		return nil, &unseenError{
			approvalv1alpha1.ReasonOriginPending, fmt.Sprintf("the Release that %s was made for cannot be seen yet", run),
			"the Release of " + run.Namespace + "/" + run.Name,
		}
	}
	if err != nil || release == nil {
		return nil, err
	}
	if guarded, err := c.guarded(ctx); err != nil || !guarded {
		return nil, err
	}
	return release, nil
}

// ofStarted is about a run that was made for a Release: who answers for the one answers for the other.
func ofStarted(release, run *origin.Node) verdict {
	if release == nil {
		return verdict{}
	}
	v := verdict{}
	v.Author, v.Reason, v.Source = release.Release.Verified, approvalv1alpha1.ReasonAttributed, approvalv1alpha1.SourceDirect
	v.Message = fmt.Sprintf("%s stands behind %s by %s", v.Author, run, release)
	if release.Release.ByPlan {
		v.Source, v.Standing = approvalv1alpha1.SourceStanding, release.Release.Standing
	}
	return v
}

// guarded tells whether the kind Release is ours, so that its status is guarded. A yes is asked of the API server again,
// because the cache may lag behind, and then a status that anybody can write would be believed.
func (c *Controller) guarded(ctx context.Context) (bool, error) {
	if ours, err := ownReleases(ctx, c.Client); err != nil || !ours {
		return false, err
	}
	return ownReleases(ctx, c.Live)
}

func ownReleases(ctx context.Context, reader client.Reader) (bool, error) {
	ours, err := definition.OursIn(ctx, reader, releasev1alpha1.DefinitionReleases)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("it cannot be told whose the kind Release is: %w", err)
	}
	return ours, nil
}

// standing fills in who stands for the plan that the check names, or for the protected object if that is a plan.
func (c *Controller) standing(ctx context.Context, check *approvalv1alpha1.AttributionCheck, facts *attribution.Facts) error {
	ref := check.Spec.Standing
	if ref == nil {
		ref = &check.Spec.Request.Object
	}
	if ref.GroupKind() != releasev1alpha1.GroupKindReleasePlan {
		return nil
	}
	now, accepted, err := c.plan(ctx, check.Namespace, ref.Name)
	if err != nil || now == nil || ref.UID != "" && ref.UID != now.UID {
		return err
	}
	facts.StandingNow, facts.Standing = now, accepted
	return nil
}

// plan reads a ReleasePlan as it is now, and who stands for it; nil if it is gone, or if nobody stands. It is read from the
// API server: in a cache that lags behind somebody might still stand for what was changed, or what he took back.
func (c *Controller) plan(ctx context.Context, namespace, name string) (now, accepted *attribution.Standing, err error) {
	plan := &metav1.PartialObjectMetadata{}
	plan.SetGroupVersionKind(releasev1alpha1.GroupVersion.WithKind(releasev1alpha1.KindReleasePlan))
	err = c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, plan)
	switch {
	case apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("ReleasePlan %s/%s cannot be read: %w", namespace, name, err)
	case plan.DeletionTimestamp != nil:
		return nil, nil, nil
	}
	now, accepted = attribution.OfPlan(plan, c.Vocabulary)
	return now, accepted, nil
}
