package release

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// guard is in force unless it says why not.
type guard struct {
	why      string
	handlers []func()
}

func (g *guard) Guarded() (bool, string) { return g.why == "", g.why }

func (g *guard) OnChange(handler func()) { g.handlers = append(g.handlers, handler) }

// world is an API server that plays admission: it records the controller as the creator, and requests as asked for.
type world struct {
	t      *testing.T
	clock  *testingclock.FakeClock
	guard  *guard
	client client.WithWatch
	events *events.FakeRecorder
	ctrl   *Controller
	// fails are errors that creating objects of a kind ends with.
	fails map[string]error
	again time.Duration
}

func newWorld(t *testing.T, changes ...change) *world {
	t.Helper()
	f := newFacts(changes...)
	crd := definition.New()
	crd.SetName(releasev1alpha1.DefinitionReleases)
	crd.SetLabels(map[string]string{releasev1alpha1.LabelPartOf: releasev1alpha1.PartOf})
	if f.foreign {
		crd.SetLabels(nil)
	}
	pipeline := &unstructured.Unstructured{}
	pipeline.SetGroupVersionKind(pipelineKind)
	pipeline.SetNamespace("managed")
	pipeline.SetName("push")
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{releasev1alpha1.AddToScheme, approvalv1alpha1.AddToScheme, metav1.AddMetaToScheme} {
		require.NoError(t, add(scheme))
	}
	mapper := apimeta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, apimeta.RESTScopeNamespace)
	}
	for _, kind := range []schema.GroupVersionKind{runKind, pipelineKind} {
		mapper.Add(kind, apimeta.RESTScopeNamespace)
	}
	mapper.Add(definition.Kind, apimeta.RESTScopeRoot)
	w := &world{t: t, clock: testingclock.NewFakeClock(now), guard: &guard{}, events: events.NewFakeRecorder(100), fails: map[string]error{}}
	objects := []client.Object{f.release, f.plan, &f.admissions[0], crd, pipeline}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).
		WithStatusSubresource(&releasev1alpha1.Release{}, &approvalv1alpha1.ResourceCheckRequest{}, &approvalv1alpha1.AttributionCheck{}).
		WithIndex(&approvalv1alpha1.ResourceCheckRequest{}, indexAsked, askedFor).
		WithIndex(&approvalv1alpha1.ResourceCheckRule{}, indexRule, guarding).
		WithIndex(&releasev1alpha1.ReleasePlanAdmission{}, indexAdmission, pairing.Keys).
		WithInterceptorFuncs(interceptor.Funcs{Create: w.create})
	for name, extract := range map[string]func(*releasev1alpha1.Release) string{
		indexPlan: func(r *releasev1alpha1.Release) string { return r.Namespace + "/" + r.Spec.ReleasePlan }, indexRun: runOf,
		indexTarget:  func(r *releasev1alpha1.Release) string { return r.Status.Target },
		indexGoingOn: func(*releasev1alpha1.Release) string { return "true" },
	} {
		builder = builder.WithIndex(&releasev1alpha1.Release{}, name, ofRelease(extract))
	}
	w.client = builder.Build()
	w.ctrl = New(Dependencies{
		Clock: w.clock, Client: w.client, Live: w.client, Mapper: mapper, Guard: w.guard, Since: func() time.Time { return epoch }, Recorder: w.events,
	}, Options{Username: ownName, Vocabulary: attribution.Default()})
	return w
}

// create plays admission.
func (w *world) create(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
	gvk, _ := c.GroupVersionKindFor(object)
	if err := w.fails[gvk.Kind]; err != nil {
		return err
	}
	object.SetUID("new")
	switch o := object.(type) {
	case *approvalv1alpha1.ResourceCheckRequest:
		o.GenerateName, o.Name = "", "rcr-1"
		o.Spec.RequestedBy = &approvalv1alpha1.Identity{Username: ownName}
		o.Spec.Context.Subject = &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: alice}
	case *approvalv1alpha1.ResourceCheckRule:
		o.Generation = 1
	case *unstructured.Unstructured:
		o.SetCreationTimestamp(metav1.NewTime(now))
		o.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationCreatedBy: ownName})
	}
	return c.Create(ctx, object, options...)
}

