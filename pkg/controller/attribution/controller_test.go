package attribution

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

func TestTheAuthorIsToldWithWhatTheDirectorySays(t *testing.T) {
	got := newWorld(t, makeCheck(), &runRef).node(runRef, alice).reconcile().Status
	assert.Equal(t, &approvalv1alpha1.Author{Username: alice, UID: "u-1", DisplayName: "Alice", Email: alice}, got.Author)
	expires := start.Add(time.Hour)
	got = newWorld(t, makeCheck(onPlan), &runRef, plan(stoodForBy("bob", func(s *attribution.Standing) { s.ExpiresAt = &expires }))).node(runRef, robot).reconcile().Status
	assert.Equal(t, "to-prod", got.Standing.Name)
	assert.Equal(t, "plan-uid", string(got.Standing.UID))
	assert.True(t, got.Standing.AcceptedAt.Time.Equal(asked))
	assert.True(t, got.Standing.ExpiresAt.Time.Equal(expires))
}

func TestWaits(t *testing.T) {
	tests := map[string]struct {
		edit       func(*world)
		wantReason string
		wantAgain  time.Duration
		want       string
	}{
		"for a directory that does not answer": {
			edit: func(w *world) {
				w.people.fails = &directory.UnavailableError{Why: "it is away", RetryAfter: 7 * time.Second}
			},
			wantReason: "DirectoryUnavailable", wantAgain: 7 * time.Second,
			want: "alice@example.com made PipelineRun team-a/build-1, and it waits for the directory to say whether that is a person (it is away).",
		},
		"not too long for a directory": {
			edit:       func(w *world) { w.people.fails = &directory.UnavailableError{Why: "it is away", RetryAfter: time.Hour} },
			wantReason: "DirectoryUnavailable", wantAgain: longestRetry,
		},
		"not too short for a directory": {
			edit:       func(w *world) { w.people.fails = &directory.UnavailableError{Why: "it is away"} },
			wantReason: "DirectoryUnavailable", wantAgain: shortestRetry,
		},
		"for a directory that fails otherwise": {
			edit:       func(w *world) { w.people.fails = errors.New("boom") },
			wantReason: "DirectoryUnavailable", wantAgain: retryUnseen,
		},
		"for the policies": {
			edit:       func(w *world) { w.why = "a policy is missing" },
			wantReason: "Unguarded", wantAgain: retryUnseen, want: "nothing that was recorded can be relied on now: a policy is missing.",
		},
		"for the epoch": {
			edit:       func(w *world) { w.since = time.Time{} },
			wantReason: "NotReady", wantAgain: retryUnseen,
		},
		"for a run that cannot be seen": {
			edit:       func(w *world) { w.unseen = origin.ErrUnobserved },
			wantReason: "OriginPending", wantAgain: retryUnseen,
		},
		"for the Release of a run that was made just now": {
			edit:       func(w *world) { w.nodes[0].CreatedBy, w.nodes[0].Created = own, start },
			wantReason: "OriginPending", wantAgain: retryUnseen, want: "the Release that PipelineRun team-a/build-1 was made for cannot be seen yet.",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeCheck(), &runRef, releases(ours)).node(runRef, alice)
			test.edit(w)
			got := w.reconcile()
			assert.Equal(t, duckv1alpha1.CheckPending, got.Status.State, got.Status.Message)
			assert.Equal(t, test.wantReason, got.Status.Reason)
			assert.Equal(t, test.wantAgain, w.requeued)
			assert.Contains(t, got.Status.Message, test.want)
			assert.NotEmpty(t, got.Status.WaitingFor)
			assert.False(t, got.Status.Verified)
			assert.Equal(t, metav1.ConditionUnknown, apimeta.FindStatusCondition(got.Status.Conditions, "Ready").Status)
			assert.Contains(t, w.event(), test.wantReason)

			again := w.reconcile()
			assert.Equal(t, got.ResourceVersion, again.ResourceVersion, "waiting goes on without a word")
			assert.Empty(t, w.event())
		})
	}
}

// ownRun adds a run of our own that a Release names.
func ownRun(w *world) *world {
	return w.node(runRef, own).node(releaseRef, "leaver", releasedBy(origin.Release{
		Author: "leaver", Verified: alice, VerifiedAt: asked, PipelineRun: "team-a/build-1",
	}))
}

func TestACacheThatHasNotSeenWhoseReleasesAreLetsNothingPass(t *testing.T) {
	stale := func(w *world) {
		live := interceptor.NewClient(w.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if key.Name == releasev1alpha1.DefinitionReleases {
				object.SetLabels(nil)
			}
			return err
		}})
		w.ctrl.Live = live
	}
	w := ownRun(newWorld(t, makeCheck(), &runRef, releases(ours)))
	stale(w)
	assert.Equal(t, "OnlyRobot", w.reconcile().Status.Reason, "anybody could have written that status")

	w = newWorld(t, makeCheck(ofPlan), &releaseRef, releases(ours), plan()).node(releaseRef, "leaver", releasedBy(origin.Release{
		Author: "leaver", Standing: fixed(), Verified: "leaver", VerifiedAt: asked,
	}))
	stale(w)
	assert.Equal(t, "AuthorUnknown", w.reconcile().Status.Reason)
}

