package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func TestRequest_OneHumanApprovalTakesThreeWrites(t *testing.T) {
	controllers, p := startRequests(t), newPlace(t)
	p.rule("push")
	// The first request waits for caches; the second is counted.
	ready(t, p.request("warm-up", func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Context.Subject.Name = "other" }), approvalv1alpha1.ReasonChecksPending)
	before := controllers.counter.writes.Load()

	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending)
	require.Len(t, r.Status.Results, 1)
	assert.Equal(t, []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForUser, Name: "olga", Missing: 1}}, r.Status.Results[0].WaitingFor)
	assert.Equal(t, keyOf(r).String(), r.Status.Fingerprint)
	assert.Equal(t, p.connector.UID, r.Status.Object.UID)

	check := p.checkOf(r, "push")
	assert.Equal(t, controllerUser, check.Annotations[approvalv1alpha1.AnnotationCreatedBy])
	assert.Equal(t, string(r.UID), check.Labels[approvalv1alpha1.LabelRequestUID])
	assert.Equal(t, "use of harbor", check.Spec.Description)
	var told approvalv1alpha1.CheckContext
	require.NoError(t, json.Unmarshal([]byte(check.Annotations[approvalv1alpha1.AnnotationContext]), &told))
	assert.Equal(t, "harbor", told.Object.Name)
	assert.Equal(t, "push", told.Rule)
	q := check.Spec.Request
	require.NotNil(t, q)
	assert.Equal(t, "promote 1.4.2", q.Reason)
	assert.Equal(t, "dev", q.Person)
	assert.Equal(t, []string{"dev"}, q.Excluded)
	assert.Equal(t, "1h0m0s", q.Duration)
	assert.Equal(t, r.UID, q.Ref.UID)
	assert.Equal(t, "push", q.Rule.Name)
	assert.NotEmpty(t, q.Rule.LastAuthor)
	assert.NotEqual(t, approvalv1alpha1.UnknownUser, q.Rule.LastAuthor)
	assert.NotNil(t, q.Deadline)

	p.answer(check, duckv1alpha1.CheckApproved)
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
	assert.Equal(t, "olga", r.Status.Results[0].DecidedBy[0].Username)
	assert.Equal(t, r.Status.Validity.NotBefore.Add(3600*1e9), r.Status.Validity.NotAfter.Time)
	assert.Equal(t, int64(3), controllers.counter.writes.Load()-before, "the check, pending, granted")
}

func TestRequest_ReadyFollowsTheChecks(t *testing.T) {
	cases := map[string]struct {
		state  duckv1alpha1.CheckState
		edit   func(*approvalv1alpha1.ApprovalRequestStatus)
		reason string
	}{
		"rejected":  {duckv1alpha1.CheckRejected, func(*approvalv1alpha1.ApprovalRequestStatus) {}, approvalv1alpha1.ReasonChecksRejected},
		"timed out": {duckv1alpha1.CheckCancelled, func(s *approvalv1alpha1.ApprovalRequestStatus) { s.Reason = duckv1alpha1.CheckReasonTimedOut }, approvalv1alpha1.ReasonExpired},
	}
	startRequests(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.rule("push")
			p.rule("also")
			r := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(2))
			p.answer(p.checkOf(r, "push"), c.state, c.edit)
			r = ready(t, r, c.reason)
			require.NotNil(t, r.Status.Ended)
			p.cancelled(p.checkOf(r, "also"))
		})
	}
}

func TestRequest_RevocationByAnOwnerHolds(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending)
	check := p.checkOf(r, "push")
	p.answer(check, duckv1alpha1.CheckApproved)
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
	p.answer(check, duckv1alpha1.CheckCancelled, func(s *approvalv1alpha1.ApprovalRequestStatus) {
		s.Reason = duckv1alpha1.CheckReasonRevoked
		s.Revocation = &approvalv1alpha1.CheckRevocation{Username: "boss", ByOwner: true, At: metav1.Now(), Comment: "stop"}
	})
	ended := ready(t, r, approvalv1alpha1.ReasonRevoked).Status.Ended
	require.NotNil(t, ended.HoldUntil)
	assert.Equal(t, r.Status.Validity.NotAfter.UTC(), ended.HoldUntil.UTC())
}

