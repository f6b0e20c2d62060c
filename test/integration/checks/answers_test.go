package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
)

func makeConnector(namespace string) *connectorsv1alpha1.Connector {
	return &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "harbor"},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: "https://tool.example.com"},
	}
}

// question is asked by dev1 about an object, on behalf of a request in the same namespace.
func question(t testing.TB, namespace string, object approvalv1alpha1.ObjectReference, resource *approvalv1alpha1.ObjectReference) *approvalv1alpha1.CheckRequest {
	t.Helper()
	asking := &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "ask-"}}
	asking.Spec.ObjectRef, asking.Spec.Context.Resource = object, resource
	asking.Spec.Context.Subject = &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "dev1"}
	create(t, cluster.Admin(), asking)
	return &approvalv1alpha1.CheckRequest{
		Ref:    approvalv1alpha1.RequestReference{Namespace: namespace, Name: asking.Name, UID: asking.UID},
		Object: object, Subject: *asking.Spec.Context.Subject, RequestedBy: approvalv1alpha1.Identity{Username: "dev1"},
		Rule: approvalv1alpha1.RuleSnapshot{Name: "push", UID: "u1", Generation: 1, Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: object, CheckTemplate: approvalv1alpha1.CheckTemplate{APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ScriptCheck"},
		}},
	}
}

func aboutHarbor(namespace string) approvalv1alpha1.ObjectReference {
	return approvalv1alpha1.ObjectReference{APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: "Connector", Namespace: namespace, Name: "harbor", UID: "o1"}
}

// approval is made as the controller makes it.
func approval(t testing.TB, namespace string, required int32, edit ...func(*approvalv1alpha1.ApprovalRequestSpec)) *approvalv1alpha1.ApprovalRequest {
	t.Helper()
	check := &approvalv1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "check-"},
		Spec: approvalv1alpha1.ApprovalRequestSpec{
			Policies: []approvalv1alpha1.ApprovalPolicy{{Name: "owners", NumberOfApprovalsRequired: required,
				Approvers: []approvalv1alpha1.Approver{{Type: approvalv1alpha1.ApproverGroup, Name: "prod-owners"}}}},
			Request: question(t, namespace, aboutHarbor(namespace), nil),
		},
	}
	for _, e := range edit {
		e(&check.Spec)
	}
	create(t, running.as, check)
	return check
}

// answer is what admission would have made of an owner's answer.
func answer(check *approvalv1alpha1.ApprovalRequest, user string, decision approvalv1alpha1.ApprovalDecision) *approvalv1alpha1.ApprovalResponse {
	return &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: check.Namespace, GenerateName: "answer-"},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Kind: "ApprovalRequest", Name: check.Name, UID: check.UID}, Decision: decision, Comment: "because",
			Responder: &approvalv1alpha1.Identity{Username: user, Groups: []string{"prod-owners"}},
		},
	}
}

func isIn(state duckv1alpha1.CheckState) func(*approvalv1alpha1.ApprovalRequest) bool {
	return func(c *approvalv1alpha1.ApprovalRequest) bool { return c.Status.State == state }
}

func isTakenUp(c *approvalv1alpha1.ApprovalRequest) bool { return c.Status.StartedAt != nil }

func TestApprovalSaysAtOnceWhoIsWaitedFor(t *testing.T) {
	check := until(t, approval(t, cluster.Namespace(t), 2), isTakenUp)
	assert.Equal(t, duckv1alpha1.CheckPending, check.Status.State)
	assert.Equal(t, []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForGroup, Name: "prod-owners", Missing: 2}}, check.Status.WaitingFor)
	assert.Equal(t, "Waiting for approvals: policy owners has 0 of 2.", check.Status.Message)
}

func TestSimultaneousAnswersAllCount(t *testing.T) {
	check := approval(t, cluster.Namespace(t), 10)
	admin := as(t, cluster.Admin())
	var group sync.WaitGroup
	for i := range 10 {
		group.Go(func() {
			assert.NoError(t, admin.Create(context.Background(), answer(check, fmt.Sprint("owner", i), approvalv1alpha1.DecisionApprove)))
		})
	}
	group.Wait()
	until(t, check, isIn(duckv1alpha1.CheckApproved))
	assert.Len(t, check.Status.DecidedBy, 10)
	assert.Equal(t, int32(10), check.Status.Policies[0].Approvals)
}