func (w *world) release() *releasev1alpha1.Release {
	w.t.Helper()
	r := &releasev1alpha1.Release{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "tenant", Name: "shop-1"}, r))
	return r
}

// reconcile returns a condition of the Release in one line.
func (w *world) reconcile(kind string) string {
	w.t.Helper()
	result, err := w.ctrl.Reconcile(w.t.Context(), w.release())
	require.NoError(w.t, err)
	w.again = result.RequeueAfter
	return (&step{status: w.release().Status}).told(kind)
}

func (w *world) validated() string {
	w.t.Helper()
	return w.reconcile(releasev1alpha1.ConditionValidated)
}

// asked takes the Release to where its request is made.
func (w *world) asked() *world {
	w.t.Helper()
	w.validated()
	w.validated()
	require.Equal(w.t, "rcr-1", w.release().Status.Request)
	return w
}

// grant plays the request controller and the attribution check.
func (w *world) grant() *world {
	w.t.Helper()
	f := newFacts()
	check := f.check.DeepCopy()
	require.NoError(w.t, client.IgnoreAlreadyExists(w.client.Create(w.t.Context(), check)))
	check.UID, check.Status = "new", f.check.Status
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), check))
	request := &approvalv1alpha1.ResourceCheckRequest{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "tenant", Name: "rcr-1"}, request))
	request.Status = f.request.Status
	request.Status.Results[0].UID, request.Status.RequestRefs[0].UID = "new", "new"
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), request))
	return w
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

func (w *world) run() *unstructured.Unstructured {
	run := &unstructured.Unstructured{}
	run.SetGroupVersionKind(runKind)
	if w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "managed", Name: runName(w.release())}, run) != nil {
		return nil
	}
	return run
}

func TestFromAuthorToRun(t *testing.T) {
	w := newWorld(t)
	assert.Contains(t, w.validated(), "Unknown ChecksPending: the rule attribution-prod")
	rule := &approvalv1alpha1.ResourceCheckRule{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "attribution-prod"}, rule))
	assert.Contains(t, w.validated(), "Unknown ChecksPending: the checks of the ReleasePlan are about to be asked")
	assert.Equal(t, "rcr-1", w.release().Status.Request)
	assert.Contains(t, w.validated(), "Request tenant/rcr-1 has been received")
	version := w.release().ResourceVersion
	w.validated()
	assert.Equal(t, version, w.release().ResourceVersion, "nothing is written while nothing changes")

	w.grant()
	assert.Contains(t, w.validated(), "True Succeeded")
	require.NotNil(t, w.run())
	assert.Contains(t, w.reconcile(releasev1alpha1.ConditionReleased), "Unknown Progressing: the pipeline run managed/"+w.run().GetName()+" is going on")

	run := w.run()
	run.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Succeeded", "status": "True"}}}
	require.NoError(t, w.client.Update(t.Context(), run))
	assert.Contains(t, w.reconcile(releasev1alpha1.ConditionReleased), "True Succeeded")
	version = w.release().ResourceVersion
	w.validated()
	assert.Equal(t, version, w.release().ResourceVersion)
	assert.Equal(t, []string{
		"Normal ChecksPending the rule attribution-prod, by which the author is verified, is being put in its place",
		"Normal Succeeded " + alice + " answers for the Release, and every check has approved",
		"Normal Progressing the pipeline run managed/" + run.GetName() + " was started",
		"Normal Succeeded the pipeline run managed/" + run.GetName() + " succeeded",
	}, w.told())
}

func TestTheRequestThatWasMadeAlready(t *testing.T) {
	w := newWorld(t).asked()
	release := w.release()
	release.Status.Request = ""
	require.NoError(t, w.client.Status().Update(t.Context(), release))
	w.validated()
	assert.Equal(t, "rcr-1", w.release().Status.Request, "it is found by the Release that it is for")

	f := newFacts(func(f *facts) { f.release, f.request = w.release(), nil })
	s := &step{}
	require.NoError(t, w.ctrl.ask(t.Context(), f, s))
	assert.Equal(t, "rcr-1", s.status.Request, "a conflict names it")
	f.username = "somebody else"
	s = &step{}
	require.NoError(t, w.ctrl.ask(t.Context(), f, s))
	assert.Empty(t, s.status.Request)
	assert.Contains(t, s.told(releasev1alpha1.ConditionValidated), "was made by somebody else: it must be revoked")
	w.fails["ResourceCheckRequest"] = &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonAlreadyExists}}
	require.ErrorContains(t, w.ctrl.ask(t.Context(), f, &step{}), "collides")
	w.fails["ResourceCheckRequest"] = errors.New("away")
	require.ErrorContains(t, w.ctrl.ask(t.Context(), f, &step{}), "cannot be made: away")
}

