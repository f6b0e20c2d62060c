package releases

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

const (
	validated = releasev1alpha1.ConditionValidated
	released  = releasev1alpha1.ConditionReleased
	processed = releasev1alpha1.ConditionManagedPipelineProcessed
)

func TestAPersonReleases(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	plan := w.plan(alice)
	release := w.release(alice)
	run := w.runOf(release)

	assert.Equal(t, controllerUser, run.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy])
	assert.Equal(t, w.alice, run.GetAnnotations()[releasev1alpha1.AnnotationReleaseAuthor])
	assert.Equal(t, string(release.UID), run.GetLabels()[releasev1alpha1.LabelReleaseUID])
	assert.Equal(t, map[string]string{
		"release": w.tenant + "/" + release.Name, "releasePlan": w.tenant + "/prod", "releasePlanAdmission": w.managed + "/shop",
		"snapshot": w.tenant + "/shop-abc", "policy": "strict",
		"attributionAuthor": w.alice, "attributionStanding": "false", "attributionVerified": "true",
	}, params(run))
	assert.Equal(t, "True Succeeded: "+w.alice+" answers for the Release, and every check has approved", told(release, validated))
	assert.Equal(t, w.alice, release.Status.Attribution.Author)
	assert.True(t, release.Status.Attribution.Verified)
	assert.NotNil(t, release.Status.Attribution.VerifiedAt)
	assert.False(t, release.Status.Attribution.StandingAttribution)
	assert.Equal(t, w.managed, release.Status.Target)
	assert.Contains(t, told(release, released), "Unknown Progressing")

	rule := &approvalv1alpha1.ResourceCheckRule{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "attribution-prod"}}
	require.NoError(t, w.admin.Get(t.Context(), keyOf(rule), rule))
	assert.Equal(t, plan.UID, rule.OwnerReferences[0].UID)

	w.ends(run, metav1.ConditionTrue, "Completed", "done")
	w.says(release, released, "True Succeeded")
	assert.Contains(t, told(release, processed), "True Succeeded")
	assert.NotNil(t, release.Status.CompletionTime)
	assert.NotNil(t, release.Status.ManagedProcessing.CompletionTime)
	assert.Len(t, w.requests(), 1)
	assert.Len(t, w.runs(), 1)
	assert.Equal(t, 1, sso.questions(w.alice))
}

func TestAProgramReleasesForWhoStands(t *testing.T) {
	w := newWorld(t)
	plan := w.plan(w.person(w.alice), standing)
	release := w.release(w.account(integrationNamespace, integrationAccount), automated)
	assert.Empty(t, release.Labels[words.AuthorLabel])
	run := w.runOf(release)

	assert.Equal(t, "true", params(run)["attributionStanding"])
	assert.Equal(t, w.alice, params(run)["attributionAuthor"])
	assert.Equal(t, "true", run.GetAnnotations()[releasev1alpha1.AnnotationReleaseStanding])
	assert.True(t, release.Status.Attribution.StandingAttribution)
	assert.True(t, release.Status.Automated)
	assert.Equal(t, attribution.LabelValue(w.alice), release.Labels[words.AuthorLabel], "the author is copied to the Release")
	assert.Equal(t, w.alice, release.Annotations[approvalv1alpha1.AnnotationAuthor])
	assert.Equal(t, integration, release.Annotations[approvalv1alpha1.AnnotationAutomated])

	eventually(t, standingIs(w, plan, "True Verified"))
	assert.Equal(t, w.alice, plan.Status.StandingAttribution.Author)
	assert.NotNil(t, plan.Status.StandingAttribution.VerifiedAt)
	assert.Equal(t, w.managed+"/shop", plan.Status.ReleasePlanAdmission.Name)
}

