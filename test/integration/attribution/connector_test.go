package attribution

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

const robot = "system:serviceaccount:ci:bot"

func TestARunOfAKnownPersonIsApproved(t *testing.T) {
	staff.knows("alice@example.com", "Alice")
	w := newWorld(t).rule(`{}`)
	request := w.settles(w.askFor("alice@example.com", "build-1"), approvalv1alpha1.ReasonAllChecksApproved)
	status := w.answered(request, w.owners, duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
	assert.Equal(t, "alice@example.com (Alice) made Job "+w.asking+"/build-1 and is known to the directory.", status.Message)
	assert.Equal(t, &approvalv1alpha1.Author{Username: "alice@example.com", UID: "id-of-alice@example.com", DisplayName: "Alice"}, status.Author)
	assert.Equal(t, approvalv1alpha1.SourceDirect, status.Source)
	assert.True(t, status.Verified)
	assert.NotNil(t, status.VerifiedAt)
}

func TestAPersonWhoAsksForHimselfIsApproved(t *testing.T) {
	const odd = "https://issuer.example.com/#王 \"小明\" 'x' (*)\\"
	staff.knows(odd, "")
	w := newWorld(t).rule(`{}`)
	request := w.settles(w.ask(odd, ""), approvalv1alpha1.ReasonAllChecksApproved)
	status := w.answered(request, w.owners, duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
	assert.Equal(t, odd, status.Author.Username)
}

func TestARunOfARobotIsRejected(t *testing.T) {
	w := newWorld(t).rule(`{}`)
	request := w.settles(w.askFor(robot, "nightly"), approvalv1alpha1.ReasonChecksRejected)
	status := w.answered(request, w.owners, duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonOnlyRobot)
	assert.Equal(t, "only the robot "+robot+" stands behind Job "+w.asking+"/nightly, and no person stands for it: "+
		"start it yourself, or name in the rule a ReleasePlan that somebody has accepted.", status.Message)
	assert.Contains(t, request.Status.Conditions[0].Message, "only the robot", "the request tells it to whoever asks")
}

func TestSomebodyWhoLeftIsRejected(t *testing.T) {
	w := newWorld(t).rule(`{}`)
	request := w.settles(w.askFor("leaver@example.com", "build-1"), approvalv1alpha1.ReasonChecksRejected)
	status := w.answered(request, w.owners, duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonAuthorUnknown)
	assert.Equal(t, "leaver@example.com", status.Author.Username)
	assert.False(t, status.Verified)
}

func TestS16_NoServiceAccountAndNoSharedAdministratorIsEverAPerson(t *testing.T) {
	for i, name := range []string{robot, "kube:admin", "kubernetes-admin", "system:admin", "system:kube-controller-manager"} {
		t.Run(name, func(t *testing.T) {
			staff.knows(name, "A Person, says the directory")
			w := newWorld(t).rule(`{}`)
			request := w.askFor(name, fmt.Sprintf("run-%d", i))
			w.answered(request, w.owners, duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonOnlyRobot)
			assert.Zero(t, staff.lookups(name), "the directory is not even asked")
		})
	}
}

func TestS9_AnOutageOfTheDirectoryIsWaitedOut(t *testing.T) {
	staff.knows("carol@example.com", "Carol")
	w := newWorld(t).rule(`{}`)
	staff.goAway(true)
	t.Cleanup(func() { staff.goAway(false) })
	request := w.settles(w.askFor("carol@example.com", "build-1"), approvalv1alpha1.ReasonChecksPending)
	status := w.answered(request, w.owners, duckv1alpha1.CheckPending, approvalv1alpha1.ReasonDirectoryUnavailable)
	assert.False(t, status.Verified)
	assert.Equal(t, "carol@example.com", status.Author.Username)
	assert.NotEmpty(t, status.WaitingFor)

	staff.goAway(false)
	w.settles(request, approvalv1alpha1.ReasonAllChecksApproved)
	w.answered(request, w.owners, duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
}

func TestASlowDirectoryHoldsNobodyElseUp(t *testing.T) {
	staff.knows("dave@example.com", "Dave")
	w := newWorld(t).rule(`{}`)
	wake := staff.fallSilent()
	t.Cleanup(wake)
	waiting := w.askFor("dave@example.com", "build-1")
	rejected := w.askFor(robot, "nightly")
	w.answered(rejected, w.owners, duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonOnlyRobot)
	w.answered(waiting, w.owners, duckv1alpha1.CheckPending, approvalv1alpha1.ReasonDirectoryUnavailable)
	wake()
	w.settles(waiting, approvalv1alpha1.ReasonAllChecksApproved)
}

func TestWithoutRequireHumanAnyAuthorWillDo(t *testing.T) {
	w := newWorld(t).rule(`{"requireHuman":false}`)
	request := w.settles(w.askFor(robot, "nightly"), approvalv1alpha1.ReasonAllChecksApproved)
	status := w.answered(request, w.owners, duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
	assert.Equal(t, robot, status.Author.Username)
	assert.False(t, status.Verified)
	assert.Zero(t, staff.lookups(robot))
}

func TestACheckThatTheDirectoryNeverAnswersTimesOut(t *testing.T) {
	w := newWorld(t).rule(`{"timeout":"3s"}`)
	staff.goAway(true)
	t.Cleanup(func() { staff.goAway(false) })
	request := w.askFor("erin@example.com", "build-1")
	status := w.answered(request, w.owners, duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonTimedOut)
	assert.False(t, status.Verified)
	w.settles(request, approvalv1alpha1.ReasonExpired)
}

const byPlan = `{"standing":{"apiVersion":"appstudio.redhat.com/v1alpha1","kind":"ReleasePlan","name":"to-prod"}}`

// plan makes a plan for which the user stands, who writes it himself.
func (w *world) plan(user, namespace string) *releasev1alpha1.ReleasePlan {
	w.t.Helper()
	plan := &releasev1alpha1.ReleasePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "to-prod", Labels: map[string]string{"release.rhtap.openshift.io/standing-attribution": "true"}},
		Spec:       releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: namespace},
	}
	w.create(trusted(w.t, user), plan)
	return plan
}

func TestWhoStandsForAPlanStandsForARobotsRun(t *testing.T) {
	staff.knows("frank@example.com", "Frank")
	w := newWorld(t).rule(byPlan)
	plan := w.plan("frank@example.com", w.owners)
	request := w.settles(w.askFor(robot, "nightly-1"), approvalv1alpha1.ReasonAllChecksApproved)
	status := w.answered(request, w.owners, duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
	assert.Equal(t, "frank@example.com (Frank) stands for Job "+w.asking+"/nightly-1 by the ReleasePlan to-prod and is known to the directory.", status.Message)
	assert.Equal(t, approvalv1alpha1.SourceStanding, status.Source)
	assert.Equal(t, plan.UID, status.Standing.UID)

	// A robot changes the plan: nobody's word is for what it is now.
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(plan), plan))
	plan.Spec.Application = "till"
	require.NoError(t, trusted(t, robot).Update(t.Context(), plan))
	request = w.askFor(robot, "nightly-2")
	status = w.answered(request, w.owners, duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonOnlyRobot)
	assert.Contains(t, status.Message, "let somebody accept the ReleasePlan to-prod, or start it yourself")
}

