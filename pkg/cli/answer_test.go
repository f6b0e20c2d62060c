package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func responses(t *testing.T, b *bench) []approvalv1alpha1.ApprovalResponse {
	t.Helper()
	list := &approvalv1alpha1.ApprovalResponseList{}
	require.NoError(t, b.client.List(t.Context(), list))
	return list.Items
}

func TestAnswer(t *testing.T) {
	two := []client.Object{
		makeCheck("check-a", "rcr-1").ApprovedBy("owner2").Obj(),
		makeCheck("check-b", "rcr-1").Obj(),
		makeCheck("check-c", "rcr-1").ApprovedBy("owner1").Obj(),
		makeCheck("check-d", "rcr-1").State(duckv1alpha1.CheckApproved).Obj(),
		makeCheck("check-e", "rcr-1").With(func(c *approvalv1alpha1.ApprovalRequest) { c.Spec.Policies[0].Approvers[0].Name = "qa" }).Obj(),
		makeCheck("other", "rcr-2").Obj(),
	}
	tests := map[string]struct {
		args     []string
		code     int
		out, err string
		answered []string
	}{
		"every check of a request": {args: []string{"approve", "rcr-1", "-n", "prod"}, answered: []string{"check-a", "check-b"},
			out: "approved prod/check-a (2 of 2 answers)\napproved prod/check-b (1 of 2 answers)\n",
			err: "skipped prod/check-c: you have answered it already\n" +
				"skipped prod/check-d: it is already approved\n" +
				"skipped prod/check-e: you are not among the approvers that this request names: ask one of those it waits for\n"},
		"one check": {args: []string{"approve", "check-b", "-n", "prod"}, answered: []string{"check-b"},
			out: "approved prod/check-b (1 of 2 answers)\n"},
		"a request with its namespace": {args: []string{"reject", "team-a/rcr-2", "-n", "prod", "--comment", "no"}, answered: []string{"other"},
			out: "rejected prod/other\n"},
		"all namespaces": {args: []string{"approve", "rcr-2", "-A"}, answered: []string{"other"}, out: "approved prod/other (1 of 2 answers)\n"},
		"several, one of them unknown": {args: []string{"approve", "nothing", "rcr-2", "-n", "prod"}, code: ExitNotFound, answered: []string{"other"},
			out: "approved prod/other (1 of 2 answers)\n", err: "error: no check of \"nothing\" is in namespace prod: -n is the namespace of the object, -A looks in all\n"},
		"wrong namespace": {args: []string{"approve", "rcr-1"}, code: ExitNotFound,
			err: "error: no check of \"rcr-1\" is in namespace team-a: -n is the namespace of the object, -A looks in all\n"},
		"revoke skips what has ended": {args: []string{"revoke", "rcr-2", "-n", "prod", "--comment", "leaked"}, answered: []string{"other"},
			out: "revoked prod/other\n"},
		"machine output": {args: []string{"approve", "check-b", "-n", "prod", "-o", "name"}, answered: []string{"check-b"},
			out: "approvalresponse.approval.alaudadevops.io/check-b-1\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t, two...).as("owner1", "prod-owners")
			b.funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				o.SetName(o.GetGenerateName() + "1")
				return c.Create(ctx, o, opts...)
			}
			assert.Equal(t, tt.code, b.run(tt.args...))
			assert.Equal(t, tt.out, b.out.String())
			assert.Equal(t, tt.err, b.err.String())
			var answered []string
			for _, r := range responses(t, b) {
				answered = append(answered, r.Spec.RequestRef.Name)
				assert.Equal(t, "uid-"+r.Spec.RequestRef.Name, string(r.Spec.RequestRef.UID))
			}
			assert.Equal(t, tt.answered, answered)
		})
	}
}

func TestAnswerIsRefused(t *testing.T) {
	b := makeBench(t, makeCheck("check-a", "rcr-1").Obj()).as("dev@example.com")
	b.funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		err := apierrors.NewForbidden(requestResource, "x", nil)
		err.ErrStatus.Message = `admission webhook "response.countersign" denied the request: you are part of this request: somebody else must answer`
		return err
	}
	assert.Equal(t, ExitDenied, b.run("approve", "rcr-1", "-n", "prod"))
	assert.Empty(t, b.out.String())
	assert.Equal(t, "error: prod/check-a: you are part of this request: somebody else must answer\n", b.err.String())
}

func TestAnswerNothingLeft(t *testing.T) {
	b := makeBench(t, makeCheck("a", "rcr-1").State(duckv1alpha1.CheckApproved).Obj(), makeCheck("b", "rcr-1").State(duckv1alpha1.CheckApproved).Obj()).
		as("owner1", "prod-owners")
	assert.Equal(t, ExitDenied, b.run("approve", "rcr-1", "-n", "prod"))
	assert.Contains(t, b.err.String(), "there is nothing here that you can answer")
}

func TestRevokeOwnRequest(t *testing.T) {
	check := makeCheck("check-a", "rcr-1").Obj()
	check.Namespace = "team-a"
	b := makeBench(t, makeRequest("rcr-1").Granted().Obj(), check)
	require.Equal(t, ExitDone, b.run("revoke", "rcr-1", "--comment", "done"), b.err.String())
	assert.Equal(t, "revoked team-a/rcr-1\n", b.out.String())
	assert.Equal(t, "done", asked(t, b).Spec.Revoked.Reason)
	assert.Empty(t, responses(t, b))

	assert.Equal(t, ExitDenied, b.run("revoke", "rcr-1", "--comment", "done"))
	assert.Contains(t, b.err.String(), "has ended already")
}

func TestRevokeOfAnOwnerAnswersTheChecks(t *testing.T) {
	window := &approvalv1alpha1.TimeWindowCheck{}
	window.Name, window.Namespace, window.UID = "window", "prod", "uid-window"
	window.Spec.Request = &approvalv1alpha1.CheckRequest{Ref: approvalv1alpha1.RequestReference{Namespace: "team-a", Name: "rcr-1"}}
	b := makeBench(t, makeCheck("check-a", "rcr-1").State(duckv1alpha1.CheckApproved).Obj(), window).as("owner1", "prod-owners")
	require.Equal(t, ExitDone, b.run("revoke", "rcr-1", "-n", "prod", "--comment", "leaked"), b.err.String())
	assert.Equal(t, "revoked prod/check-a\nrevoked prod/window\n", b.out.String())
	var targets []approvalv1alpha1.CheckTarget
	for _, r := range responses(t, b) {
		targets = append(targets, r.Spec.RequestRef)
	}
	assert.ElementsMatch(t, []approvalv1alpha1.CheckTarget{
		{Kind: "ApprovalRequest", Name: "check-a", UID: "uid-check-a"},
		{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "TimeWindowCheck", Name: "window", UID: "uid-window"},
	}, targets)
}