func TestWaitingForAReleaseAsksTheAPIServerForNothing(t *testing.T) {
	w := newWorld(t, makeCheck(), &runRef, releases(ours)).node(runRef, own, func(n *origin.Node) { n.Created = start })
	w.ctrl.Live = interceptor.NewClient(w.client, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("asked")
	}})
	assert.Equal(t, "OriginPending", w.reconcile().Status.Reason)
}

func TestRecoversByItself(t *testing.T) {
	w := newWorld(t, makeCheck(), &runRef).node(runRef, alice)
	w.people.fails = &directory.UnavailableError{Why: "it is away", RetryAfter: time.Second}
	assert.Equal(t, duckv1alpha1.CheckPending, w.reconcile().Status.State)
	w.people.fails = nil
	got := w.reconcile().Status
	assert.Equal(t, duckv1alpha1.CheckApproved, got.State)
	assert.Empty(t, got.WaitingFor)
}

func TestGivesUpAtTheDeadline(t *testing.T) {
	w := newWorld(t, makeCheck(), &runRef).node(runRef, alice)
	w.people.fails = &directory.UnavailableError{Why: "it is away", RetryAfter: time.Minute}
	w.clock.Step(time.Hour - 10*time.Second)
	assert.Equal(t, duckv1alpha1.CheckPending, w.reconcile().Status.State)
	assert.Equal(t, 10*time.Second, w.requeued)
	w.clock.Step(10 * time.Second)
	got := w.reconcile().Status
	assert.Equal(t, duckv1alpha1.CheckCancelled, got.State)
	assert.Equal(t, duckv1alpha1.CheckReasonTimedOut, got.Reason)
	assert.Contains(t, got.Message, "before 2026-03-02T10:00:00Z")

	earlier := metav1.NewTime(start.Add(time.Minute))
	assert.Equal(t, earlier.Time, deadline(makeCheck(func(c *approvalv1alpha1.AttributionCheck) { c.Spec.Request.Deadline = &earlier })))
}

func TestAnswersAreFinal(t *testing.T) {
	for _, state := range []duckv1alpha1.CheckState{duckv1alpha1.CheckApproved, duckv1alpha1.CheckRejected, duckv1alpha1.CheckCancelled} {
		w := newWorld(t, makeCheck(func(c *approvalv1alpha1.AttributionCheck) { c.Status.State = state }), &runRef).node(runRef, alice)
		assert.Equal(t, state, w.reconcile().Status.State)
		assert.Empty(t, w.people.lookups)
	}
}

func TestProblemsAreTriedAgain(t *testing.T) {
	w := newWorld(t, makeCheck(func(c *approvalv1alpha1.AttributionCheck) { c.Spec.Request = nil }), &runRef)
	got := w.reconcile().Status
	assert.Equal(t, duckv1alpha1.CheckError, got.State)
	assert.Equal(t, "The check carries no question, because it was not made from a rule; it is tried again.", got.Message)
	assert.Equal(t, retryProblem, w.requeued)

	w = newWorld(t, makeCheck(func(c *approvalv1alpha1.AttributionCheck) { c.Spec.Request.Ref.UID = "another" }), &runRef)
	assert.Equal(t, duckv1alpha1.CheckError, w.reconcile().Status.State)
}

func TestLongTextsFit(t *testing.T) {
	long := strings.Repeat("王", 5000)
	got := newWorld(t, makeCheck(), &runRef).node(runRef, long).reconcile().Status
	assert.Equal(t, duckv1alpha1.CheckRejected, got.State)
	assert.Nil(t, got.Author, "a shortened name might be another's")
	assert.Len(t, []rune(got.Message), maxMessage)
}

func TestRunChangedWakesWhatWaits(t *testing.T) {
	about, err := json.Marshal(approvalv1alpha1.CheckContext{Object: connectorRef, Resource: &runRef})
	require.NoError(t, err)
	check := makeCheck(func(c *approvalv1alpha1.AttributionCheck) {
		c.Annotations = map[string]string{approvalv1alpha1.AnnotationContext: string(about)}
	})
	w := newWorld(t, check, &runRef).node(runRef, alice)
	w.ctrl.RunChanged(origin.Change{New: w.nodes[0]})
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	require.NoError(t, w.ctrl.queue.Hold(context.Background(), q))
	w.ctrl.RunChanged(origin.Change{Old: w.nodes[0]})
	assert.Zero(t, q.Len())
	w.ctrl.RunChanged(origin.Change{New: w.nodes[0]})
	assert.Equal(t, 1, q.Len())

	assert.Empty(t, ContextKeys(makeCheck()))
	check.Status.State = duckv1alpha1.CheckApproved
	assert.Empty(t, ContextKeys(check), "what is answered is not found")
}
