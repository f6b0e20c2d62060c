package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// The decision record's reconciliation, point by point.

func TestRelease_AuthorOnTheReleaseIsUsed(t *testing.T) {
	r := newReleases(t)
	alice := r.somebody("alice")
	r.plan(alice)
	release := r.succeeds(r.release(alice))
	assert.Equal(t, alice, release.Annotations[approvalv1alpha1.AnnotationAuthor])
	assert.NotEmpty(t, release.Labels[authorLabel])
	attribution := release.Status.Attribution
	require.NotNil(t, attribution)
	assert.Equal(t, alice, attribution.Author)
	assert.False(t, attribution.StandingAttribution)
	assert.True(t, attribution.Verified)
	assert.NotNil(t, attribution.VerifiedAt)
}

func TestRelease_WithoutAuthorThePlansIsConsultedAndCopied(t *testing.T) {
	r := newReleases(t)
	alice := r.somebody("alice")
	r.plan(alice, standing)
	release := r.release(integration, automated)
	assert.Empty(t, release.Labels[authorLabel], "admission sets no author on an automated Release")
	release = r.succeeds(release)
	assert.Equal(t, alice, release.Annotations[approvalv1alpha1.AnnotationAuthor], "copied")
	assert.Equal(t, r.planNow().Labels[authorLabel], release.Labels[authorLabel], "copied")
	assert.Equal(t, alice, release.Status.Attribution.Author)
	assert.True(t, release.Status.Attribution.StandingAttribution)
	assert.True(t, release.Status.Attribution.Verified)
}

func TestRelease_WithoutAnyAuthorFailsWithValidationError(t *testing.T) {
	r := newReleases(t)
	r.plan(r.somebody("alice"))
	release := r.fails(r.release(integration, automated), planName)
	assert.Empty(t, release.Labels[authorLabel])
}

func TestRelease_WhoIsNoRealUserFailsWithValidationError(t *testing.T) {
	r := newReleases(t)
	r.plan(r.somebody("alice"))
	robot := "system:serviceaccount:" + r.team + ":pipeline"
	for _, user := range []string{robot, "kube:admin"} {
		plane.people.joins(t, user) // the directory knows somebody of that name, and it makes no difference
		r.fails(r.release(user), user)
		assert.Zero(t, plane.people.queries(t, user))
		plane.people.leaves(t, user)
	}
}

func TestRelease_UserUnknownToTheDirectoryFailsWithValidationError(t *testing.T) {
	r := newReleases(t)
	r.plan(r.somebody("alice"))
	stranger := "stranger@" + r.team + ".example.com"
	r.fails(r.release(stranger), stranger)
}

func TestRelease_UserWhoLeftFailsWithValidationError(t *testing.T) {
	r := newReleases(t)
	gone, disabled := r.somebody("gone"), r.somebody("disabled")
	r.plan(r.somebody("alice"))
	plane.people.leaves(t, gone)
	plane.people.disables(t, disabled)
	r.fails(r.release(gone), gone)
	r.fails(r.release(disabled), disabled)
}

func TestRelease_VerifiedIsNotVerifiedAgainWithinTheCacheTime(t *testing.T) {
	r := newReleases(t)
	alice := r.somebody("alice")
	r.plan(alice)
	r.succeeds(r.release(alice))
	require.Equal(t, 1, plane.people.queries(t, alice))
	r.succeeds(r.release(alice))
	assert.Equal(t, 1, plane.people.queries(t, alice), "a second Release of a verified author within the cache time causes no directory query")
}

