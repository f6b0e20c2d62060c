package releaseplan

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// people counts how often somebody is asked for.
type people struct {
	asked []string
	err   error
	at    func() time.Time
}

func (p *people) Lookup(_ context.Context, name string) (directory.Answer, error) {
	p.asked = append(p.asked, name)
	return directory.Answer{At: p.at()}, p.err
}

type world struct {
	t      *testing.T
	clock  *testingclock.FakeClock
	client client.Client
	people *people
	events *events.FakeRecorder
	ctrl   *Controller
}

func newWorld(t *testing.T, owner string) *world {
	t.Helper()
	f := newFacts()
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	crd.SetName(planCRD)
	crd.SetLabels(map[string]string{partOf: owner})
	scheme := runtime.NewScheme()
	require.NoError(t, releasev1alpha1.AddToScheme(scheme))
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	w := &world{t: t, clock: testingclock.NewFakeClock(now), events: events.NewFakeRecorder(100)}
	w.people = &people{at: w.clock.Now}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(f.plan, &f.admissions[0], crd).
		WithStatusSubresource(f.plan, &f.admissions[0]).WithIndex(f.plan, indexTarget, planTarget).Build()
	w.ctrl = New(Dependencies{Clock: w.clock, Client: w.client, People: w.people, Recorder: w.events}, Options{Vocabulary: words, Recheck: time.Hour})
	return w
}

func (w *world) plan() *releasev1alpha1.ReleasePlan {
	w.t.Helper()
	plan := &releasev1alpha1.ReleasePlan{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "tenant", Name: "prod"}, plan))
	return plan
}

func (w *world) reconcile() (status releasev1alpha1.ReleasePlanStatus, again time.Duration) {
	w.t.Helper()
	result, err := w.ctrl.Reconcile(w.t.Context(), w.plan())
	require.NoError(w.t, err)
	return w.plan().Status, result.RequeueAfter
}

func (w *world) told() []string {
	var out []string
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func TestLifeOfAStandingAuthor(t *testing.T) {
	w := newWorld(t, product)
	status, again := w.reconcile()
	assert.Contains(t, shows(&status, releasev1alpha1.ConditionStandingAttributionValid), "True Verified")
	assert.ElementsMatch(t, []string{
		"Normal Verified alice@example.com stands for the plan, and is known to the directory",
		"Normal Matched the ReleasePlanAdmission managed/shop lets Releases of the plan in",
	}, w.told())
	version := w.plan().ResourceVersion

	w.clock.Step(time.Minute)
	_, soon := w.reconcile()
	assert.Equal(t, again-time.Minute, soon)
	assert.Equal(t, version, w.plan().ResourceVersion)
	assert.Len(t, w.people.asked, 1, "the directory is not asked for every change")

	w.clock.Step(soon)
	w.people.err = &directory.UnavailableError{Why: "away", RetryAfter: time.Minute}
	status, again = w.reconcile()
	assert.Contains(t, shows(&status, releasev1alpha1.ConditionStandingAttributionValid), "Unknown DirectoryUnavailable")
	assert.Equal(t, time.Minute, again)

	w.people.err = directory.ErrUnknown
	status, _ = w.reconcile()
	assert.Contains(t, shows(&status, releasev1alpha1.ConditionStandingAttributionValid), "False AuthorUnknown")
	out := w.told()
	require.Len(t, out, 2)
	assert.Contains(t, out[0], "Normal DirectoryUnavailable")
	assert.Contains(t, out[1], "Warning AuthorUnknown alice@example.com has left")

	w.people.err = nil
	status, _ = w.reconcile()
	assert.Contains(t, shows(&status, releasev1alpha1.ConditionStandingAttributionValid), "True Verified", "she came back")
}

func TestALookupThatWasCutOffSaysNothing(t *testing.T) {
	w := newWorld(t, product)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.people.err = &directory.UnavailableError{Why: "cut off"}
	_, err := w.ctrl.Reconcile(ctx, w.plan())
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, w.plan().Status.Conditions)
}

func TestPlansOfAnotherProductAreOnlySpokenOf(t *testing.T) {
	w := newWorld(t, "konflux")
	status, again := w.reconcile()
	assert.Equal(t, releasev1alpha1.ReleasePlanStatus{}, status)
	assert.NotZero(t, again)
	assert.Len(t, w.told(), 1)
	w.reconcile()
	assert.Empty(t, w.told(), "it is said once")
	w.people.err = directory.ErrUnknown
	w.reconcile()
	assert.Len(t, w.told(), 1)

	plan := w.plan()
	plan.Labels = nil
	require.NoError(t, w.client.Update(t.Context(), plan))
	w.reconcile()
	assert.Empty(t, w.told())
}

func TestAdmissionsKnowTheirPlans(t *testing.T) {
	w := newWorld(t, product)
	get := func() *releasev1alpha1.ReleasePlanAdmission {
		a := &releasev1alpha1.ReleasePlanAdmission{}
		require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "managed", Name: "shop"}, a))
		return a
	}
	matched := func() string {
		_, err := w.ctrl.admissions().Reconcile(t.Context(), get())
		require.NoError(t, err)
		conditions := get().Status.Conditions
		return shows(&releasev1alpha1.ReleasePlanStatus{Conditions: conditions}, releasev1alpha1.ConditionMatched)
	}
	assert.Equal(t, "True Matched: the ReleasePlan tenant/prod releases through it", matched())
	version := get().ResourceVersion
	matched()
	assert.Equal(t, version, get().ResourceVersion)

	a := get()
	a.Spec.Applications = []string{"other"}
	require.NoError(t, w.client.Update(t.Context(), a))
	assert.Equal(t, "False NotMatched: no ReleasePlan of namespace tenant releases through it", matched())
	a = get()
	a.Spec.Origin = ""
	require.NoError(t, w.client.Update(t.Context(), a))
	assert.Contains(t, matched(), "it lets nobody in: set spec.origin")

	assert.Len(t, w.ctrl.plansFor(t.Context(), get()), 1)
	assert.Len(t, w.ctrl.admissions().admissionsFor(t.Context(), w.plan()), 1)
	crd := &metav1.PartialObjectMetadata{}
	assert.Empty(t, w.ctrl.plansOfCRD(t.Context(), crd))
	crd.SetName(planCRD)
	assert.Len(t, w.ctrl.plansOfCRD(t.Context(), crd), 1)
}