func TestApprovalIsRevoked(t *testing.T) {
	check := approval(t, cluster.Namespace(t), 1)
	create(t, cluster.Admin(), answer(check, "owner1", approvalv1alpha1.DecisionApprove))
	until(t, check, isIn(duckv1alpha1.CheckApproved))
	create(t, cluster.Admin(), answer(check, "owner1", approvalv1alpha1.DecisionRevoke))
	until(t, check, isIn(duckv1alpha1.CheckCancelled))
	assert.Equal(t, duckv1alpha1.CheckReasonRevoked, check.Status.Reason)
	assert.Equal(t, "owner1", check.Status.Revocation.Username)
}

func TestS7_WhoJoinsTheAskersNoLongerApproves(t *testing.T) {
	check := until(t, approval(t, cluster.Namespace(t), 2), isTakenUp)
	create(t, cluster.Admin(), answer(check, "owner1", approvalv1alpha1.DecisionApprove))
	until(t, check, func(c *approvalv1alpha1.ApprovalRequest) bool { return c.Status.Policies[0].Approvals == 1 })

	asking := &approvalv1alpha1.ResourceCheckRequest{}
	asking.Namespace, asking.Name = check.Spec.Request.Ref.Namespace, check.Spec.Request.Ref.Name
	controller := as(t, running.as)
	require.NoError(t, controller.Get(t.Context(), client.ObjectKeyFromObject(asking), asking))
	asking.Status.RequestRefs = []approvalv1alpha1.CheckReference{{Name: "push", APIVersion: approvalv1alpha1.GroupVersion.String(),
		Kind: "ApprovalRequest", Namespace: check.Namespace, ObjectName: check.Name, UID: check.UID, SpecDigest: "d"}}
	asking.Status.Askers = []string{"owner1"}
	require.NoError(t, controller.Status().Update(t.Context(), asking))
	until(t, check, func(c *approvalv1alpha1.ApprovalRequest) bool { return c.Status.Policies[0].Approvals == 0 })
}

func TestS15_AnswersGivenWhileNobodyCountsAreCounted(t *testing.T) {
	check := until(t, approval(t, cluster.Namespace(t), 2), isTakenUp)
	started := check.Status.StartedAt.DeepCopy()
	require.NoError(t, running.stop())
	create(t, cluster.Admin(), answer(check, "owner1", approvalv1alpha1.DecisionApprove), answer(check, "owner2", approvalv1alpha1.DecisionApprove))
	require.NoError(t, running.start())
	until(t, check, isIn(duckv1alpha1.CheckApproved))
	assert.True(t, started.Equal(check.Status.StartedAt), "a restart does not start the clock anew")

	create(t, cluster.Admin(), answer(check, "owner3", approvalv1alpha1.DecisionReject))
	require.NoError(t, running.stop())
	require.NoError(t, running.start())
	other := until(t, approval(t, check.Namespace, 1), isTakenUp)
	require.NotEqual(t, check.UID, other.UID)
	assert.True(t, isIn(duckv1alpha1.CheckApproved)(until(t, check, func(*approvalv1alpha1.ApprovalRequest) bool { return true })), "what was decided stays decided")
}

func TestACancelledCheckIsNotOpenedAgain(t *testing.T) {
	check := until(t, approval(t, cluster.Namespace(t), 1), isTakenUp)
	cancelled := check.Status.DeepCopy()
	cancelled.State, cancelled.Reason, cancelled.WaitingFor = duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonRequestEnded, nil
	require.NoError(t, status.Apply(t.Context(), as(t, running.as), check, cancelled))
	create(t, cluster.Admin(), answer(check, "owner1", approvalv1alpha1.DecisionApprove))
	until(t, check, func(c *approvalv1alpha1.ApprovalRequest) bool {
		return reasonOf(c.Status.Conditions) == duckv1alpha1.CheckReasonRequestEnded
	})
	assert.Equal(t, duckv1alpha1.CheckCancelled, check.Status.State)
}

func TestTimeWindowOpensOnceAndCloses(t *testing.T) {
	windows.SetTime(monday)
	namespace := cluster.Namespace(t)
	check := &approvalv1alpha1.TimeWindowCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "window"},
		Spec: approvalv1alpha1.TimeWindowCheckSpec{TimeZone: "Europe/Berlin", Request: question(t, namespace, aboutHarbor(namespace), nil),
			Windows: []approvalv1alpha1.TimeWindow{{Weekdays: []approvalv1alpha1.Weekday{"Monday"}, From: "09:00", To: "17:00"}}},
	}
	is := func(state duckv1alpha1.CheckState) func(*approvalv1alpha1.TimeWindowCheck) bool {
		return func(c *approvalv1alpha1.TimeWindowCheck) bool { return c.Status.State == state }
	}
	create(t, running.as, check)
	until(t, check, func(c *approvalv1alpha1.TimeWindowCheck) bool { return c.Status.OpensAt != nil })
	assert.Equal(t, duckv1alpha1.CheckPending, check.Status.State)

	windows.Step(time.Hour)
	touch(t, check, "open")
	until(t, check, is(duckv1alpha1.CheckApproved))
	assert.Equal(t, "2026-03-02T16:00:00Z", check.Status.NotAfter.UTC().Format(time.RFC3339))

	windows.Step(8 * time.Hour)
	touch(t, check, "closed")
	until(t, check, is(duckv1alpha1.CheckCancelled))
	assert.Equal(t, duckv1alpha1.CheckReasonWindowClosed, check.Status.Reason)
}