// The author is verified, then leaves, and the directory's cache forgets him. When his Release is asked again, because the
// rule by which he was verified is another, its status is what counts: it goes on, and nobody asks the directory.
func TestRelease_VerificationIsSkippedWhenVerifiedIsAlreadyTrue(t *testing.T) {
	r := newReleases(t)
	alice, witness := r.somebody("alice"), r.somebody("witness")
	plan := r.plan(alice)
	r.bind(r.team, "countersign-approver", group("prod-owners"))
	r.planRule("owners", "ApprovalRequest", people(1))
	release := r.release(alice)
	r.eventually("the author is verified, while the owners are waited for", func() error { return verifiedIs(r.now(release)) })
	r.shows(release, releasev1alpha1.ConditionValidated, metav1.ConditionUnknown, approvalv1alpha1.ReasonChecksPending, "prod-owners")
	require.Equal(t, 1, plane.people.queries(t, alice))
	before := r.authorChecks(release)
	require.Len(t, before, 1)
	plane.people.leaves(t, alice)
	r.cacheForgets(plan, witness)

	require.NoError(t, r.admin.Delete(r.ctx, &approvalv1alpha1.ResourceCheckRule{ObjectMeta: metav1.ObjectMeta{Namespace: r.team, Name: "attribution-" + planName}}))
	r.eventually("the author is checked anew", func() error {
		for _, check := range r.authorChecks(release) {
			if check.UID != before[0].UID && check.Status.State == duckv1alpha1.CheckApproved {
				return nil
			}
		}
		return fmt.Errorf("the checks are %+v", r.authorChecks(release))
	})
	require.NoError(t, r.answerOnPlan("owner1", named(r.team, r.now(release).Status.Request), "owners", approvalv1alpha1.DecisionApprove))
	release = r.succeeds(release)
	assert.Equal(t, alice, release.Status.Attribution.Author)
	assert.Equal(t, 1, plane.people.queries(t, alice), "no further directory query")
}

func TestRelease_StandingAttributionEndsWithItsLabel(t *testing.T) {
	for name, end := range map[string]string{"false": `"false"`, "removed": "null"} {
		t.Run(name, func(t *testing.T) {
			r := newReleases(t)
			alice := r.somebody("alice")
			plan := r.plan(alice, standing)
			r.succeeds(r.release(integration, automated))
			require.NoError(t, r.patch(alice, plan, `{"metadata":{"labels":{"`+standingLabel+`":`+end+`}}}`))
			now := r.planNow()
			assert.Empty(t, now.Labels[authorLabel])
			assert.NotContains(t, now.Annotations, approvalv1alpha1.AnnotationAuthor)
			r.fails(r.release(integration, automated))
		})
	}
}

// The decision record's consequences.

func TestRelease_TwoHundredAtOnceAskTheDirectoryOnce(t *testing.T) {
	const many = 200
	r := newReleasesAlone(t) // it would keep the others waiting
	alice := r.somebody("alice")
	r.plan(alice)
	as := r.as(alice)
	made := make(chan error, many)
	for range many {
		go func() { made <- as.Create(r.ctx, r.newRelease()) }()
	}
	for range many {
		require.NoError(t, <-made)
	}
	r.eventuallyWithin(5*timeout, "all are verified", func() error {
		var list releasev1alpha1.ReleaseList
		require.NoError(t, r.admin.List(r.ctx, &list, client.InNamespace(r.team)))
		require.Len(t, list.Items, many)
		for i := range list.Items {
			if err := conditionIs(list.Items[i].Status.Conditions, releasev1alpha1.ConditionValidated, metav1.ConditionTrue, releasev1alpha1.ReasonSucceeded); err != nil {
				return err
			}
		}
		return nil
	})
	assert.Equal(t, 1, plane.people.queries(t, alice))
}

func TestRelease_PlanWhoseAuthorLeftShowsItAndItsReleasesSayHowToMend(t *testing.T) {
	r := newReleases(t)
	alice := r.somebody("alice")
	plan := r.plan(alice, standing)
	r.planShows(metav1.ConditionTrue, releasev1alpha1.ReasonVerified)
	plane.people.leaves(t, alice)
	r.planShows(metav1.ConditionFalse, releasev1alpha1.ReasonAuthorUnknown, alice, "accept")
	r.eventually("an event says so", func() error { return r.hasEvent(plan, releasev1alpha1.ReasonAuthorUnknown) })
	r.fails(r.release(integration, automated), alice, "accept")
}

// What else gates a Release, and what runs.