// A standing author who is not the one at the Release's creation is none: the plan's later author has no part in it.
func TestNobodyStoodWhenTheProgramReleased(t *testing.T) {
	w := newWorld(t)
	w.plan(w.account(integrationNamespace, integrationAccount), standing)
	release := w.release(w.account(integrationNamespace, integrationAccount), automated)
	w.says(release, validated, "nobody stood for the ReleasePlan prod then")
	assert.Contains(t, told(release, validated), "False ValidationError")
	assert.Contains(t, told(release, released), "False Failed")
	assert.Empty(t, w.runs())
	assert.Empty(t, w.requests(), "nobody is asked")
}

func TestAnAuthorWhomTheDirectoryDoesNotKnow(t *testing.T) {
	w := newWorld(t)
	sso.leaves(w.alice)
	alice := w.person(w.alice)
	w.plan(alice)
	release := w.release(alice)
	w.says(release, released, "False Failed")
	assert.Contains(t, told(release, validated), "False ValidationError")
	assert.Contains(t, told(release, validated), w.alice)
	assert.False(t, release.Status.Attribution.Verified)
	assert.Equal(t, w.alice, release.Status.Attribution.Author)
	assert.Empty(t, w.runs())
}

func TestAStandingAuthorWhoLeft(t *testing.T) {
	w := newWorld(t)
	sso.leaves(w.alice)
	plan := w.plan(w.person(w.alice), standing)
	release := w.release(w.account(integrationNamespace, integrationAccount), automated)
	w.says(release, released, "False Failed")
	assert.Contains(t, told(release, validated), "kubectl countersign accept releaseplan/prod -n "+w.tenant)
	assert.Empty(t, w.runs())
	eventually(t, standingIs(w, plan, "False AuthorUnknown"))
	eventually(t, eventIs(w, plan, "Warning AuthorUnknown: "+w.alice+" has left"))
}

func TestARobotThatMayNotSayThatItIsAutomated(t *testing.T) {
	w := newWorld(t)
	w.plan(w.person(w.alice), standing)
	release := w.release(w.account(w.tenant, "robot"))
	w.says(release, released, "False Failed")
	assert.Contains(t, told(release, validated), "only the robot system:serviceaccount:"+w.tenant+":robot")
	assert.Empty(t, w.runs())
	assert.Zero(t, sso.questions("system:serviceaccount:"+w.tenant+":robot"), "a robot's name is not looked up")
}

// An outage is neither a yes nor a no.
func TestTheDirectoryIsAway(t *testing.T) {
	w := newWorld(t)
	sso.isAway(w.alice, true)
	alice := w.person(w.alice)
	w.plan(alice)
	release := w.release(alice)
	w.says(release, validated, "Unknown DirectoryUnavailable: ")
	eventuallyAsked(t, w.alice, 2)
	assert.Empty(t, w.runs())
	sso.isAway(w.alice, false)
	w.runOf(release)
	assert.True(t, release.Status.Attribution.Verified)
}

// The author is verified once, whatever else is waited for, a restart included. The check was answered before and is not
// made again; TestVerificationIsSkippedWhenVerifiedIsAlreadyTrue has it made again.
func TestAVerifiedAuthorIsNotVerifiedAgain(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	w.peopleRule()
	release := w.release(alice)
	w.until(release, func(r *releasev1alpha1.Release) bool {
		return r.Status.Attribution != nil && r.Status.Attribution.Verified
	})
	at := release.Status.Attribution.VerifiedAt
	require.Equal(t, 1, sso.questions(w.alice))

	running.restart(t)
	w.answer(release, approvalv1alpha1.DecisionApprove)
	w.runOf(release)
	assert.Equal(t, 1, sso.questions(w.alice))
	assert.Equal(t, at, release.Status.Attribution.VerifiedAt)
}