// asked is a script check as the controller makes it.
func asked(t testing.TB, expression string, object approvalv1alpha1.ObjectReference, resource *approvalv1alpha1.ObjectReference) *approvalv1alpha1.ScriptCheck {
	t.Helper()
	about, err := json.Marshal(approvalv1alpha1.CheckContext{Object: object, Resource: resource})
	require.NoError(t, err)
	check := &approvalv1alpha1.ScriptCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, GenerateName: "script-",
			Annotations: map[string]string{approvalv1alpha1.AnnotationContext: string(about)}},
		Spec: approvalv1alpha1.ScriptCheckSpec{Expression: expression, Request: question(t, object.Namespace, object, resource)},
	}
	create(t, running.as, check)
	return check
}

func says(state duckv1alpha1.CheckState) func(*approvalv1alpha1.ScriptCheck) bool {
	return func(c *approvalv1alpha1.ScriptCheck) bool { return c.Status.State == state }
}

func referTo(apiVersion, kind string, object client.Object) approvalv1alpha1.ObjectReference {
	return approvalv1alpha1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
}

func label(t testing.TB, object client.Object, key, value string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	require.NoError(t, as(t, cluster.Admin()).Patch(t.Context(), object, patch))
}

func TestScriptFollowsItsInputs(t *testing.T) {
	namespace := cluster.Namespace(t)
	connector := makeConnector(namespace)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run"}, Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/main"}}}}}}
	create(t, cluster.Admin(), connector, job)
	object, resource := referTo(connectorsv1alpha1.GroupVersion.String(), "Connector", connector), referTo("batch/v1", "Job", job)

	t.Run("the run", func(t *testing.T) {
		check := asked(t, `has(resource.metadata.labels) && "tested" in resource.metadata.labels ? dyn(resource.metadata.labels.tested == "yes") : "not yet"`, object, &resource)
		until(t, check, func(c *approvalv1alpha1.ScriptCheck) bool {
			return c.Status.State == duckv1alpha1.CheckPending && len(c.Status.WaitingFor) > 0
		})
		label(t, job, "tested", "yes")
		until(t, check, says(duckv1alpha1.CheckApproved))
		label(t, job, "tested", "no")
		until(t, check, says(duckv1alpha1.CheckRejected))
	})
	t.Run("the connector", func(t *testing.T) {
		check := asked(t, `has(object.metadata.labels) && object.metadata.labels[?"tier"].orValue("") == "gold" ? dyn(true) : "not yet"`, object, nil)
		until(t, check, func(c *approvalv1alpha1.ScriptCheck) bool { return len(c.Status.WaitingFor) > 0 })
		label(t, connector, "tier", "gold")
		until(t, check, says(duckv1alpha1.CheckApproved))
	})
	t.Run("no run", func(t *testing.T) {
		until(t, asked(t, `resource == null && request.requestedBy.username == "dev1" && rule.name == "push"`, object, nil), says(duckv1alpha1.CheckApproved))
	})
}

func TestScriptThatMayNotReadSaysSo(t *testing.T) {
	namespace := cluster.Namespace(t)
	class := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "walls"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "treasure"}, StringData: map[string]string{"key": "value"}}
	create(t, cluster.Admin(), class, secret)

	check := until(t, asked(t, `object.kind == "NetworkPolicy"`, referTo("networking.k8s.io/v1", "NetworkPolicy", class), nil), says(duckv1alpha1.CheckError))
	assert.Contains(t, check.Status.Message, "the controller may not read NetworkPolicy "+namespace+"/walls: grant get on it")
	check = until(t, asked(t, `object.data.key == "dmFsdWU="`, referTo("v1", "Secret", secret), nil), says(duckv1alpha1.CheckError))
	assert.Contains(t, check.Status.Message, "a script never reads a Secret")
}
