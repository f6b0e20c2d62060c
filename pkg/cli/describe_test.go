package cli

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

var update = flag.Bool("update", false, "write the outputs into testdata")

func assertGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// wholeStory uses every field of a request's description.
func wholeStory(r *approvalv1alpha1.ResourceCheckRequest) {
	after := metav1.NewTime(now.Add(time.Hour))
	r.Spec.Reason = "promote\n\x1b[31m\u202e1.4.2"
	r.Spec.Context = approvalv1alpha1.RequestContext{
		Subject:  &approvalv1alpha1.Subject{Kind: "ServiceAccount", Namespace: "team-a", Name: "pipeline"},
		Resource: &approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Namespace: "team-a", Name: "release-7"},
	}
	r.Spec.Use = &approvalv1alpha1.OperationSelector{
		Operations: []approvalv1alpha1.OperationClass{"Write"},
		HTTP:       &approvalv1alpha1.HTTPSelector{Methods: []string{"PUT", "POST"}, Paths: []string{"/v2/app/**"}},
	}
	r.Spec.TimeRange = &approvalv1alpha1.TimeRange{Duration: &metav1.Duration{Duration: 90 * time.Minute}, After: &after}
	r.Status.Askers = []string{"dev2@example.com"}
	r.Status.Superseded = []approvalv1alpha1.SupersededResult{{
		CheckResult: approvalv1alpha1.CheckResult{Name: "push", Generation: 2, State: duckv1alpha1.CheckApproved},
		Reason:      "RulesChanged", At: metav1.NewTime(now.Add(-2 * time.Minute)),
	}}
}

// wholeQuestion uses every field of a check's description.
func wholeQuestion(c *approvalv1alpha1.ApprovalRequest) {
	q := c.Spec.Request
	q.Person, q.Duration, q.Pipeline = "dev@example.com", "2h", "release"
	q.Context = []approvalv1alpha1.ContextHop{
		{Resource: approvalv1alpha1.ObjectReference{Kind: "TaskRun", Namespace: "team-a", Name: "push"}, CreatedBy: "system:serviceaccount:tekton-pipelines:c", Proven: true},
		{Resource: approvalv1alpha1.ObjectReference{Kind: "PipelineRun", Namespace: "team-a", Name: "release-7"}, CreatedBy: "dev@example.com"},
	}
	q.Parameters = []approvalv1alpha1.Parameter{{Name: "image", Value: "app:1\x07"}, {Name: "password", Value: "***"}}
	c.Spec.Policies = append(c.Spec.Policies, approvalv1alpha1.ApprovalPolicy{
		Name: "qa", NumberOfApprovalsRequired: 1, Approvers: []approvalv1alpha1.Approver{{Type: "User", Name: "qa1"}, {Type: "Group", Name: "qa"}},
	})
	c.Spec.Order = approvalv1alpha1.OrderSequential
	c.Status.WaitingFor = []duckv1alpha1.CheckWaiting{{Kind: "Group", Name: "prod-owners", Missing: 1}}
}

// assertedRequest and assertedCheck have nobody who came with a credential of his own.
func assertedRequest(r *approvalv1alpha1.ResourceCheckRequest) {
	r.Spec.RequestedBy.Extra = nil
	r.Status.Results[0].DecidedBy[0].Asserted = true
}

func assertedCheck(c *approvalv1alpha1.ApprovalRequest) {
	c.Spec.AssertedAnswers = approvalv1alpha1.AssertedAnswersForbid
	c.Spec.Request.RequestedBy.Extra = nil
	c.Status.State = duckv1alpha1.CheckCancelled
	c.Status.DecidedBy[0].Asserted = true
	c.Status.Revocation = &approvalv1alpha1.CheckRevocation{Username: "owner2", Asserted: true, ByOwner: true, Comment: "leaked"}
}

