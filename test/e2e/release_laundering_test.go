package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

func TestS4_AutomatedCountsOnlyFromListedServiceAccounts(t *testing.T) {
	r := newReleases(t)
	alice := r.somebody("alice")
	r.plan(alice, standing)
	for _, user := range []string{alice, "system:serviceaccount:" + r.team + ":pipeline"} {
		err := r.as(user).Create(r.ctx, r.newRelease(automated))
		require.True(t, apierrors.IsForbidden(err), "%s makes no automated Release: %v", user, err)
	}
}

func TestS4_AuthorSentWithAnAutomatedReleaseHasNoEffect(t *testing.T) {
	r := newReleases(t)
	alice, bob := r.somebody("alice"), r.somebody("bob")
	r.plan(alice, standing)
	release := r.release(integration, automated, labelled(authorLabel, "bob"), annotated(approvalv1alpha1.AnnotationAuthor, bob))
	assert.Empty(t, release.Labels[authorLabel])
	assert.NotContains(t, release.Annotations, approvalv1alpha1.AnnotationAuthor)
	assert.Equal(t, alice, r.succeeds(release).Status.Attribution.Author)
}

func TestS4_DroppingOrAddingAutomatedLaterChangesNothing(t *testing.T) {
	r := newReleases(t)
	alice, bob := r.somebody("alice"), r.somebody("bob")
	r.plan(alice)
	r.planRule("later", "ScriptCheck", `{"expression":"\"not yet\""}`) // keeps the Releases waiting
	machine, person := r.release(integration, automated), r.release(bob)

	require.NoError(t, r.patch(bob, machine, fmt.Sprintf(`{"metadata":{"labels":{%q:null,%q:"bob"},"annotations":{%q:null,%q:%q}}}`,
		automatedLabel, authorLabel, approvalv1alpha1.AnnotationAutomated, approvalv1alpha1.AnnotationAuthor, bob)))
	now := r.now(machine)
	assert.Equal(t, "true", now.Labels[automatedLabel])
	assert.NotContains(t, now.Annotations, approvalv1alpha1.AnnotationAuthor)
	r.fails(machine)

	require.NoError(t, r.patch(integration, person, fmt.Sprintf(`{"metadata":{"labels":{%q:"true",%q:null}}}`, automatedLabel, authorLabel)))
	now = r.now(person)
	assert.NotContains(t, now.Labels, automatedLabel)
	assert.Equal(t, bob, now.Annotations[approvalv1alpha1.AnnotationAuthor])
}

func TestS4_NamingSomebodyElseOnAPlanHasNoEffect(t *testing.T) {
	r := newReleases(t)
	alice, bob := r.somebody("alice"), r.somebody("bob")
	plan := r.plan(integration, standing, labelled(authorLabel, "alice"), annotated(approvalv1alpha1.AnnotationAuthor, alice),
		annotated(approvalv1alpha1.AnnotationStanding, `{"author":"`+alice+`"}`), annotated(approvalv1alpha1.AnnotationProposed, alice))
	r.planShows(metav1.ConditionFalse, releasev1alpha1.ReasonProposed, alice)
	r.fails(r.release(integration, automated))

	require.Error(t, r.patch(bob, plan, `{"metadata":{"annotations":{"`+approvalv1alpha1.AnnotationAccept+`":"true"}}}`), "bob cannot accept for alice")
	require.Error(t, r.patch(integration, plan, `{"metadata":{"annotations":{"`+approvalv1alpha1.AnnotationAccept+`":"true"}}}`), "nor can the robot")
	r.fails(r.release(integration, automated))

	require.NoError(t, r.patch(alice, plan, `{"metadata":{"annotations":{"`+approvalv1alpha1.AnnotationAccept+`":"true"}}}`))
	assert.Equal(t, alice, r.succeeds(r.release(integration, automated)).Status.Attribution.Author)
}