func TestRelease_OtherRulesOnThePlanGateItToo(t *testing.T) {
	r := newReleases(t)
	alice := r.somebody("alice")
	r.plan(alice)
	r.bind(r.team, "countersign-approver", group("prod-owners"))
	r.planRule("owners", "ApprovalRequest", people(1))
	release := r.shows(r.release(alice), releasev1alpha1.ConditionValidated, metav1.ConditionUnknown, approvalv1alpha1.ReasonChecksPending, "prod-owners")
	r.ranNothing(release)
	request := named(r.team, release.Status.Request)
	require.NoError(t, r.answerOnPlan("owner1", request, "owners", approvalv1alpha1.DecisionApprove))
	r.succeeds(release)

	another := r.shows(r.release(alice), releasev1alpha1.ConditionValidated, metav1.ConditionUnknown, approvalv1alpha1.ReasonChecksPending)
	require.NoError(t, r.answerOnPlan("owner1", named(r.team, another.Status.Request), "owners", approvalv1alpha1.DecisionReject))
	r.shows(another, releasev1alpha1.ConditionValidated, metav1.ConditionFalse, approvalv1alpha1.ReasonChecksRejected, "said the test")
	r.ranNothing(another)
}

func TestRelease_TheTaskSeesWhoAnswersForIt(t *testing.T) {
	for name, standsForIt := range map[string]bool{"its own author": false, "who stands for the plan": true} {
		t.Run(name, func(t *testing.T) {
			r := newReleases(t)
			alice := r.somebody("alice")
			r.plan(alice, standing)
			var release *releasev1alpha1.Release
			if standsForIt {
				release = r.release(integration, automated)
			} else {
				release = r.release(alice)
			}
			release = r.succeeds(release)
			require.Len(t, r.runsOf(release), 1, "a run is found by its label")
			r.taskSaw(release, alice, standsForIt)
		})
	}
}

// taskSaw looks at what the one task of the pipeline was told.
func (r *releases) taskSaw(release *releasev1alpha1.Release, author string, standsForIt bool) {
	r.Helper()
	var pods corev1.PodList
	require.NoError(r, r.admin.List(r.ctx, &pods, client.InNamespace(r.prod)))
	require.Len(r, pods.Items, 1, "the pipeline has one task")
	pod := pods.Items[0]
	want := []string{
		"release=" + r.team + "/" + release.Name, "snapshot=" + r.team + "/shop-1",
		"attributionAuthor=" + author, fmt.Sprintf("attributionStanding=%t", standsForIt), "attributionVerified=true",
	}
	args := pod.Spec.Containers[0].Args
	assert.Equal(r, want, args[len(args)-len(want):], "of %q", args)
	assert.Equal(r, author, pod.Annotations[releasev1alpha1.AnnotationReleaseAuthor], "annotations reach the pod")
	assert.Equal(r, fmt.Sprint(standsForIt), pod.Annotations[releasev1alpha1.AnnotationReleaseStanding])
	assert.Equal(r, "true", pod.Annotations[releasev1alpha1.AnnotationReleaseVerified])
	assert.Equal(r, "release-pipeline", pod.Spec.ServiceAccountName)
	assert.Equal(r, r.prod+"/"+pod.Labels["tekton.dev/pipelineRun"], release.Status.ManagedProcessing.PipelineRun)
}

func TestRelease_ConditionsFollowTheRun(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]struct {
		status metav1.ConditionStatus
		reason string
	}{
		corev1.PodSucceeded: {metav1.ConditionTrue, releasev1alpha1.ReasonSucceeded},
		corev1.PodFailed:    {metav1.ConditionFalse, releasev1alpha1.ReasonFailed},
	} {
		t.Run(string(phase), func(t *testing.T) {
			r := newReleases(t)
			r.hold()
			alice := r.somebody("alice")
			r.plan(alice)
			release := r.shows(r.release(alice), releasev1alpha1.ConditionManagedPipelineProcessed, metav1.ConditionUnknown, releasev1alpha1.ReasonProgressing)
			require.NoError(t, conditionIs(release.Status.Conditions, releasev1alpha1.ConditionValidated, metav1.ConditionTrue, releasev1alpha1.ReasonSucceeded))
			r.ends(r.podOf(release), phase)
			release = r.shows(release, releasev1alpha1.ConditionReleased, want.status, want.reason)
			require.NoError(t, conditionIs(release.Status.Conditions, releasev1alpha1.ConditionManagedPipelineProcessed, want.status, want.reason))
			assert.NotNil(t, release.Status.CompletionTime)
		})
	}
}