func TestDescribe(t *testing.T) {
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "approval.alaudadevops.io/v1alpha1", "kind": "ScriptCheck",
		"metadata": map[string]any{"name": "script", "namespace": "prod", "annotations": map[string]any{
			approvalv1alpha1.AnnotationContext: `{"object":{"apiVersion":"v1","kind":"Connector","name":"prod-harbor","namespace":"prod"},` +
				`"subject":{"kind":"User","name":"dev"},"reason":"because","rule":"script"}`,
		}},
		"spec":   map[string]any{"expression": "true"},
		"status": map[string]any{"state": "rejected", "message": "no \u001b[1m"},
	}}
	tests := map[string]struct {
		object client.Object
		args   []string
	}{
		"request-new":      {makeRequest("rcr-1").Obj(), []string{"rcr-1"}},
		"request-pending":  {makeRequest("rcr-1").Pending().With(wholeStory).Obj(), []string{"rcr-1", "--in", "team-a", "-n", "prod"}},
		"request-granted":  {makeRequest("rcr-1").Granted().Obj(), []string{"team-a/rcr-1", "-n", "prod"}},
		"request-rejected": {makeRequest("rcr-1").With(wholeStory).Ended("ChecksRejected", "Rejected by owner1.").Obj(), []string{"rcr-1"}},
		"check-pending":    {makeCheck("check-a", "rcr-1").ApprovedBy("owner1").With(wholeQuestion).Obj(), []string{"rcr-1", "-n", "prod"}},
		"check-approved":   {makeCheck("check-a", "rcr-1").ApprovedBy("owner1").State("approved").Obj(), []string{"check-a", "-n", "prod"}},
		"request-asserted": {makeRequest("rcr-1").Granted().With(assertedRequest).Obj(), []string{"rcr-1"}},
		"check-asserted":   {makeCheck("check-a", "rcr-1").ApprovedBy("owner1").With(assertedCheck).Obj(), []string{"check-a", "-n", "prod"}},
		"check-foreign":    {foreign, []string{"script", "-n", "prod"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t, tt.object)
			require.Equal(t, ExitDone, b.run(append([]string{"describe"}, tt.args...)...), b.err.String())
			assertGolden(t, name, b.out.String())
		})
	}
}

func TestDescribeMachineOutput(t *testing.T) {
	nasty := makeRequest("rcr-1").With(func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Reason = "a\u202eb\u009b2J\U000e0041" }).Obj()
	b := makeBench(t, nasty)
	require.Equal(t, ExitDone, b.run("describe", "rcr-1", "-o", "json"))
	assert.Contains(t, b.out.String(), `"reason": "a\u202eb\u009b2J\udb40\udc41"`)
	require.Equal(t, ExitDone, b.run("describe", "rcr-1", "-o", "yaml"))
	assert.NotContains(t, b.out.String(), "\u202e")

	b = makeBench(t, makeRequest("rcr-1").Obj())
	require.Equal(t, ExitDone, b.run("describe", "rcr-1", "-o", "yaml"))
	assert.Contains(t, b.out.String(), "kind: ResourceCheckRequest\n")
	assert.Contains(t, b.out.String(), "  reason: promote 1.4.2\n")
}

func TestDescribeFindsNothing(t *testing.T) {
	b := makeBench(t)
	assert.Equal(t, ExitNotFound, b.run("describe", "rcr-1"))
	assert.Equal(t, "error: there is no request or check \"rcr-1\" in namespace team-a: name its namespace with -n\n", b.err.String())
}

func TestDescribeWithoutRights(t *testing.T) {
	b := makeBench(t)
	forbidden := apierrors.NewForbidden(requestResource, "rcr-1", nil)
	forbidden.ErrStatus.Message = `resourcecheckrequests.approval.alaudadevops.io "rcr-1" is forbidden: User "dev@example.com" cannot get resource ` +
		`"resourcecheckrequests" in API group "approval.alaudadevops.io" in the namespace "prod"`
	b.funcs.Get = refuseGet(forbidden)
	assert.Equal(t, ExitDenied, b.run("describe", "rcr-1", "-n", "prod"))
	assert.Equal(t, "error: dev@example.com may not get resourcecheckrequests in namespace prod: ask an owner of it for the right\n", b.err.String())
}
