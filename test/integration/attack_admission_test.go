package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// While the CheckKind is away nothing guards the statuses of its kind, so an answer written then must not count when the
// kind is registered again.
func TestS5_AnAnswerForgedWhileTheKindWasNotRegisteredNeverCounts(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("sign", signedBy)
	mallory := tenant(t, p.owners)
	r := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(1))
	forged := `{"status":{"phase":"Signed"}}`
	check := p.signature(r)
	refusedByPolicy(t, mallory.Status().Patch(t.Context(), check, mergePatch(forged)), "the writers of its CheckKind alone")

	kind := &approvalv1alpha1.CheckKind{}
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Name: "signature.request.example.com"}, kind))
	require.NoError(t, p.admin.Delete(t.Context(), kind))
	t.Cleanup(func() { assert.NoError(t, cluster.Apply(context.Background(), cluster.Admin(), signatureKind)) })
	eventually(t, func(ctx context.Context) error { return mallory.Status().Patch(ctx, check, mergePatch(forged)) })

	require.NoError(t, cluster.Apply(t.Context(), cluster.Admin(), signatureKind))
	closed := when(t, r, approvalv1alpha1.ReasonError, func(r *approvalv1alpha1.ResourceCheckRequest) bool {
		return len(r.Status.Results) == 1 && strings.Contains(r.Status.Results[0].Message, "registered anew")
	})
	assert.Equal(t, duckv1alpha1.CheckError, closed.Status.Results[0].State)
	assert.Nil(t, closed.Status.Validity)
}