func TestAdmissionRefusesToAsk(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "resourcecheckrequests"}, "", errors.New("nobody can be shown to have made it"))
	w := newWorld(t)
	w.fails["ResourceCheckRequest"] = refused
	w.clock.SetTime(made.Add(time.Second))
	w.validated()
	assert.Contains(t, w.validated(), "Unknown NotPermitted: the checks of the Release cannot be asked: ")
	assert.Equal(t, retryRefused, w.again)
	w.clock.SetTime(now)
	assert.Contains(t, w.validated(), "False ValidationError: the checks of the Release cannot be asked: ")
	assert.Contains(t, w.validated(), "nobody can be shown to have made it")
}

func TestTheRuleCannotBePutInItsPlace(t *testing.T) {
	w := newWorld(t)
	w.fails["ResourceCheckRule"] = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("you lack the verb use"))
	assert.Contains(t, w.validated(), "Unknown RuleNotReady: the rule tenant/attribution-prod, by which authors are verified, cannot be put in its place: ")
	assert.Equal(t, retryObstacle, w.again)
	w.fails["ResourceCheckRule"] = errors.New("away")
	_, err := w.ctrl.Reconcile(t.Context(), w.release())
	require.ErrorContains(t, err, "away")

	w = newWorld(t)
	rule := wantedRule(newFacts().plan)
	rule.Spec.ObjectRef.Name = "other"
	require.NoError(t, w.client.Create(t.Context(), rule))
	assert.Contains(t, w.validated(), "guards something else")
	assert.Equal(t, retryObstacle, w.again)
}

func TestTheRuleIsRestored(t *testing.T) {
	w := newWorld(t).asked()
	get := func() *approvalv1alpha1.ResourceCheckRule {
		rule := &approvalv1alpha1.ResourceCheckRule{}
		require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "attribution-prod"}, rule))
		return rule
	}
	rule := get()
	rule.Spec.CheckTemplate.Spec.Raw = []byte(`{"requireHuman":false}`)
	rule.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	require.NoError(t, w.client.Update(t.Context(), rule))
	assert.Contains(t, w.validated(), "is being put in its place")
	assert.True(t, asWanted(get(), newFacts().plan))
	assert.Len(t, get().OwnerReferences, 2)
	assert.Contains(t, w.validated(), "has been received")
}

func TestTheRunCannotBeStarted(t *testing.T) {
	w := newWorld(t).asked().grant()
	w.fails["PipelineRun"] = errors.New("away")
	for range 3 {
		_, err := w.ctrl.Reconcile(t.Context(), w.release())
		require.ErrorContains(t, err, "away")
		assert.Contains(t, (&step{status: w.release().Status}).told(releasev1alpha1.ConditionReleased), "cannot be made: away; it is tried again")
	}
	version := w.release().ResourceVersion
	_, err := w.ctrl.Reconcile(t.Context(), w.release())
	require.Error(t, err)
	assert.Equal(t, version, w.release().ResourceVersion, "trying again writes nothing, or it would try at once")

	w.fails["PipelineRun"] = apierrors.NewAlreadyExists(schema.GroupResource{}, "x")
	w.validated()
	assert.Equal(t, retryRefused, w.again)
	assert.False(t, finished(&w.release().Status))

	w.fails["PipelineRun"] = apierrors.NewBadRequest("taskRunSpecs[0] is wrong")
	w.validated()
	assert.Contains(t, w.reconcile(releasev1alpha1.ConditionReleased), "cannot be made: taskRunSpecs[0] is wrong")
	assert.Contains(t, w.reconcile(releasev1alpha1.ConditionManagedPipelineProcessed), "False Failed")
}

