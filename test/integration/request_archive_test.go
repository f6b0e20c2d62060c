package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/archive"
)

// laterClock is the real clock some time ahead.
type laterClock struct {
	clock.RealClock
	by time.Duration
}

func (c laterClock) Now() time.Time { return c.RealClock.Now().Add(c.by) }

// ended is a request that was approved and then revoked, with one answer.
func (p *place) ended() (*approvalv1alpha1.ResourceCheckRequest, *approvalv1alpha1.ApprovalRequest, *approvalv1alpha1.ApprovalResponse) {
	p.t.Helper()
	p.rule("push")
	run := p.pipelineRun("build-1")
	r := when(p.t, p.request("ask", forRun(run)), approvalv1alpha1.ReasonChecksPending, refs(1))
	check := p.checkOf(r, "push")
	answer := answerTo(check, "yes")
	answer.OwnerReferences = []metav1.OwnerReference{{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "ApprovalRequest", Name: check.Name, UID: check.UID}}
	require.NoError(p.t, p.admin.Create(p.t.Context(), answer))
	p.answer(check, duckv1alpha1.CheckApproved)
	r = ready(p.t, r, approvalv1alpha1.ReasonAllChecksApproved)
	revoked := reread(p.t, r)
	revoked.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: "done", By: "dev"}
	require.NoError(p.t, p.admin.Update(p.t.Context(), revoked))
	return ready(p.t, r, approvalv1alpha1.ReasonRevoked), check, answer
}

// retired waits until the object is deleted.
func retired(t testing.TB, object client.Object) {
	t.Helper()
	admin := as(t, cluster.Admin())
	eventually(t, func(ctx context.Context) error {
		err := admin.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%T %s is still there: %w", object, object.GetName(), err)
	})
}

func TestEvidence_IsWrittenBeforeAnythingIsDeleted(t *testing.T) {
	controllers, p := startRequests(t), newPlace(t)
	r, check, answer := p.ended()
	controllers.halt()

	controllers.clock = laterClock{by: 721 * time.Hour}
	controllers.sink.fail(errors.New("no space left on device"))
	controllers.start()
	eventually(t, func(context.Context) error {
		if controllers.gauge("countersign_archive_failing") != 1 {
			return errors.New("no metric tells that the archive fails")
		}
		return nil
	})
	assert.Equal(t, r.UID, reread(t, r).UID, "nothing is deleted")
	assert.Equal(t, check.UID, reread(t, check).UID)
	assert.Empty(t, controllers.sink.about(t, r.UID))

	controllers.halt()
	controllers.sink.fail(nil)
	controllers.start()
	retired(t, r)
	retired(t, check)
	retired(t, answer)
	assert.Zero(t, controllers.gauge("countersign_archive_failing"))
	lines := controllers.sink.about(t, r.UID)
	require.NotEmpty(t, lines)
	line := lines[0]
	assert.Equal(t, archive.OccasionRetention, line.Occasion)
	assert.Equal(t, "ask", line.Request.Name)
	assert.Equal(t, approvalv1alpha1.ReasonRevoked, line.Ended.Reason)
	require.Len(t, line.Request.Status.Rules, 1)
	assert.NotEmpty(t, line.Request.Status.Rules[0].LastAuthor)
	assert.NotEmpty(t, line.Request.Status.Rules[0].Spec.CheckTemplate.Spec.Raw)
	require.Len(t, line.Checks, 1)
	assert.Equal(t, check.Name, line.Checks[0].GetName())
	require.Len(t, line.Answers, 1)
	assert.Equal(t, "yes", line.Answers[0].Name)
	require.Len(t, line.Run, 1)
	assert.Equal(t, "dev", line.Run[0].CreatedBy)
}

func TestEvidence_YoungRequestsStay(t *testing.T) {
	controllers, p := startRequests(t), newPlace(t)
	r, _, _ := p.ended()
	controllers.halt()
	controllers.clock = laterClock{by: 719 * time.Hour}
	controllers.start()
	other := newPlace(t)
	ready(t, other.request("later"), approvalv1alpha1.ReasonNoChecksNeeded)
	assert.Equal(t, r.ResourceVersion, reread(t, r).ResourceVersion)
	assert.Empty(t, controllers.sink.about(t, r.UID))
}

func TestEvidence_ADeletedNamespaceLeavesALine(t *testing.T) {
	for _, which := range []string{"owners", "asking"} {
		t.Run(which, func(t *testing.T) {
			controllers, p := startRequests(t), newPlace(t)
			r, _, _ := p.ended()
			namespace := map[string]string{"owners": p.owners, "asking": p.asking}[which]
			require.NoError(t, p.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
			eventually(t, func(context.Context) error {
				if lines := controllers.sink.about(t, r.UID); len(lines) == 0 || lines[0].Request == nil || len(lines[0].Request.Status.Rules) == 0 {
					return errors.New("no evidence was written")
				}
				return nil
			})
		})
	}
}