func TestNobodyElseCanBePutOnAPlan(t *testing.T) {
	staff.knows("grace@example.com", "Grace")
	w := newWorld(t).rule(byPlan)
	w.create(trusted(t, robot), &releasev1alpha1.ReleasePlan{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.owners, Name: "to-prod", Labels: map[string]string{"release.rhtap.openshift.io/standing-attribution": "true"},
			Annotations: map[string]string{
				approvalv1alpha1.AnnotationAuthor:   "grace@example.com",
				approvalv1alpha1.AnnotationStanding: `{"author":"grace@example.com","acceptedAt":"2026-01-01T00:00:00Z","generation":1}`,
			},
		},
		Spec: releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: w.owners},
	})
	w.answered(w.askFor(robot, "nightly"), w.owners, duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonOnlyRobot)
	assert.Zero(t, staff.lookups("grace@example.com"))
}

func TestARuleThatStandsOnAnythingElseIsWarnedOf(t *testing.T) {
	tests := map[string]struct{ spec, want string }{
		"another kind":      {`{"standing":{"apiVersion":"v1","kind":"ConfigMap","name":"to-prod"}}`, "somebody can only stand for a ReleasePlan"},
		"another group":     {`{"standing":{"apiVersion":"example.com/v1","kind":"ReleasePlan","name":"to-prod"}}`, "somebody can only stand for a ReleasePlan"},
		"another namespace": {`{"standing":{"apiVersion":"appstudio.redhat.com/v1alpha1","kind":"ReleasePlan","name":"to-prod","namespace":"x"}}`, "leave the namespace out"},
		"a resource elsewhere": {
			`{"resource":{"apiVersion":"batch/v1","kind":"Job","name":"nightly","namespace":"kube-system"}}`, "leave the namespace out",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			said := &warnings{}
			config := cluster.Admin()
			config.WarningHandlerWithContext = said
			require.NoError(t, clientOf(t, config).Create(t.Context(), w.makeRule(test.spec)))
			assert.Contains(t, said.text, test.want)

			check := &approvalv1alpha1.AttributionCheck{ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "check"}}
			require.NoError(t, decode(test.spec, &check.Spec))
			assert.ErrorContains(t, controllerItself(t).Create(t.Context(), check), test.want)
		})
	}
}