func TestUnguarded(t *testing.T) {
	w := newWorld(t)
	w.guard.why = "a policy is missing"
	assert.Contains(t, w.validated(), "Unknown Unguarded: a policy is missing")
	assert.Equal(t, retryUnguarded, w.again)
	assert.Empty(t, w.release().Status.Request)
}

func TestTektonIsNotInstalled(t *testing.T) {
	w := newWorld(t)
	w.ctrl.mapper = apimeta.NewDefaultRESTMapper(nil)
	assert.Contains(t, w.validated(), "False ValidationError: Tekton Pipelines is not installed")
}

// A cache that lags behind fails nobody, and starts nothing.
func TestDecisiveStepsRestOnTheAPIServer(t *testing.T) {
	w := newWorld(t)
	lagging := func(kind string) client.WithWatch {
		return interceptor.NewClient(w.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if gvk, err := c.GroupVersionKindFor(object); err == nil && gvk.Kind == kind {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return c.Get(ctx, key, object, options...)
		}})
	}
	w.ctrl.client = lagging("ReleasePlan")
	assert.Contains(t, w.validated(), "Unknown ChecksPending", "the plan is there, though the cache has not seen it")

	w.ctrl.client = w.client
	w.validated()
	w.grant()
	w.ctrl.live = lagging("ReleasePlanAdmission")
	old := w.release()
	newer := w.release()
	newer.Labels["touched"] = "yes"
	require.NoError(t, w.client.Update(t.Context(), newer))
	_, err := w.ctrl.Reconcile(t.Context(), old)
	require.NoError(t, err)
	assert.Nil(t, w.run(), "the Release was changed meanwhile; its watch brings it back")

	w.ctrl.live = lagging("Release")
	_, err = w.ctrl.Reconcile(t.Context(), w.release())
	require.NoError(t, err)
	assert.Nil(t, w.run(), "the Release is gone")
}

func TestARuleThatTheCacheHasNotSeenIsAsked(t *testing.T) {
	w := newWorld(t).asked().grant()
	f := newFacts(people("", ""))
	rule := f.rules[1].DeepCopy()
	require.NoError(t, w.client.Create(t.Context(), rule))
	rule.UID, rule.Generation = "owners", 1
	require.NoError(t, w.client.Update(t.Context(), rule))
	w.ctrl.client = interceptor.NewClient(w.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		if rules, ok := list.(*approvalv1alpha1.ResourceCheckRuleList); ok {
			rules.Items = slices.DeleteFunc(rules.Items, func(r approvalv1alpha1.ResourceCheckRule) bool { return r.Name == rule.Name })
		}
		return err
	}})
	assert.Contains(t, w.validated(), "Unknown ")
	assert.Nil(t, w.run())
}

func TestTheRuleOfAPlanThatWasMadeAnewChangesItsOwner(t *testing.T) {
	w := newWorld(t).asked().grant()
	rule := &approvalv1alpha1.ResourceCheckRule{}
	key := client.ObjectKey{Namespace: "tenant", Name: "attribution-prod"}
	require.NoError(t, w.client.Get(t.Context(), key, rule))
	mine, generation := rule.OwnerReferences[0], rule.Generation
	dead := mine
	dead.UID = "dead"
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}
	for name, have := range map[string][]metav1.OwnerReference{
		"the dead one's": {dead, other}, "both": {dead, mine, other}, "nobody's plan": {other},
	} {
		require.NoError(t, w.client.Get(t.Context(), key, rule))
		rule.OwnerReferences = have
		require.NoError(t, w.client.Update(t.Context(), rule))
		assert.Contains(t, w.validated(), "is being put in its place", name)
		require.NoError(t, w.client.Get(t.Context(), key, rule))
		assert.Equal(t, []metav1.OwnerReference{mine, other}, rule.OwnerReferences, name)
	}
	assert.Equal(t, generation, rule.Generation, "what was answered by the rule stays")
	assert.Contains(t, w.validated(), "True Succeeded")
}

