package status

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, approvalv1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).Build()
}

func stored(t *testing.T, c client.Client) *approvalv1alpha1.ApprovalRequest {
	t.Helper()
	check := &approvalv1alpha1.ApprovalRequest{}
	require.NoError(t, c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "check"}, check))
	return check
}

func TestApply(t *testing.T) {
	check := &approvalv1alpha1.ApprovalRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "check"}}
	c := newClient(t, check)
	started := metav1.NewTime(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))

	full := approvalv1alpha1.ApprovalRequestStatus{StartedAt: &started, CheckStatus: duckv1alpha1.CheckStatus{
		State: duckv1alpha1.CheckPending, Message: "waiting", DecidedBy: []duckv1alpha1.CheckDecision{{Username: "alice", Decision: "Approve"}},
	}}
	require.NoError(t, Apply(context.Background(), c, stored(t, c), &full))
	assert.Equal(t, "waiting", stored(t, c).Status.Message)
	assert.True(t, started.Equal(stored(t, c).Status.StartedAt))

	require.NoError(t, Apply(context.Background(), c, stored(t, c), &approvalv1alpha1.ApprovalRequestStatus{StartedAt: &started}))
	assert.Empty(t, stored(t, c).Status.Message, "what is no longer sent is removed")
	assert.Empty(t, stored(t, c).Status.DecidedBy)
}

func TestApplyIfCurrentDoesNotOverwriteANewerVersion(t *testing.T) {
	c := newClient(t, &approvalv1alpha1.ApprovalRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "check"}})
	old := stored(t, c)
	newer := old.DeepCopy()
	newer.Status.State = duckv1alpha1.CheckCancelled
	require.NoError(t, c.Status().Update(context.Background(), newer))

	require.NoError(t, ApplyIfCurrent(context.Background(), c, old, &approvalv1alpha1.ApprovalRequestStatus{
		CheckStatus: duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckApproved}}))
	assert.Equal(t, duckv1alpha1.CheckCancelled, stored(t, c).Status.State)
}

func TestApplyIfCurrentToADeletedObject(t *testing.T) {
	c := newClient(t, &approvalv1alpha1.ApprovalRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "check"}})
	old := stored(t, c)
	require.NoError(t, c.Delete(context.Background(), old))
	assert.NoError(t, ApplyIfCurrent(context.Background(), c, old, &approvalv1alpha1.ApprovalRequestStatus{}))
}