// A connector is not the only thing that somebody can be accountable for: a rule guards whatever object it names.
func TestARuleOnATektonPipelineAsksWhoIsAccountable(t *testing.T) {
	staff.knows("lena@example.com", "Lena")
	w := newWorld(t)
	ref := w.pipeline("push")
	w.mayAskFor("tekton.dev", "pipelines")
	w.ruleOn(ref)
	for name, test := range map[string]struct {
		user, run, ends, message string
		state                    duckv1alpha1.CheckState
		reason                   string
	}{
		"a person for himself": {
			"lena@example.com", "", approvalv1alpha1.ReasonAllChecksApproved, "lena@example.com (Lena) ",
			duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed,
		},
		"a person's run": {
			"lena@example.com", "by-lena", approvalv1alpha1.ReasonAllChecksApproved, "lena@example.com (Lena) made Job " + w.asking + "/by-lena",
			duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed,
		},
		"a robot's run": {
			robot, "by-robot", approvalv1alpha1.ReasonChecksRejected, "only the robot " + robot + " stands behind Job " + w.asking + "/by-robot",
			duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonOnlyRobot,
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := w.settles(w.askAbout(ref, test.user, test.run), test.ends)
			assert.Equal(t, "Pipeline", request.Spec.ObjectRef.Kind)
			status := w.answered(request, w.owners, test.state, test.reason)
			assert.Contains(t, status.Message, test.message)
			assert.Equal(t, test.user, status.Author.Username)
		})
	}
}

// ruleOn guards an object by an AttributionCheck, and waits until the rule is ready.
func (w *world) ruleOn(object approvalv1alpha1.ObjectReference) {
	w.t.Helper()
	rule := w.makeRule(`{}`)
	rule.Spec.ObjectRef = object
	rule.Spec.ObjectRef.Namespace = ""
	w.create(w.admin, rule)
	eventually(w.t, func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(rule.Status.Conditions, approvalv1alpha1.ConditionReady) {
			return fmt.Errorf("the rule is not ready: %+v", rule.Status)
		}
		return nil
	})
}

// pipeline is an object of the owners' that is no connector.
func (w *world) pipeline(name string) approvalv1alpha1.ObjectReference {
	w.t.Helper()
	pipeline := &unstructured.Unstructured{}
	pipeline.SetAPIVersion("tekton.dev/v1")
	pipeline.SetKind("Pipeline")
	pipeline.SetNamespace(w.owners)
	pipeline.SetName(name)
	w.create(w.admin, pipeline)
	return approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "Pipeline", Namespace: w.owners, Name: name}
}

// mayAskFor gives the requesters' service accounts the verb that a request for such an object takes.
func (w *world) mayAskFor(group, resource string) {
	w.t.Helper()
	w.create(w.admin, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "askers"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{approvalv1alpha1.VerbRequest}}},
	})
	w.create(w.admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "askers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "askers"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + w.asking}},
	})
}

// askAbout asks for an object as the user, for a run that he starts or, if that is empty, for himself.
func (w *world) askAbout(object approvalv1alpha1.ObjectReference, user, run string) *approvalv1alpha1.ResourceCheckRequest {
	w.t.Helper()
	request := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.asking, GenerateName: "rcr-"},
		Spec:       approvalv1alpha1.ResourceCheckRequestSpec{ObjectRef: object, Reason: "run it"},
	}
	if run != "" {
		w.run(user, run)
		request.Spec.Context.Resource = &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Name: run}
	}
	eventually(w.t, func(ctx context.Context) error { return trusted(w.t, user).Create(ctx, request) })
	return request
}

// warnings keeps what the API server warns of.
type warnings struct{ text string }

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.text += text + "\n"
}