func TestRequest_RulesComeChangeAndGo(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonNoChecksNeeded)

	rule := p.rule("push")
	r = when(t, r, approvalv1alpha1.ReasonChecksPending, refs(1))
	first := p.checkOf(r, "push")

	edited := reread(t, rule)
	edited.Spec.Grant = &approvalv1alpha1.Grant{MaxDuration: &metav1.Duration{Duration: 60e9}}
	require.NoError(t, p.admin.Update(t.Context(), edited))
	r = when(t, r, approvalv1alpha1.ReasonChecksPending, func(r *approvalv1alpha1.ResourceCheckRequest) bool { return len(r.Status.Superseded) == 1 })
	assert.Equal(t, approvalv1alpha1.ReasonRulesChanged, r.Status.Superseded[0].Reason)
	assert.Equal(t, first.UID, r.Status.Superseded[0].Check.UID)
	p.cancelled(first)
	second := p.checkOf(r, "push")
	assert.NotEqual(t, first.UID, second.UID)

	p.answer(second, duckv1alpha1.CheckApproved)
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
	assert.Equal(t, r.Status.Validity.NotBefore.Add(60e9), r.Status.Validity.NotAfter.Time)

	require.NoError(t, p.admin.Delete(t.Context(), rule))
	ready(t, r, approvalv1alpha1.ReasonNoChecksNeeded)
}

func TestRequest_AProtectedWriteWithoutARuleIsClosed(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.connector.Spec.RequireChecks = true
	require.NoError(t, p.admin.Update(t.Context(), p.connector))
	ready(t, p.request("write"), approvalv1alpha1.ReasonNoRules)
	ready(t, p.request("read", func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Use = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationRead}}
	}), approvalv1alpha1.ReasonNoChecksNeeded)
}

func TestS8_AChangedConnectorIsAskedAnewAndANewOneInheritsNothing(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending)
	check := p.checkOf(r, "push")
	p.answer(check, duckv1alpha1.CheckApproved)
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)

	p.connector = reread(t, p.connector)
	p.connector.Spec.Address = "https://elsewhere.example.com"
	require.NoError(t, p.admin.Update(t.Context(), p.connector))
	r = when(t, r, approvalv1alpha1.ReasonChecksPending, refs(1))
	assert.Equal(t, approvalv1alpha1.ReasonObjectChanged, r.Status.Superseded[0].Reason)
	assert.NotEqual(t, check.UID, p.checkOf(r, "push").UID, "the former approval is not taken again")
	assert.Equal(t, p.connector.Generation, r.Status.Object.Generation)

	require.NoError(t, p.admin.Delete(t.Context(), p.connector))
	replaced := p.connector.DeepCopy()
	replaced.ObjectMeta = metav1.ObjectMeta{Namespace: p.owners, Name: "harbor"}
	require.NoError(t, p.admin.Create(t.Context(), replaced))
	ready(t, r, approvalv1alpha1.ReasonObjectGone)
}

func TestRequest_AnyNamespacedObjectCanBeProtected(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.owners, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}},
			},
		},
	}
	require.NoError(t, p.admin.Create(t.Context(), deployment))
	aimAt := func(ref *approvalv1alpha1.ObjectReference) {
		ref.APIVersion, ref.Kind, ref.Name = "apps/v1", "Deployment", "web"
	}
	p.rule("deploy", func(r *approvalv1alpha1.ResourceCheckRule) { aimAt(&r.Spec.ObjectRef) })
	r := p.request("ask", func(r *approvalv1alpha1.ResourceCheckRequest) {
		aimAt(&r.Spec.ObjectRef)
		r.Spec.ObjectRef.UID = deployment.UID
	})
	r = when(t, r, approvalv1alpha1.ReasonChecksPending, refs(1))
	p.answer(p.checkOf(r, "deploy"), duckv1alpha1.CheckApproved)
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)

	eventually(t, func(ctx context.Context) error {
		stored := reread(t, deployment)
		stored.Spec.Template.Spec.Containers[0].Image = "web:2"
		return p.admin.Update(ctx, stored)
	})
	r = ready(t, r, approvalv1alpha1.ReasonChecksPending)
	require.NoError(t, p.admin.Delete(t.Context(), deployment))
	ready(t, r, approvalv1alpha1.ReasonObjectGone)
}

// pipelineRun is a run that dev has started.
func (p *place) pipelineRun(name string) *unstructured.Unstructured {
	p.t.Helper()
	return p.pipelineRunBy("dev", name)
}