func TestTheStandingAuthorIsCopied(t *testing.T) {
	w := newWorld(t, automatedBy(ci, nil))
	w.validated()
	release := w.release()
	assert.Equal(t, alice, release.Annotations[approvalv1alpha1.AnnotationAuthor])
	assert.Equal(t, attribution.LabelValue(alice), release.Labels[attribution.Default().AuthorLabel])
	assert.True(t, release.Status.Attribution.StandingAttribution)
	f := newFacts(automatedBy(ci, nil), func(f *facts) { f.release.ResourceVersion = "1" })
	require.ErrorContains(t, w.ctrl.copyAuthor(t.Context(), f, alice), "cannot be copied")
}

func TestOfAnotherProduct(t *testing.T) {
	w := newWorld(t, func(f *facts) { f.foreign = true })
	advise := func() {
		_, err := w.ctrl.Reconcile(t.Context(), w.release())
		require.NoError(t, err)
	}
	advise()
	advise()
	advise()
	w.grant()
	advise()
	assert.Equal(t, releasev1alpha1.ReleaseStatus{}, w.release().Status)
	assert.Nil(t, w.run())
	told := w.told()
	require.Len(t, told, 2)
	assert.Contains(t, told[1], "Normal Succeeded "+alice+" answers for the Release")
	advise()
	assert.Empty(t, w.told(), "it is said once")
	w.ctrl.forget(t.Context(), event.DeleteEvent{Object: w.release()}, nil)
	advise()
	assert.Len(t, w.told(), 1)

	w.ctrl.forget(t.Context(), event.DeleteEvent{Object: w.release()}, nil)
	w.ctrl.begun = now
	advise()
	assert.Empty(t, w.told(), "who led before has said so")
}

func TestWhatWasSaidBeforeARestart(t *testing.T) {
	request := func(change func(*approvalv1alpha1.ResourceCheckRequestStatus)) *facts {
		f := newFacts()
		f.request.Status = approvalv1alpha1.ResourceCheckRequestStatus{}
		change(&f.request.Status)
		return f
	}
	later := metav1.NewTime(now)
	for name, tc := range map[string]struct {
		facts *facts
		want  bool
	}{
		"nothing, before it was asked": {newFacts(func(f *facts) { f.request = nil }), false},
		"that it waits":                {request(func(*approvalv1alpha1.ResourceCheckRequestStatus) {}), true},
		"not that it was granted since": {request(func(s *approvalv1alpha1.ResourceCheckRequestStatus) {
			s.Validity = &approvalv1alpha1.Validity{NotBefore: later}
		}), false},
		"not that it ended since": {request(func(s *approvalv1alpha1.ResourceCheckRequestStatus) {
			s.Validity, s.Ended = &approvalv1alpha1.Validity{NotBefore: askedAt}, &approvalv1alpha1.Ended{At: later}
		}), false},
	} {
		assert.Equal(t, tc.want, tc.facts.askedBefore(now), name)
	}
}

func TestAStepIsBounded(t *testing.T) {
	w := newWorld(t)
	var bounded bool
	w.ctrl.client = interceptor.NewClient(w.client, interceptor.Funcs{List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
		_, bounded = ctx.Deadline()
		return errors.New("away")
	}})
	_, err := w.ctrl.Reconcile(t.Context(), w.release())
	require.ErrorContains(t, err, "away")
	assert.True(t, bounded)
}

func TestTheCacheIsAskedByIndex(t *testing.T) {
	w := newWorld(t).asked()
	w.ctrl.client = interceptor.NewClient(w.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		given := (&client.ListOptions{}).ApplyOptions(options)
		assert.NotNil(t, given.FieldSelector, "%T", list)
		assert.True(t, *given.UnsafeDisableDeepCopy, "%T", list)
		return c.List(ctx, list, options...)
	}})
	assert.Contains(t, w.validated(), "has been received")
}

func TestDeletedReleasesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	release := w.release()
	release.DeletionTimestamp = &made
	_, err := w.ctrl.Reconcile(t.Context(), release)
	require.NoError(t, err)
	assert.Empty(t, w.release().Status.Conditions)
}

