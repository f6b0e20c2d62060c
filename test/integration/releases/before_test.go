package releases

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// What happens to a plan between a Release's creation and its first reconciliation. Every replica of the controller serves
// the webhooks and only the leader reconciles, so while somebody else leads there is admission and nothing more.

// admitOnly lets the controller be no leader until the returned function is called. Its lease is held by nobody's process.
func admitOnly(t *testing.T) (lead func()) {
	t.Helper()
	admin := as(t, cluster.Admin())
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "countersign-controller"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("another replica"), LeaseDurationSeconds: ptr.To[int32](24 * 60 * 60), AcquireTime: &now, RenewTime: &now,
		},
	}
	require.NoError(t, running.halt(syscall.SIGKILL))
	require.NoError(t, admin.Create(t.Context(), lease))
	t.Cleanup(func() {
		_ = admin.Delete(context.Background(), lease)
		if running.cmd != nil {
			require.NoError(t, running.halt(syscall.SIGTERM))
		}
		require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), lease)))
		running.again(t)
	})
	running.again(t, "--leader-elect")
	return func() {
		t.Helper()
		require.NoError(t, admin.Delete(t.Context(), lease))
	}
}

// A rollout waits for new replicas to be ready while an old one leads, and admission must go on when the leader is gone.
func TestAReplicaThatDoesNotLeadServesTheWebhooks(t *testing.T) {
	lead := admitOnly(t)
	w := newWorld(t)
	plan := w.plan(w.person(w.alice), standing)
	release := w.release(w.person(w.alice))
	assert.Equal(t, w.alice, plan.Annotations[approvalv1alpha1.AnnotationAuthor])
	assert.Equal(t, w.alice, release.Annotations[approvalv1alpha1.AnnotationAuthor])
	require.NoError(t, w.admin.Get(t.Context(), keyOf(release), release))
	require.Empty(t, release.Status, "nobody has looked at it yet")
	lead()
	w.runOf(release)
}

// ways to make a Release.
var ways = map[string]func(*world) *releasev1alpha1.Release{
	"for its author": func(w *world) *releasev1alpha1.Release { return w.release(w.person(w.alice)) },
	"for who stands": func(w *world) *releasev1alpha1.Release {
		return w.release(w.account(integrationNamespace, integrationAccount), automated)
	},
}

// turn is what somebody does to a plan, and what the Release is then told.
type turn struct {
	do   func(*world, *releasev1alpha1.ReleasePlan)
	says string
}

// turned is a Release whose plan was turned.
type turned struct {
	*world
	name, says string
	release    *releasev1alpha1.Release
}

// beforeTheFirstLook makes Releases in both ways, has their plans turned, and only then lets the controller look at any.
// All of them must fail, and ask and run nothing. One whose plan stays as it is goes on.
func beforeTheFirstLook(t *testing.T, turns map[string]turn) {
	lead := admitOnly(t)
	var all []turned
	for what, turn := range turns {
		for way, make := range ways {
			w := newWorld(t)
			plan := w.plan(w.person(w.alice), standing)
			all = append(all, turned{w, what + ", " + way, turn.says, make(w)})
			turn.do(w, plan)
		}
	}
	untouched := newWorld(t)
	untouched.plan(untouched.person(untouched.alice), standing)
	control := ways["for who stands"](untouched)
	for _, x := range all {
		require.NoError(t, x.admin.Get(t.Context(), keyOf(x.release), x.release))
		require.Empty(t, x.release.Status, "nobody has looked at it yet")
	}
	lead()
	for _, x := range all {
		t.Run(x.name, func(t *testing.T) { x.on(t).fails() })
	}
	untouched.runOf(control)
}

// on tells failures to another test.
func (x turned) on(t *testing.T) turned {
	w := *x.world
	w.t = t
	x.world = &w
	return x
}

func (x turned) fails() {
	x.t.Helper()
	x.until(x.release, func(r *releasev1alpha1.Release) bool { return told(r, released) != "" && told(r, validated) != "" })
	assert.Contains(x.t, told(x.release, validated), "False ValidationError: the ReleasePlan prod ")
	assert.Contains(x.t, told(x.release, validated), x.says)
	assert.Contains(x.t, told(x.release, validated), "create the Release anew")
	assert.Contains(x.t, told(x.release, released), "False Failed")
	assert.False(x.t, x.release.Status.Attribution.Verified)
	assert.Nil(x.t, x.release.Status.ManagedProcessing)
	assert.Empty(x.t, x.requests())
	assert.Empty(x.t, x.runs())
}

// edit changes the plan's spec.
func (w *world) edit(by client.Client, plan *releasev1alpha1.ReleasePlan) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"data":{"image":"evil"}}}`))
	require.NoError(w.t, by.Patch(w.t.Context(), plan, patch))
}

func TestS4_EditingThePlanBeforeTheReleaseIsFirstLookedAt(t *testing.T) {
	beforeTheFirstLook(t, map[string]turn{
		"by a person, who stands for it now": {func(w *world, plan *releasev1alpha1.ReleasePlan) {
			mallory := "mallory@" + w.tenant + ".example.com"
			w.edit(w.person(mallory), plan)
			assert.Equal(w.t, mallory, plan.Annotations[approvalv1alpha1.AnnotationAuthor])
		}, "was changed after"},
		"by a program": {func(w *world, plan *releasev1alpha1.ReleasePlan) {
			w.edit(w.account(w.tenant, "gitops"), plan)
		}, "was changed after"},
		"by who stands for it": {func(w *world, plan *releasev1alpha1.ReleasePlan) {
			w.edit(w.person(w.alice), plan)
		}, "was changed after"},
		"to another admission": {func(w *world, plan *releasev1alpha1.ReleasePlan) {
			w.elsewhere()
			w.relabel(w.account(w.tenant, "gitops"), plan, "elsewhere")
		}, "names another ReleasePlanAdmission than when"},
	})
}

func TestS4_APlanDeletedAndMadeAgainBeforeTheReleaseIsFirstLookedAt(t *testing.T) {
	deletes := func(w *world, plan *releasev1alpha1.ReleasePlan) {
		require.NoError(w.t, w.account(w.tenant, "gitops").Delete(w.t.Context(), plan.DeepCopy()))
	}
	beforeTheFirstLook(t, map[string]turn{
		"by a program that copies its records": {func(w *world, plan *releasev1alpha1.ReleasePlan) {
			deletes(w, plan)
			w.plan(w.account(w.tenant, "gitops"), standing, func(p *releasev1alpha1.ReleasePlan) {
				p.Annotations = plan.Annotations
			})
		}, "was deleted and made anew after"},
		"by who stood for it": {func(w *world, plan *releasev1alpha1.ReleasePlan) {
			deletes(w, plan)
			w.plan(w.person(w.alice), standing)
		}, "was deleted and made anew after"},
		"by nobody": {deletes, "is gone"},
	})
}
