package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func TestS16_AConnectorKnowsARunOfAPersonFromARobots(t *testing.T) {
	s := newStage(t)
	s.rule("author", "AttributionCheck", `{}`)
	s.startsRuns(group("developers"), account(s.team, "pipeline"))
	t.Run("a person's run goes through", func(t *testing.T) {
		run := s.pipelineRunOf(s.bearing(plane.mint(t, "developer")), "by-a-person")
		assert.Equal(t, "developer@example.com", run.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy])
		pod := s.taskPod("by-a-person-push-pod")
		request := s.mustAsk(s.inPod(pod))
		assert.Equal(t, run.GetUID(), request.Spec.Context.Resource.UID)
		s.reaches(request, approvalv1alpha1.ReasonAllChecksApproved)
		s.allowed(s.proxyToken(pod), "PUT", "/app")
	})
	t.Run("a robot's does not, and it says so", func(t *testing.T) {
		robot := "system:serviceaccount:" + s.team + ":pipeline"
		run := s.pipelineRunOf(s.bearing(s.accountToken("pipeline")), "by-a-robot")
		assert.Equal(t, robot, run.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy])
		pod := s.taskPod("by-a-robot-push-pod")
		request := s.mustAsk(s.inPod(pod))
		assert.Equal(t, run.GetUID(), request.Spec.Context.Resource.UID)
		s.reaches(request, approvalv1alpha1.ReasonChecksRejected)
		s.refused(s.proxyToken(pod), "PUT", "/app", approvalv1alpha1.ReasonChecksRejected,
			"only the robot "+robot+" stands behind PipelineRun "+s.team+"/by-a-robot, and no person stands for it")
	})
}

// startsRuns lets the subjects make runs of Tekton's in the team's namespace.
func (s *stage) startsRuns(subjects ...rbacv1.Subject) {
	s.Helper()
	s.create(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "runs"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"tekton.dev"}, Resources: []string{"pipelineruns"}, Verbs: []string{"create"}}},
	})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "runs"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "runs"},
		Subjects:   subjects,
	})
}

// accountToken is a token of a service account of the team's for the API server, bound to no pod.
func (s *stage) accountToken(name string) string {
	s.Helper()
	review := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: name}}
	require.NoError(s, s.admin.SubResource("token").Create(s.ctx, account, review))
	return review.Status.Token
}