func (p *place) pipelineRunBy(user, name string) *unstructured.Unstructured {
	p.t.Helper()
	bindRoleNamed(p.t, p.asking, "starts-"+name, user)
	run := foreign("tekton.dev/v1", "PipelineRun", p.asking, name)
	run.Object["spec"] = map[string]any{
		"pipelineRef": map[string]any{"name": "build"},
		"params":      []any{map[string]any{"name": "version", "value": "1.4.2"}, map[string]any{"name": "token", "value": "hush"}},
	}
	require.NoError(p.t, impersonate(p.t, user).Create(p.t.Context(), run))
	return run
}

func forRun(run *unstructured.Unstructured) func(*approvalv1alpha1.ResourceCheckRequest) {
	return func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context = approvalv1alpha1.RequestContext{
			Subject: &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: run.GetNamespace(), Name: "default", UID: "sa"},
			Resource: &approvalv1alpha1.ObjectReference{
				APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Namespace: run.GetNamespace(), Name: run.GetName(), UID: run.GetUID(),
			},
		}
		r.Spec.RequestedBy = &approvalv1alpha1.Identity{Username: "helper"}
	}
}

func TestRequest_ForARunTellsWhoIsBehindItAndEndsWithIt(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	run := p.pipelineRun("build-7")
	r := when(t, p.request("ask", forRun(run)), approvalv1alpha1.ReasonChecksPending, refs(1))
	check := p.checkOf(r, "push")
	q := check.Spec.Request
	assert.Equal(t, "dev", q.Person)
	assert.Equal(t, "build", q.Pipeline)
	assert.Equal(t, []approvalv1alpha1.Parameter{{Name: "version", Value: "1.4.2"}, {Name: "token", Value: "***"}}, q.Parameters)
	require.Len(t, q.Context, 1)
	assert.Equal(t, "dev", q.Context[0].CreatedBy)
	assert.ElementsMatch(t, []string{"dev", "helper", "system:serviceaccount:" + p.asking + ":default"}, q.Excluded)
	assert.False(t, q.UnknownCreator)
	assert.Equal(t, "24h0m0s", q.Duration)

	require.NoError(t, p.admin.Delete(t.Context(), run))
	ready(t, r, approvalv1alpha1.ReasonContextEnded)
	p.cancelled(check)
}

func TestRequest_AFinishedRunEndsTheGrant(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	run := p.pipelineRun("build-8")
	r := when(t, p.request("ask", forRun(run)), approvalv1alpha1.ReasonChecksPending, refs(1))
	p.answer(p.checkOf(r, "push"), duckv1alpha1.CheckApproved)
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
	run.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Succeeded", "status": "True", "reason": "Completed"}}}
	require.NoError(t, p.admin.Status().Update(t.Context(), run))
	ended := ready(t, r, approvalv1alpha1.ReasonContextEnded).Status.Ended
	assert.Contains(t, ended.Message, "it has finished (Completed)")
}

func TestRequest_ARunMadeByAConnectorHasNoKnownCreator(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	k8s := p.connector.DeepCopy()
	k8s.ObjectMeta = metav1.ObjectMeta{Namespace: p.owners, Name: "cluster"}
	k8s.Spec.ConnectorClassName = "k8s"
	require.NoError(t, p.admin.Create(t.Context(), k8s))
	k8s.Status.Identity = "robot-of-a-connector"
	require.NoError(t, p.controller.Status().Update(t.Context(), k8s))
	run := p.pipelineRunBy(k8s.Status.Identity, "build-9")
	r := when(t, p.request("ask", forRun(run)), approvalv1alpha1.ReasonChecksPending, refs(1))
	q := p.checkOf(r, "push").Spec.Request
	assert.True(t, q.UnknownCreator)
	assert.Equal(t, approvalv1alpha1.UnknownUser, q.Person)
	assert.Equal(t, approvalv1alpha1.UnknownUser, q.Context[0].CreatedBy)
}

