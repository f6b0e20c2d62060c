package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

const (
	// refusalGrace is how long after a Release was made a refusal to ask for it may be that of an admission which has yet to
	// learn of it.
	refusalGrace = 30 * time.Second
	retryRefused = 5 * time.Second
	// retryObstacle is for what somebody must take out of the way.
	retryObstacle = time.Minute
)

// copyAuthor puts the standing author on the Release, as the ADR has it. Admission lets nobody else do so.
func (c *Controller) copyAuthor(ctx context.Context, f *facts, author string) error {
	before := f.release.DeepCopy()
	if f.release.Labels == nil {
		f.release.Labels = map[string]string{}
	}
	if f.release.Annotations == nil {
		f.release.Annotations = map[string]string{}
	}
	f.release.Labels[f.words.AuthorLabel] = attribution.LabelValue(author)
	f.release.Annotations[approvalv1alpha1.AnnotationAuthor] = author
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, f.release, patch, status.FieldOwner); err != nil {
		return fmt.Errorf("the author of Release %s/%s cannot be copied from its plan: %w", f.release.Namespace, f.release.Name, err)
	}
	return nil
}

// ensureRule puts the attribution rule in its place, whoever changed it. The rule is replaced as a whole and not applied
// field by field, because a condition or a limit that somebody added would weaken it, too. The watch tells when it is there.
func (c *Controller) ensureRule(ctx context.Context, f *facts, s *step) error {
	want := wantedRule(f.plan)
	live := &approvalv1alpha1.ResourceCheckRule{}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case apierrors.IsNotFound(err):
		err = client.IgnoreAlreadyExists(c.client.Create(ctx, want, status.FieldOwner))
	case err != nil:
	case !guards(live, f.plan.Name):
		s.wait(f, approvalv1alpha1.ReasonRuleNotReady, fmt.Sprintf(
			"the rule %s/%s guards something else, but its name is that of the rule by which authors are verified: its owner must delete it", live.Namespace, live.Name))
		s.again = retryObstacle
		return nil
	case live.DeletionTimestamp != nil:
		s.again = retryRefused
	case !asWanted(live, f.plan) || !ownedBy(live, f.plan):
		live.Spec, live.OwnerReferences = want.Spec, owners(live.OwnerReferences, want.OwnerReferences[0])
		err = client.IgnoreNotFound(c.client.Update(ctx, live, status.FieldOwner))
	}
	return s.ruleRefused(f, want, err)
}

// ruleRefused shows what somebody must repair; anything else is tried again.
func (s *step) ruleRefused(f *facts, rule *approvalv1alpha1.ResourceCheckRule, err error) error {
	if err == nil || apierrors.IsConflict(err) {
		return nil
	}
	why := fmt.Sprintf("the rule %s/%s, by which authors are verified, cannot be put in its place", rule.Namespace, rule.Name)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		s.wait(f, approvalv1alpha1.ReasonRuleNotReady, why+": "+plaintext.Line(err.Error(), maxMessage/2))
		s.again = retryObstacle
		return nil
	}
	return fmt.Errorf("%s: %w", why, err)
}

// owners keeps other owners, and has the plan once. ReleasePlans that had its name before are dropped, or the garbage
// collector may take the rule for theirs, and everything would be asked again.
func owners(have []metav1.OwnerReference, plan metav1.OwnerReference) []metav1.OwnerReference {
	kept := []metav1.OwnerReference{plan}
	for _, owner := range have {
		if owner.UID != plan.UID && !otherPlan(owner, plan.UID) {
			kept = append(kept, owner)
		}
	}
	return kept
}