func TestWhatBringsAReleaseBack(t *testing.T) {
	w := newWorld(t).asked().grant()
	w.validated()
	ctx, mine := t.Context(), []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "tenant", Name: "shop-1"}}}
	f := newFacts()
	other := f.rules[0].DeepCopy()
	other.Spec.ObjectRef.Kind = "Connector"
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: releasev1alpha1.DefinitionReleases}}
	forRun := f.request.DeepCopy()
	forRun.Spec.Context.Resource.Kind = "PipelineRun"
	check, past := f.check.DeepCopy(), f.check.DeepCopy()
	check.Spec.Request = &approvalv1alpha1.CheckRequest{Ref: approvalv1alpha1.RequestReference{Namespace: "tenant", Name: "rcr-1"}}
	past.Spec.Request = &approvalv1alpha1.CheckRequest{Ref: approvalv1alpha1.RequestReference{Namespace: "tenant", Name: "rcr-0"}}
	tests := map[string]struct {
		got  []reconcile.Request
		want []reconcile.Request
	}{
		"its plan":             {w.ctrl.releasesOfPlan(ctx, f.plan), mine},
		"another plan":         {w.ctrl.releasesOfPlan(ctx, &releasev1alpha1.ReleasePlan{}), []reconcile.Request{}},
		"its admission":        {w.ctrl.releasesOfAdmission(ctx, &f.admissions[0]), mine},
		"a rule of its plan":   {w.ctrl.releasesOfRule(ctx, &f.rules[0]), mine},
		"a rule of no plan":    {w.ctrl.releasesOfRule(ctx, other), nil},
		"its request":          {w.ctrl.releaseOfRequest(ctx, f.request), mine},
		"its check":            {w.ctrl.releaseOfCheck(ctx, check), mine},
		"a check of nobody":    {w.ctrl.releaseOfCheck(ctx, f.check), nil},
		"a check of the past":  {w.ctrl.releaseOfCheck(ctx, past), nil},
		"a request of a run":   {w.ctrl.releaseOfRequest(ctx, forRun), nil},
		"the CRD":              {w.ctrl.releasesOfCRD(ctx, crd), mine},
		"another CRD":          {w.ctrl.releasesOfCRD(ctx, &metav1.PartialObjectMetadata{}), nil},
		"nothing that is none": {w.ctrl.releasesOfRule(ctx, f.plan), nil},
	}
	for name, tc := range tests {
		assert.Equal(t, tc.want, tc.got, name)
	}
	assert.Empty(t, askedFor(forRun))
	assert.Empty(t, ofRelease(runOf)(&releasev1alpha1.Release{Status: releasev1alpha1.ReleaseStatus{Conditions: []metav1.Condition{{Type: "Released", Status: metav1.ConditionTrue}}}}))
}

func TestRunsThatMatter(t *testing.T) {
	w := newWorld(t).asked().grant()
	w.validated()
	name := runName(w.release())
	node := func(change ...func(*origin.Node)) *origin.Node {
		n := &origin.Node{GroupVersionKind: runKind, Namespace: "managed", Name: name, UID: "run"}
		for _, c := range change {
			c(n)
		}
		return n
	}
	tests := map[string]struct {
		change origin.Change
		want   int
	}{
		"appears":         {origin.Change{New: node()}, 1},
		"finishes":        {origin.Change{Old: node(), New: node(func(n *origin.Node) { n.Finished = true })}, 1},
		"vanishes":        {origin.Change{Old: node()}, 1},
		"is replaced":     {origin.Change{Old: node(), New: node(func(n *origin.Node) { n.UID = "other" })}, 1},
		"goes on":         {origin.Change{Old: node(), New: node()}, 0},
		"is none of ours": {origin.Change{New: node(func(n *origin.Node) { n.Name = "other" })}, 0},
		"is a TaskRun":    {origin.Change{New: node(func(n *origin.Node) { n.Kind = "TaskRun" })}, 0},
		"is nothing":      {origin.Change{}, 0},
	}
	w.ctrl.RunChanged(origin.Change{New: node()})
	for name, tc := range tests {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		require.NoError(t, w.ctrl.queue.Hold(t.Context(), q))
		w.ctrl.RunChanged(tc.change)
		assert.Equal(t, tc.want, q.Len(), name)
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	require.NoError(t, w.ctrl.queue.Hold(t.Context(), q))
	w.ctrl.guardChanged()
	assert.Equal(t, 1, q.Len())
}