func TestS4_EditingThePlanAfterTheReleaseWasMade(t *testing.T) {
	r := newReleases(t)
	alice, bob := r.somebody("alice"), r.somebody("bob")
	plan := r.plan(alice, standing)
	r.bind(r.team, "countersign-approver", group("prod-owners"))
	r.planRule("owners", "ApprovalRequest", people(1))
	release := r.shows(r.release(integration, automated), releasev1alpha1.ConditionValidated, metav1.ConditionUnknown, approvalv1alpha1.ReasonChecksPending)
	require.NoError(t, r.patch(bob, plan, `{"spec":{"data":{"image":"evil"}}}`))
	assert.Equal(t, bob, r.planNow().Annotations[approvalv1alpha1.AnnotationAuthor], "who writes the plan stands for it")
	r.fails(release, "plan")
}

func TestS4_APlanDeletedAndMadeAgainIsAnother(t *testing.T) {
	r := newReleases(t)
	alice, bob := r.somebody("alice"), r.somebody("bob")
	plan := r.plan(alice, standing)
	r.bind(r.team, "countersign-approver", group("prod-owners"))
	r.planRule("owners", "ApprovalRequest", people(1))
	release := r.shows(r.release(integration, automated), releasev1alpha1.ConditionValidated, metav1.ConditionUnknown, approvalv1alpha1.ReasonChecksPending)
	require.NoError(t, r.as(bob).Delete(r.ctx, plan))
	r.plan(integration, standing, annotated(approvalv1alpha1.AnnotationStanding, plan.Annotations[approvalv1alpha1.AnnotationStanding]),
		annotated(approvalv1alpha1.AnnotationAuthor, alice))
	assert.NotContains(t, r.planNow().Annotations, approvalv1alpha1.AnnotationAuthor, "nothing is inherited")
	r.fails(release, "plan")
	r.fails(r.release(integration, automated))
}

func TestS4_ThePipelineCannotWriteItsOwnAttribution(t *testing.T) {
	r := newReleases(t)
	r.plan(r.somebody("alice"))
	release := r.fails(r.release(integration, automated))
	pipeline := "system:serviceaccount:" + r.prod + ":release-pipeline"
	r.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.team, Name: "everything"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{account(r.prod, "release-pipeline")},
	})
	forged := release.DeepCopy()
	forged.Status.Attribution = &releasev1alpha1.Attribution{Author: "alice", Verified: true}
	r.eventually("the pipeline may do everything in the namespace", func() error {
		return r.as(pipeline).Get(r.ctx, client.ObjectKeyFromObject(release), &releasev1alpha1.Release{})
	})
	for verb, err := range map[string]error{
		"update": r.as(pipeline).Status().Update(r.ctx, forged),
		"patch":  r.as(pipeline).Status().Patch(r.ctx, forged, client.MergeFrom(release)),
	} {
		require.True(t, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%s of the status: %v", verb, err)
	}
	require.NoError(t, r.as(pipeline).Update(r.ctx, forged), "the main resource takes it and drops the status")
	require.False(t, r.now(release).Status.Attribution != nil && r.now(release).Status.Attribution.Verified)
}

func TestS16_AConnectorKnowsARunOfAPersonFromARobots(t *testing.T) {
	s := newStage(t)
	s.rule("author", "AttributionCheck", `{}`)
	t.Run("a person's run goes through", func(t *testing.T) {
		pod := s.runPod("by-a-person", "developer@example.com")
		request := s.mustAsk(s.inPod(pod))
		s.reaches(request, approvalv1alpha1.ReasonAllChecksApproved)
		s.allowed(s.proxyToken(pod), "PUT", "/app")
	})
	t.Run("a robot's does not, and it says so", func(t *testing.T) {
		pod := s.runPod("by-a-robot", "system:serviceaccount:"+s.team+":pipeline")
		request := s.mustAsk(s.inPod(pod))
		s.reaches(request, approvalv1alpha1.ReasonChecksRejected)
		s.refused(s.proxyToken(pod), "PUT", "/app", approvalv1alpha1.ReasonChecksRejected, "system:serviceaccount:"+s.team+":pipeline")
	})
}

// runPod is the pod of a Job that somebody made.
func (s *stage) runPod(job, user string) *corev1.Pod {
	s.Helper()
	_, pods := s.job(plane.impersonating(s.T, user, "system:masters"), job, 1)
	return &pods[0]
}