// newRequest asks for everything that guards the plan, in the context of the Release.
func newRequest(f *facts) *approvalv1alpha1.ResourceCheckRequest {
	version := releasev1alpha1.GroupVersion.String()
	return &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.release.Namespace, GenerateName: approvalv1alpha1.ReservedNamePrefix},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: version, Kind: releasev1alpha1.KindReleasePlan, Name: f.plan.Name},
			Context: approvalv1alpha1.RequestContext{Resource: &approvalv1alpha1.ObjectReference{
				APIVersion: version, Kind: releasev1alpha1.KindRelease, Name: f.release.Name, UID: f.release.UID,
			}},
			Use:    &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationWrite}},
			Reason: fmt.Sprintf("release %s by plan %s", f.release.Spec.Snapshot, f.plan.Name),
		},
	}
}

// ask makes the one request, or takes up the one that was made already.
func (c *Controller) ask(ctx context.Context, f *facts, s *step) error {
	request := newRequest(f)
	err := c.client.Create(ctx, request, status.FieldOwner)
	switch {
	case err == nil:
		s.status.Request = request.Name
	case apierrors.IsAlreadyExists(err):
		return c.adopt(ctx, f, s, err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		s.refused(f, err)
	default:
		return fmt.Errorf("the request for Release %s/%s cannot be made: %w", f.release.Namespace, f.release.Name, err)
	}
	return nil
}

// adopt takes a request up that has the name which the server gave to ours, if it is ours.
func (c *Controller) adopt(ctx context.Context, f *facts, s *step, conflict error) error {
	name := nameIn(conflict)
	if name == "" {
		return fmt.Errorf("the request for Release %s/%s collides with one that is not named: %w", f.release.Namespace, f.release.Name, conflict)
	}
	request := &approvalv1alpha1.ResourceCheckRequest{}
	if err := c.live.Get(ctx, types.NamespacedName{Namespace: f.release.Namespace, Name: name}, request); err != nil {
		return fmt.Errorf("the request %s/%s that asks already cannot be read: %w", f.release.Namespace, name, err)
	}
	if !ownRequest(request, f.username, f.release.UID) {
		s.wait(f, approvalv1alpha1.ReasonError, fmt.Sprintf("request %s/%s has the name of the Release's own, but was made by somebody else: it must be revoked", f.release.Namespace, name))
		s.again = retryObstacle
		return nil
	}
	s.status.Request = name
	return nil
}

func nameIn(err error) string {
	var api apierrors.APIStatus
	if !errors.As(err, &api) || api.Status().Details == nil {
		return ""
	}
	return api.Status().Details.Name
}

// refused is what admission said about asking for the Release. It stays with that, once it must know the Release.
func (s *step) refused(f *facts, err error) {
	why := "the checks of the Release cannot be asked: " + plaintext.Line(err.Error(), maxMessage/2)
	if f.now.Sub(f.release.CreationTimestamp.Time) < refusalGrace {
		s.wait(f, approvalv1alpha1.ReasonNotPermitted, why)
		s.again = retryRefused
		return
	}
	s.invalid(f, releasev1alpha1.ReasonValidationError, why)
}

// start makes the run that the status names. Its watch tells when it is there.
func (c *Controller) start(ctx context.Context, f *facts, s *step) (ctrl.Result, error) {
	err := c.client.Create(ctx, s.start, status.FieldOwner)
	switch {
	case err == nil:
		c.started(f)
		return ctrl.Result{}, nil
	case apierrors.IsAlreadyExists(err):
		// What is there is looked at as after a restart: it is ours, or the Release fails.
		return ctrl.Result{RequeueAfter: retryRefused}, nil
	}
	why := "the pipeline run " + s.status.ManagedProcessing.PipelineRun + " cannot be made: " + plaintext.Line(err.Error(), maxMessage/2)
	next := &step{status: *f.release.Status.DeepCopy()}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		next.processed(f, false, why)
		err = nil
	} else {
		next.set(f, releasev1alpha1.ConditionReleased, metav1.ConditionUnknown, releasev1alpha1.ReasonProgressing, why+"; it is tried again")
	}
	_, writeErr := c.write(ctx, f, next)
	return ctrl.Result{}, errors.Join(err, writeErr)
}
