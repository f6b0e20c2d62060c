package cli

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// asked returns the one request of the cluster.
func asked(t *testing.T, b *bench) approvalv1alpha1.ResourceCheckRequest {
	t.Helper()
	list := &approvalv1alpha1.ResourceCheckRequestList{}
	require.NoError(t, b.client.List(t.Context(), list))
	require.Len(t, list.Items, 1)
	return list.Items[0]
}

func TestRequestBuildsWhatIsAsked(t *testing.T) {
	type spec = approvalv1alpha1.ResourceCheckRequestSpec
	object := makeRequest("x").r.Spec.ObjectRef
	duration := &metav1.Duration{Duration: 2 * time.Hour}
	after := metav1.NewTime(time.Date(2030, 1, 31, 18, 0, 0, 0, time.UTC))
	tests := map[string]struct {
		args []string
		want spec
		in   string
	}{
		"the least": {[]string{"connector/prod-harbor", "--reason", "r"}, spec{ObjectRef: object, Reason: "r"}, "team-a"},
		"plural with group": {[]string{"connectors.connectors.alaudadevops.io/prod-harbor", "--reason", "r"},
			spec{ObjectRef: object, Reason: "r"}, "team-a"},
		"in another namespace": {[]string{"Connector/prod-harbor", "--in", "team-b"}, spec{ObjectRef: object}, "team-b"},
		"time": {[]string{"connector/prod-harbor", "--for", "2h", "--after", "2030-01-31T20:00:00+02:00"},
			spec{ObjectRef: object, TimeRange: &approvalv1alpha1.TimeRange{Duration: duration, After: &after}}, "team-a"},
		"use": {[]string{"connector/prod-harbor", "--use", "read,Write", "--methods", "put", "--paths", "/v2/app/**"},
			spec{ObjectRef: object, Use: &approvalv1alpha1.OperationSelector{
				Operations: []approvalv1alpha1.OperationClass{"Read", "Write"},
				HTTP:       &approvalv1alpha1.HTTPSelector{Methods: []string{"PUT"}, Paths: []string{"/v2/app/**"}},
			}}, "team-a"},
		"run": {[]string{"connector/prod-harbor", "--run", "job/release", "--service-account", "pipeline"},
			spec{ObjectRef: object, Context: approvalv1alpha1.RequestContext{
				Resource: &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "team-a", Name: "release"},
				Subject:  &approvalv1alpha1.Subject{Kind: "ServiceAccount", Namespace: "team-a", Name: "pipeline"},
			}}, "team-a"},
		"token": {[]string{"connector/prod-harbor", "--token-jti", "abc"},
			spec{ObjectRef: object, Context: approvalv1alpha1.RequestContext{Token: &approvalv1alpha1.TokenReference{JTI: "abc"}}}, "team-a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t)
			require.Equal(t, ExitDone, b.run(append([]string{"request", "-n", "prod"}, tt.args...)...), b.err.String())
			got := asked(t, b)
			assert.Equal(t, tt.in, got.Namespace)
			assert.Equal(t, "rcr-", got.GenerateName)
			// The cluster in memory gives back local times.
			if r := got.Spec.TimeRange; r != nil && r.After != nil {
				assert.True(t, tt.want.TimeRange.After.Equal(r.After))
				r.After = tt.want.TimeRange.After
			}
			assert.Equal(t, tt.want, got.Spec)
			assert.Contains(t, b.out.String(), "asked: "+got.Name)
			assert.Contains(t, b.out.String(), "kubectl countersign wait "+got.Name+" -n "+tt.in)
		})
	}
}

func TestRequestMeetsTheLiveOne(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-live").Pending().Obj())
	b.funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return conflict("rcr-live")
	}
	require.Equal(t, ExitDone, b.run("request", "connector/prod-harbor", "-n", "prod"), b.err.String())
	assert.Contains(t, b.out.String(), "already asked: rcr-live\n")

	require.Equal(t, ExitDone, b.run("request", "connector/prod-harbor", "-n", "prod", "-o", "name"))
	assert.Equal(t, "resourcecheckrequest.approval.alaudadevops.io/rcr-live\n", b.out.String())
}

func TestRequestMeetsOneThatCannotBeRead(t *testing.T) {
	b := makeBench(t)
	b.funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return conflict("rcr-live")
	}
	b.funcs.Get = refuseGet(apierrors.NewForbidden(requestResource, "rcr-live", nil))
	assert.Equal(t, ExitDone, b.run("request", "connector/prod-harbor", "-n", "prod"), b.err.String())
	assert.Contains(t, b.out.String(), "already asked: rcr-live\n")
	assert.Equal(t, ExitDenied, b.run("request", "connector/prod-harbor", "-n", "prod", "--again"))
}

func TestRequestAsksAnewWhenTheLiveOneHasEnded(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-old").Ended(approvalv1alpha1.ReasonExpired, "").Obj())
	creates := 0
	b.funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if creates++; creates == 1 {
			return conflict("rcr-old")
		}
		o.SetName("rcr-new")
		return c.Create(ctx, o, opts...)
	}
	require.Equal(t, ExitDone, b.run("request", "connector/prod-harbor", "-n", "prod"), b.err.String())
	assert.Contains(t, b.out.String(), "asked: rcr-new\n")
}

func TestRequestGivesUpOnEndlessConflicts(t *testing.T) {
	b := makeBench(t)
	b.funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return conflict("rcr-gone")
	}
	assert.Equal(t, ExitError, b.run("request", "connector/prod-harbor", "-n", "prod"))
	assert.Contains(t, b.err.String(), "try again")
}

func TestRequestAgainEndsTheLiveOne(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Pending().Obj())
	creates := 0
	b.funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if creates++; creates == 1 {
			return conflict("rcr-1")
		}
		o.SetName("rcr-" + strconv.Itoa(creates))
		return c.Create(ctx, o, opts...)
	}
	b.funcs.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if err := c.Patch(ctx, o, patch, opts...); err != nil {
			return err
		}
		req := o.DeepCopyObject().(*approvalv1alpha1.ResourceCheckRequest)
		req.Status.Ended = &approvalv1alpha1.Ended{Reason: "Revoked", At: metav1.NewTime(now)}
		return c.Status().Update(ctx, req)
	}
	require.Equal(t, ExitDone, b.run("request", "connector/prod-harbor", "-n", "prod", "--again", "--reason", "promote 1.4.3"), b.err.String())
	assert.Contains(t, b.out.String(), "asked: rcr-2\n")
	old := &approvalv1alpha1.ResourceCheckRequest{}
	require.NoError(t, b.client.Get(t.Context(), keyOf("team-a", "rcr-1"), old))
	assert.Equal(t, "asked again: promote 1.4.3", old.Spec.Revoked.Reason)
}

func TestRequestWaits(t *testing.T) {
	b := makeBench(t)
	b.funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		granted := makeRequest("rcr-1").Granted().Obj()
		o.SetName("rcr-1")
		o.(*approvalv1alpha1.ResourceCheckRequest).Status = granted.Status
		return c.Create(ctx, granted, opts...)
	}
	assert.Equal(t, ExitDone, b.run("request", "connector/prod-harbor", "-n", "prod", "--wait"), b.err.String())
	assert.Contains(t, b.out.String(), "team-a/rcr-1: granted until 2026-03-02T10:00:00Z (in 60m)")
}