func TestRequest_EqualsFollowTheOldest(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	leader := ready(t, p.request("first"), approvalv1alpha1.ReasonChecksPending)
	follower := when(t, p.request("second", func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.RequestedBy.Username = "helper"
	}), approvalv1alpha1.ReasonChecksPending, func(r *approvalv1alpha1.ResourceCheckRequest) bool { return r.Status.Follows != nil })
	assert.Equal(t, leader.UID, follower.Status.Follows.UID)
	assert.Empty(t, follower.Status.RequestRefs)
	assert.Len(t, p.allChecks(), 1)
	when(t, leader, approvalv1alpha1.ReasonChecksPending, func(r *approvalv1alpha1.ResourceCheckRequest) bool {
		return len(r.Status.Askers) == 1 && r.Status.Askers[0] == "helper"
	})

	p.answer(p.checkOf(leader, "push"), duckv1alpha1.CheckApproved)
	ready(t, leader, approvalv1alpha1.ReasonAllChecksApproved)
	ready(t, follower, approvalv1alpha1.ReasonAllChecksApproved)

	revoked := reread(t, leader)
	revoked.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: "done", By: "dev"}
	require.NoError(t, p.admin.Update(t.Context(), revoked))
	ready(t, leader, approvalv1alpha1.ReasonRevoked)
	ready(t, follower, approvalv1alpha1.ReasonRevoked)

	again := ready(t, p.request("third"), approvalv1alpha1.ReasonChecksPending)
	assert.Nil(t, again.Status.Follows)
	assert.Len(t, p.allChecks(), 2, "an ended request never blocks asking again")
}

func TestRequest_AFollowerAsksWhenItsLeaderIsDeleted(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	leader := ready(t, p.request("first"), approvalv1alpha1.ReasonChecksPending)
	follower := when(t, p.request("second"), approvalv1alpha1.ReasonChecksPending, func(r *approvalv1alpha1.ResourceCheckRequest) bool { return r.Status.Follows != nil })
	old := p.checkOf(leader, "push")
	require.NoError(t, p.admin.Delete(t.Context(), leader))
	follower = when(t, follower, approvalv1alpha1.ReasonChecksPending, refs(1))
	assert.Nil(t, follower.Status.Follows)
	assert.NotEqual(t, old.UID, p.checkOf(follower, "push").UID, "the question of another request is never adopted")
}

func TestRequest_ManyEqualsAtOnceEndInOneCheck(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	p.rule("also")
	var all []*approvalv1alpha1.ResourceCheckRequest
	errs := make(chan error)
	const many = 12
	for i := range many {
		r := p.makeRequest(fmt.Sprintf("ask-%d", i))
		all = append(all, r)
		go func() { errs <- p.admin.Create(t.Context(), r) }()
	}
	for range many {
		require.NoError(t, <-errs)
	}
	leaders := 0
	for _, r := range all {
		r = when(t, r, approvalv1alpha1.ReasonChecksPending, func(r *approvalv1alpha1.ResourceCheckRequest) bool {
			return r.Status.Follows != nil || len(r.Status.RequestRefs) == 2
		})
		if r.Status.Follows == nil {
			leaders++
		}
	}
	assert.Equal(t, 1, leaders)
	assert.Len(t, p.allChecks(), 2)
}

func TestRequest_RefusedTemplateIsShownAndRepaired(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	rule := p.rule("push", func(r *approvalv1alpha1.ResourceCheckRule) { r.Spec.CheckTemplate.Spec.Raw = []byte(`{"policies":[]}`) })
	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonError)
	assert.Contains(t, r.Status.Results[0].Message, "the API server refuses the check")
	repaired := reread(t, rule)
	repaired.Spec.CheckTemplate.Spec.Raw = []byte(`{"policies":[{"name":"a","approvers":[{"type":"User","name":"olga"}],"numberOfApprovalsRequired":1}]}`)
	require.NoError(t, p.admin.Update(t.Context(), repaired))
	when(t, r, approvalv1alpha1.ReasonChecksPending, refs(1))
}

func TestRequest_UnfinishedOneDeletedLeavesNoOpenQuestion(t *testing.T) {
	controllers, p := startRequests(t), newPlace(t)
	p.rule("push")
	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending)
	check := p.checkOf(r, "push")
	require.NoError(t, p.admin.Delete(t.Context(), r))
	p.cancelled(check)
	eventually(t, func(context.Context) error {
		if lines := controllers.sink.about(t, r.UID); len(lines) != 1 || lines[0].Occasion != "Deleted" || lines[0].Request.Name != "ask" {
			return fmt.Errorf("%d lines of evidence", len(lines))
		}
		return nil
	})
	// The same question may be asked again, although its check has the same name.
	again := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(1))
	assert.NotEqual(t, check.UID, p.checkOf(again, "push").UID)
	assert.Equal(t, client.ObjectKeyFromObject(check), client.ObjectKeyFromObject(p.checkOf(again, "push")))
}
