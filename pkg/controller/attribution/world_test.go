package attribution

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/controller/identity"
	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

const (
	robot = "system:serviceaccount:ci:bot"
	own   = "system:serviceaccount:countersign-system:countersign-controller"
	alice = "alice@example.com"
)

var (
	start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	epoch = start.Add(-24 * time.Hour)
	asked = start.Add(-time.Minute)

	connectorRef = approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o1"}
	runRef       = approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Namespace: "team-a", Name: "build-1", UID: "run-uid"}
	releaseRef   = approvalv1alpha1.ObjectReference{APIVersion: "appstudio.redhat.com/v1alpha1", Kind: "Release", Namespace: "prod", Name: "rel-1", UID: "rel-uid"}
	planRef      = approvalv1alpha1.ObjectReference{APIVersion: "appstudio.redhat.com/v1alpha1", Kind: "ReleasePlan", Name: "to-prod"}
)

// people is a directory that says what it is told to.
type people struct {
	known   map[string]directory.Person
	fails   error
	lookups []string
}

func (p *people) Lookup(_ context.Context, username string) (directory.Answer, error) {
	p.lookups = append(p.lookups, username)
	if p.fails != nil {
		return directory.Answer{}, p.fails
	}
	if person, ok := p.known[username]; ok {
		return directory.Answer{Person: person, At: asked}, nil
	}
	return directory.Answer{}, &directory.UnknownError{Why: "nobody has that name"}
}

// world is a controller over a few objects.
type world struct {
	t        *testing.T
	clock    *testingclock.FakeClock
	client   client.WithWatch
	events   *events.FakeRecorder
	people   *people
	nodes    []*origin.Node
	unseen   error
	since    time.Time
	why      string
	recorded bool
	ctrl     *Controller
	requeued time.Duration
}

func newWorld(t *testing.T, check *approvalv1alpha1.AttributionCheck, context *approvalv1alpha1.ObjectReference, more ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme, releasev1alpha1.AddToScheme, metav1.AddMetaToScheme} {
		require.NoError(t, add(scheme))
	}
	scheme.AddKnownTypeWithName(definition.Kind, &metav1.PartialObjectMetadata{})
	scheme.AddKnownTypeWithName(schema.FromAPIVersionAndKind(runRef.APIVersion, runRef.Kind), &metav1.PartialObjectMetadata{})
	request := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "ask", UID: "r1"},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			Context: approvalv1alpha1.RequestContext{Resource: context}, RequestedBy: &approvalv1alpha1.Identity{Username: alice},
		},
	}
	w := &world{
		t: t, clock: testingclock.NewFakeClock(start), events: events.NewFakeRecorder(100), since: epoch, recorded: true,
		people: &people{known: map[string]directory.Person{
			alice: {UID: "u-1", DisplayName: "Alice", Email: alice}, "bob": {}, robot: {DisplayName: "Bot"}, "kube:admin": {},
		}},
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(more, check, request)...).WithStatusSubresource(check).
		WithIndex(check, indexContext, ContextKeys).WithIndex(&connectorsv1alpha1.Connector{}, indexIdentity, identity.Keys).Build()
	mapper := apimeta.NewDefaultRESTMapper(nil)
	for _, ref := range []approvalv1alpha1.ObjectReference{runRef, releaseRef} {
		mapper.Add(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), apimeta.RESTScopeNamespace)
	}
	w.ctrl = New(Dependencies{
		Clock: w.clock, Client: w.client, Live: w.client, Mapper: mapper, Origins: w, Watched: w, Climber: w,
		Since: func() time.Time { return w.since }, Guard: w, People: w.people, Recorder: w.events,
	}, own)
	return w
}

// Get implements origin.Source.
func (w *world) Get(_ context.Context, kind schema.GroupKind, namespace, name string) (*origin.Node, error) {
	if w.unseen != nil {
		return nil, w.unseen
	}
	for _, n := range w.nodes {
		if n.GroupKind() == kind && n.Namespace == namespace && n.Name == name {
			return n, nil
		}
	}
	return nil, origin.ErrNotFound
}

// ReleasesOf implements Watched.
func (w *world) ReleasesOf(_ context.Context, run string) ([]*origin.Node, error) {
	var named []*origin.Node
	for _, n := range w.nodes {
		if n.Release != nil && n.Release.PipelineRun == run {
			named = append(named, n)
		}
	}
	return named, nil
}