// The controller starts anew, remembering nobody, and the author has left. Then the rule by which he was verified is made
// anew, and with it the check: it is answered by the Release's status, and the directory is not asked.
func TestVerificationIsSkippedWhenVerifiedIsAlreadyTrue(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	w.peopleRule()
	release := w.release(alice)
	w.until(release, func(r *releasev1alpha1.Release) bool {
		return r.Status.Attribution != nil && r.Status.Attribution.Verified
	})
	w.says(release, validated, "from group owners")
	at := release.Status.Attribution.VerifiedAt
	before := w.authorChecks(release)
	require.Len(t, before, 1)
	require.Equal(t, 1, sso.questions(w.alice))

	require.NoError(t, running.halt(syscall.SIGKILL))
	sso.leaves(w.alice)
	running.again(t)
	rule := &approvalv1alpha1.ResourceCheckRule{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "attribution-prod"}}
	require.NoError(t, w.admin.Delete(t.Context(), rule))
	eventually(t, func(context.Context) error {
		for _, check := range w.authorChecks(release) {
			if check.UID != before[0].UID && check.Status.State == duckv1alpha1.CheckApproved {
				return nil
			}
		}
		return fmt.Errorf("the check has not been made anew: %+v", w.authorChecks(release))
	})
	w.answer(release, approvalv1alpha1.DecisionApprove)
	w.runOf(release)
	assert.Equal(t, at, release.Status.Attribution.VerifiedAt)
	assert.Equal(t, 1, sso.questions(w.alice), "no further directory query")
}

// authorChecks are the checks of who answers for the Release.
func (w *world) authorChecks(release *releasev1alpha1.Release) []approvalv1alpha1.AttributionCheck {
	w.t.Helper()
	request, err := w.requestOf(w.t.Context(), release)
	require.NoError(w.t, err)
	var list approvalv1alpha1.AttributionCheckList
	require.NoError(w.t, w.admin.List(w.t.Context(), &list, client.InNamespace(w.tenant), client.MatchingLabels{approvalv1alpha1.LabelRequestUID: string(request.UID)}))
	return list.Items
}

func TestManyReleasesOfOneAuthor(t *testing.T) {
	const many = 200
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	began := time.Now()
	all := make([]*releasev1alpha1.Release, many)
	for i := range all {
		all[i] = w.release(alice)
	}
	for _, release := range all {
		w.until(release, func(r *releasev1alpha1.Release) bool {
			return r.Status.ManagedProcessing != nil && r.Status.ManagedProcessing.StartTime != nil
		})
	}
	t.Logf("%d Releases were running after %s", many, time.Since(began))
	assert.Equal(t, 1, sso.questions(w.alice), "the directory is asked once")
	assert.Len(t, w.requests(), many)
	assert.Len(t, w.runs(), many)
	w.isQuiet(all)
}

// isQuiet tells that the controller wrote each status a few times, and did not go round in circles.
func (w *world) isQuiet(releases []*releasev1alpha1.Release) {
	w.t.Helper()
	events, err := cluster.AuditEvents()
	require.NoError(w.t, err)
	writes := map[string]int{}
	reads := 0
	for i := range events {
		e := &events[i]
		switch {
		case e.User.Username != controllerUser || e.ObjectRef == nil || e.ResponseStatus == nil || e.ResponseStatus.Code >= 300:
		case e.ObjectRef.Namespace == w.tenant && e.ObjectRef.Resource == "releases" && e.ObjectRef.Subresource == "status":
			writes[e.ObjectRef.Name]++
		case (e.Verb == "get" || e.Verb == "list") && (e.ObjectRef.Namespace == w.tenant || e.ObjectRef.Namespace == w.managed):
			reads++
		}
	}
	assert.Len(w.t, writes, len(releases))
	for name, count := range writes {
		assert.LessOrEqual(w.t, count, 6, name)
	}
	w.t.Logf("%d reads, and %.1f writes of each status", reads, average(writes))
	assert.LessOrEqual(w.t, reads, 40*len(releases))
}

func average(counts map[string]int) float64 {
	sum := 0
	for _, count := range counts {
		sum += count
	}
	return float64(sum) / float64(max(len(counts), 1))
}
