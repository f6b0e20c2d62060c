package releaseplan

import (
	"context"
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// people counts how often somebody is asked for.
type people struct {
	asked []string
	err   error
	at    func() time.Time
	// meanwhile happens while the directory is asked.
	meanwhile func()
	bounded   bool
}

func (p *people) Lookup(ctx context.Context, name string) (directory.Answer, error) {
	p.asked = append(p.asked, name)
	_, p.bounded = ctx.Deadline()
	if p.meanwhile != nil {
		p.meanwhile()
	}
	return directory.Answer{At: p.at()}, p.err
}

type world struct {
	t      *testing.T
	clock  *testingclock.FakeClock
	client client.WithWatch
	people *people
	events *events.FakeRecorder
	ctrl   *Controller
}

func newWorld(t *testing.T, owner string) *world {
	t.Helper()
	f := newFacts()
	crd := definition.New()
	crd.SetName(releasev1alpha1.DefinitionReleasePlans)
	crd.SetLabels(map[string]string{releasev1alpha1.LabelPartOf: owner})
	scheme := runtime.NewScheme()
	require.NoError(t, releasev1alpha1.AddToScheme(scheme))
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	w := &world{t: t, clock: testingclock.NewFakeClock(now), events: events.NewFakeRecorder(100)}
	w.people = &people{at: w.clock.Now}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(f.plan, &f.admissions[0], crd).
		WithStatusSubresource(f.plan, &f.admissions[0]).WithIndex(f.plan, indexTarget, planTarget).WithIndex(&f.admissions[0], indexAdmission, pairing.Keys).Build()
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
	result, err := w.ctrl.verifier().Reconcile(w.t.Context(), w.plan())
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
	w := newWorld(t, releasev1alpha1.PartOf)
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
	w := newWorld(t, releasev1alpha1.PartOf)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.people.err = &directory.UnavailableError{Why: "cut off"}
	_, err := w.ctrl.verifier().Reconcile(ctx, w.plan())
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, w.plan().Status.Conditions)
}

// match is a look without the directory.
func (w *world) match() (status releasev1alpha1.ReleasePlanStatus) {
	w.t.Helper()
	result, err := w.ctrl.Reconcile(w.t.Context(), w.plan())
	require.NoError(w.t, err)
	assert.Zero(w.t, result.RequeueAfter)
	return w.plan().Status
}

func TestWhatIsKnownDoesNotWaitForTheDirectory(t *testing.T) {
	w := newWorld(t, releasev1alpha1.PartOf)
	status := w.match()
	assert.Contains(t, shows(&status, releasev1alpha1.ConditionMatched), "True Matched")
	assert.Nil(t, status.StandingAttribution)
	assert.Empty(t, w.people.asked)

	verified, _ := w.reconcile()
	assert.True(t, w.people.bounded)
	assert.Equal(t, verified, w.match(), "there is nothing to add to what was found")
	w.clock.Step(3 * time.Hour)
	assert.Equal(t, verified, w.match(), "it stays until the directory was asked again")

	plan := w.plan()
	plan.Annotations = nil
	require.NoError(t, w.client.Update(t.Context(), plan))
	status = w.match()
	assert.Contains(t, shows(&status, releasev1alpha1.ConditionStandingAttributionValid), "False NoStandingAuthor")
	assert.Len(t, w.people.asked, 1)
}

func TestAPlanThatIsWrittenWhileTheDirectoryIsAsked(t *testing.T) {
	w := newWorld(t, releasev1alpha1.PartOf)
	w.people.meanwhile = func() { w.match() }
	before, _ := w.reconcile()
	assert.Contains(t, shows(&before, releasev1alpha1.ConditionStandingAttributionValid), "True Verified")

	w.clock.Step(3 * time.Hour)
	w.people.err = directory.ErrUnknown
	w.people.meanwhile = func() {
		f := newFacts()
		f.plan = w.plan()
		stands(bob, 3, nil)(f)
		require.NoError(t, w.client.Update(t.Context(), f.plan))
	}
	same, again := w.reconcile()
	assert.Equal(t, before, same, "the answer is about somebody else")
	assert.Equal(t, status.RetryStale, again)

	w.people.meanwhile = func() { require.NoError(t, w.client.Delete(t.Context(), w.plan())) }
	_, err := w.ctrl.verifier().Reconcile(t.Context(), w.plan())
	require.NoError(t, err)
}

func TestALookIsBounded(t *testing.T) {
	w := newWorld(t, releasev1alpha1.PartOf)
	admission := &releasev1alpha1.ReleasePlanAdmission{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "managed", Name: "shop"}, admission))
	bounded := 0
	w.ctrl.client = interceptor.NewClient(w.client, interceptor.Funcs{Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
		if _, ok := ctx.Deadline(); ok {
			bounded++
		}
		return errors.New("away")
	}})
	for _, look := range []func() error{
		func() error { _, err := w.ctrl.Reconcile(t.Context(), w.plan()); return err },
		func() error { _, err := w.ctrl.verifier().Reconcile(t.Context(), w.plan()); return err },
		func() error { _, err := w.ctrl.admissions().Reconcile(t.Context(), admission); return err },
	} {
		require.ErrorContains(t, look(), "away")
	}
	assert.Equal(t, 3, bounded)
}

func TestPlansOfAnotherProductAreOnlySpokenOf(t *testing.T) {
	w := newWorld(t, "konflux")
	status, again := w.reconcile()
	assert.Equal(t, releasev1alpha1.ReleasePlanStatus{}, status)
	assert.Equal(t, releasev1alpha1.ReleasePlanStatus{}, w.match())
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
	w := newWorld(t, releasev1alpha1.PartOf)
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
	assert.Empty(t, w.ctrl.admissions().admissionsFor(t.Context(), w.plan()), "it lets in nothing of the plan")
	a = get()
	a.Spec.Origin, a.Spec.Applications = "tenant", []string{"shop"}
	require.NoError(t, w.client.Update(t.Context(), a))
	assert.Len(t, w.ctrl.admissions().admissionsFor(t.Context(), w.plan()), 1)
	a = get()
	a.Spec.Origin = "elsewhere"
	require.NoError(t, w.client.Update(t.Context(), a))
	named := w.plan()
	named.Labels[words.AdmissionLabel] = "shop"
	assert.Empty(t, w.ctrl.admissions().admissionsFor(t.Context(), named), "a plan of another namespace wakes none by its label")
	crd := &metav1.PartialObjectMetadata{}
	assert.Empty(t, w.ctrl.plansOfCRD(t.Context(), crd))
	crd.SetName(releasev1alpha1.DefinitionReleasePlans)
	assert.Len(t, w.ctrl.plansOfCRD(t.Context(), crd), 1)
}