// ClimbFrom implements Climber: the last run is the topmost.
func (w *world) ClimbFrom(_ context.Context, node *origin.Node) (*origin.Climb, error) {
	for _, n := range w.nodes {
		if node.Owner != nil && n.UID == node.Owner.UID {
			node = n
		}
	}
	return &origin.Climb{Resource: node}, nil
}

// Guarded implements Guard.
func (w *world) Guarded() (bool, string) { return w.why == "", w.why }

// Records implements Guard.
func (w *world) Records(schema.GroupResource) bool { return w.recorded }

func (w *world) node(ref approvalv1alpha1.ObjectReference, creator string, edit ...func(*origin.Node)) *world {
	n := &origin.Node{
		GroupVersionKind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
		CreatedBy: creator, Created: start.Add(-time.Hour),
	}
	for _, e := range edit {
		e(n)
	}
	w.nodes = append(w.nodes, n)
	return w
}

func releasedBy(r origin.Release) func(*origin.Node) {
	return func(n *origin.Node) { n.Release = &r }
}

func makeCheck(edit ...func(*approvalv1alpha1.AttributionCheck)) *approvalv1alpha1.AttributionCheck {
	check := &approvalv1alpha1.AttributionCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "check", Generation: 1, CreationTimestamp: metav1.NewTime(start)},
		Spec: approvalv1alpha1.AttributionCheckSpec{
			Timeout: &metav1.Duration{Duration: time.Hour},
			Request: &approvalv1alpha1.CheckRequest{Ref: approvalv1alpha1.RequestReference{Namespace: "team-a", Name: "ask", UID: "r1"}, Object: connectorRef},
		},
	}
	for _, e := range edit {
		e(check)
	}
	return check
}

func onPlan(check *approvalv1alpha1.AttributionCheck) { check.Spec.Standing = planRef.DeepCopy() }

func ofPlan(check *approvalv1alpha1.AttributionCheck) {
	check.Spec.Request.Object = planRef
	check.Spec.Request.Object.Namespace, check.Spec.Request.Object.UID = "prod", "plan-uid"
}

func anybody(check *approvalv1alpha1.AttributionCheck) {
	no := false
	check.Spec.RequireHuman = &no
}

// plan is to-prod in its second generation.
func plan(edit ...func(*releasev1alpha1.ReleasePlan)) *releasev1alpha1.ReleasePlan {
	p := &releasev1alpha1.ReleasePlan{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "to-prod", UID: "plan-uid", Generation: 2}}
	for _, e := range edit {
		e(p)
	}
	return p
}

// stoodForBy is what admission makes of an acceptance.
func stoodForBy(author string, edit ...func(*attribution.Standing)) func(*releasev1alpha1.ReleasePlan) {
	return func(p *releasev1alpha1.ReleasePlan) {
		s := attribution.Standing{Author: author, AcceptedAt: asked, Generation: 2}
		for _, e := range edit {
			e(&s)
		}
		p.Annotations = map[string]string{"attribution.alaudadevops.io/author": author, "attribution.alaudadevops.io/standing": s.String()}
	}
}

// fixed is what a Release stands on.
func fixed(edit ...func(*attribution.Standing)) *attribution.Standing {
	s := &attribution.Standing{Kind: "ReleasePlan", Namespace: "prod", Name: "to-prod", UID: "plan-uid", Generation: 2}
	for _, e := range edit {
		e(s)
	}
	return s
}

func by(author string) func(*attribution.Standing) {
	return func(s *attribution.Standing) { s.Author, s.AcceptedAt = author, asked }
}

func releases(labels map[string]string) *metav1.PartialObjectMetadata {
	d := definition.New()
	d.Name, d.Labels = releasev1alpha1.DefinitionReleases, labels
	return d
}

var ours = map[string]string{"app.kubernetes.io/part-of": "countersign"}

func (w *world) check() *approvalv1alpha1.AttributionCheck {
	w.t.Helper()
	check := &approvalv1alpha1.AttributionCheck{}
	require.NoError(w.t, w.client.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "check"}, check))
	return check
}

func (w *world) reconcile() *approvalv1alpha1.AttributionCheck {
	w.t.Helper()
	result, err := w.ctrl.Reconcile(context.Background(), w.check())
	require.NoError(w.t, err)
	w.requeued = result.RequeueAfter
	return w.check()
}

func (w *world) event() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return ""
	}
}
