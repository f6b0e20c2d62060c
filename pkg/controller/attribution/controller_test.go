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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
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

func TestAnswers(t *testing.T) {
	const run, made = "PipelineRun team-a/build-1", " made PipelineRun team-a/build-1"
	k8s := func(identity string) *connectorsv1alpha1.Connector {
		return &connectorsv1alpha1.Connector{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "here"}, Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "k8s"},
			Status: connectorsv1alpha1.ConnectorStatus{Identity: identity},
		}
	}
	tests := map[string]struct {
		check   func(*approvalv1alpha1.AttributionCheck)
		context *approvalv1alpha1.ObjectReference
		objects []client.Object
		nodes   func(*world)

		wantState    duckv1alpha1.CheckState
		wantReason   string
		wantMessage  string
		wantAuthor   string
		wantSource   approvalv1alpha1.AttributionSource
		wantVerified bool
		wantLookups  []string
	}{
		"a run of a person": {
			context: &runRef, nodes: func(w *world) { w.node(runRef, alice) },
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: alice, wantSource: "Direct", wantVerified: true,
			wantMessage: "alice@example.com (Alice)" + made + " and is known to the directory.", wantLookups: []string{alice},
		},
		"a task of a run of a person": {
			context: &runRef,
			nodes: func(w *world) {
				w.node(runRef, robot, func(n *origin.Node) { n.Owner = &origin.Owner{UID: "top"} })
				w.node(runRef, alice, func(n *origin.Node) { n.Name, n.UID = "top", "top" })
			},
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: alice, wantSource: "Direct", wantVerified: true,
			wantMessage: "made PipelineRun team-a/top", wantLookups: []string{alice},
		},
		"a person who asks for himself": {
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: alice, wantSource: "Direct", wantVerified: true,
			wantMessage: "alice@example.com (Alice) made ResourceCheckRequest team-a/ask", wantLookups: []string{alice},
		},
		"somebody who asks for himself, whom the directory does not know": {
			nodes:     func(w *world) { delete(w.people.known, alice) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "AuthorUnknown", wantAuthor: alice, wantSource: "Direct", wantLookups: []string{alice},
			wantMessage: "(nobody has that name): ask an administrator to enter you in the directory, or let somebody else ask.",
		},
		"a person without a name to show": {
			context: &runRef, nodes: func(w *world) { w.node(runRef, "bob") },
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: "bob", wantSource: "Direct", wantVerified: true,
			wantMessage: "bob" + made, wantLookups: []string{"bob"},
		},
		"somebody who has left": {
			context: &runRef, nodes: func(w *world) { w.node(runRef, "leaver") },
			wantState: duckv1alpha1.CheckRejected, wantReason: "AuthorUnknown", wantAuthor: "leaver", wantSource: "Direct", wantLookups: []string{"leaver"},
			wantMessage: "leaver" + made + ", but is not known to the directory (nobody has that name): let somebody whom the directory knows make it anew.",
		},
		"a robot, although the directory knows it": {
			context: &runRef, nodes: func(w *world) { w.node(runRef, robot) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: robot,
			wantMessage: "only the robot " + robot + " stands behind " + run + ", and no person stands for it: ",
		},
		"the shared administrator, although the directory knows him": {
			context: &runRef, nodes: func(w *world) { w.node(runRef, "kube:admin") },
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: "kube:admin",
		},
		"a robot where any author will do": {
			check: anybody, context: &runRef, nodes: func(w *world) { w.node(runRef, robot) },
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: robot, wantSource: "Direct",
			wantMessage: robot + made + ", and the rule does not ask whether that is a person.",
		},
		"nobody, where any author will do": {
			check: anybody, context: &runRef, nodes: func(w *world) { w.node(runRef, "") },
			wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor",
		},
		"a robot that somebody stands for": {
			check: onPlan, context: &runRef, objects: []client.Object{plan(stoodForBy("bob"))}, nodes: func(w *world) { w.node(runRef, robot) },
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: "bob", wantSource: "Standing", wantVerified: true,
			wantMessage: "bob stands for " + run + " by the ReleasePlan to-prod and is known", wantLookups: []string{"bob"},
		},
		"a robot that somebody stands for who has left": {
			check: onPlan, context: &runRef, objects: []client.Object{plan(stoodForBy("leaver"))}, nodes: func(w *world) { w.node(runRef, robot) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "AuthorUnknown", wantAuthor: "leaver", wantSource: "Standing",
			wantMessage: "let somebody else accept the ReleasePlan, then make it anew", wantLookups: []string{"leaver"},
		},
		"a robot and a plan that nobody accepted": {
			check: onPlan, context: &runRef, objects: []client.Object{plan()}, nodes: func(w *world) { w.node(runRef, robot) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: robot,
			wantMessage: "let somebody accept the ReleasePlan to-prod, or start it yourself",
		},
		"a robot and a plan whose records contradict each other": {
			check: onPlan, context: &runRef, nodes: func(w *world) { w.node(runRef, robot) },
			objects: []client.Object{plan(stoodForBy("bob"), func(p *releasev1alpha1.ReleasePlan) {
				p.Annotations["attribution.alaudadevops.io/author"] = "leaver"
			})},
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: robot,
		},
		"a robot and a plan that was accepted in another form": {
			check: onPlan, context: &runRef, nodes: func(w *world) { w.node(runRef, robot) },
			objects:   []client.Object{plan(stoodForBy("bob", func(s *attribution.Standing) { s.Generation = 1 }))},
			wantState: duckv1alpha1.CheckRejected, wantReason: "StandingChanged", wantAuthor: "bob", wantSource: "Standing",
		},
		"a robot and a plan that was accepted until yesterday": {
			check: onPlan, context: &runRef, nodes: func(w *world) { w.node(runRef, robot) },
			objects:   []client.Object{plan(stoodForBy("bob", func(s *attribution.Standing) { s.ExpiresAt = &epoch }))},
			wantState: duckv1alpha1.CheckRejected, wantReason: "StandingExpired", wantAuthor: "bob", wantSource: "Standing",
		},
		"a robot and a plan that is not there": {
			check: onPlan, context: &runRef, nodes: func(w *world) { w.node(runRef, robot) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: robot,
		},
		"a robot for a protected plan": {
			check: ofPlan, context: &runRef, objects: []client.Object{plan(stoodForBy("bob"))}, nodes: func(w *world) { w.node(runRef, robot) },
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: "bob", wantSource: "Standing", wantVerified: true, wantLookups: []string{"bob"},
		},
		"a robot for a protected plan that was made anew": {
			check: ofPlan, context: &runRef, nodes: func(w *world) { w.node(runRef, robot) },
			objects:   []client.Object{plan(stoodForBy("bob"), func(p *releasev1alpha1.ReleasePlan) { p.UID = "another" })},
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: robot,
		},
		"a robot and something named like a plan": {
			check: func(c *approvalv1alpha1.AttributionCheck) {
				onPlan(c)
				c.Spec.Standing.APIVersion = "example.com/v1"
			},
			context: &runRef, objects: []client.Object{plan(stoodForBy("bob"))}, nodes: func(w *world) { w.node(runRef, robot) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: robot,
		},
		"a run that is older than the records": {
			context: &runRef, nodes: func(w *world) { w.node(runRef, alice, func(n *origin.Node) { n.Created = epoch }) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor", wantMessage: "nobody can be shown to have made " + run,
		},
		"something whose creators are not recorded": {
			context: &runRef,
			nodes: func(w *world) {
				w.recorded = false
				w.node(runRef, alice)
			},
			wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor",
		},
		"a run of a person whom a connector acts as": {
			context: &runRef, objects: []client.Object{k8s(alice)}, nodes: func(w *world) { w.node(runRef, alice) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor",
		},
		"a run that is gone": {
			context: &runRef, wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor", wantMessage: run + " is gone",
		},
		"another run of that name": {
			context: &runRef, nodes: func(w *world) { w.node(runRef, alice, func(n *origin.Node) { n.UID = "x" }) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor", wantMessage: run + " is gone",
		},
		"a resource that the rule names": {
			check: func(c *approvalv1alpha1.AttributionCheck) {
				c.Spec.Resource = &approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: "nightly"}
			},
			objects: []client.Object{changedBy("bob")},
			nodes: func(w *world) {
				w.node(runRef, "bob", func(n *origin.Node) { n.Namespace, n.Name = "prod", "nightly" })
			},
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: "bob", wantSource: "Direct", wantVerified: true,
			wantMessage: "bob made PipelineRun prod/nightly", wantLookups: []string{"bob"},
		},
		"a Release of a person": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{plan()},
			nodes: func(w *world) {
				w.node(releaseRef, alice, releasedBy(origin.Release{Author: alice, Standing: fixed()}))
			},
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: alice, wantSource: "Direct", wantVerified: true, wantLookups: []string{alice},
		},
		"a Release of a person who did not make it": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{plan()},
			nodes: func(w *world) {
				w.node(releaseRef, "bob", releasedBy(origin.Release{Author: alice, Standing: fixed()}))
			},
			wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor",
		},
		"a Release that nobody can be shown to have made": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{plan()},
			nodes:     func(w *world) { w.node(releaseRef, "", releasedBy(origin.Release{Author: alice, Standing: fixed()})) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor",
		},
		"an automated Release that somebody stood for": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{plan(stoodForBy("bob"))},
			nodes: func(w *world) {
				w.node(releaseRef, robot, releasedBy(origin.Release{AutomatedBy: robot, Standing: fixed(by("bob"))}))
			},
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: "bob", wantSource: "Standing", wantVerified: true, wantLookups: []string{"bob"},
		},
		"an automated Release whose plan was edited since": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{plan(func(p *releasev1alpha1.ReleasePlan) { p.Generation = 3 })},
			nodes: func(w *world) {
				w.node(releaseRef, robot, releasedBy(origin.Release{AutomatedBy: robot, Standing: fixed(by("bob"))}))
			},
			wantState: duckv1alpha1.CheckRejected, wantReason: "StandingChanged", wantAuthor: "bob", wantSource: "Standing",
		},
		"an automated Release that was accepted only after it was made": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{plan(stoodForBy("bob"))},
			nodes: func(w *world) {
				w.node(releaseRef, robot, releasedBy(origin.Release{AutomatedBy: robot, Standing: fixed()}))
			},
			wantState: duckv1alpha1.CheckRejected, wantReason: "NoAuthor",
		},
		"a Release that was verified before": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{releases(ours)},
			nodes: func(w *world) {
				w.node(releaseRef, "leaver", releasedBy(origin.Release{Author: "leaver", Verified: "leaver", VerifiedAt: asked}))
			},
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: "leaver", wantSource: "Direct", wantVerified: true,
			wantMessage: "leaver answers for Release prod/rel-1, which was verified for the Release already.",
		},
		"a Release that was verified for somebody else": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{releases(ours), plan()},
			nodes: func(w *world) {
				w.node(releaseRef, "leaver", releasedBy(origin.Release{Author: "leaver", Standing: fixed(), Verified: alice, VerifiedAt: asked}))
			},
			wantState: duckv1alpha1.CheckRejected, wantReason: "AuthorUnknown", wantAuthor: "leaver", wantSource: "Direct", wantLookups: []string{"leaver"},
		},
		"a Release of others' kind that says it was verified": {
			check: ofPlan, context: &releaseRef, objects: []client.Object{releases(nil), plan()},
			nodes: func(w *world) {
				w.node(releaseRef, "leaver", releasedBy(origin.Release{Author: "leaver", Standing: fixed(), Verified: "leaver", VerifiedAt: asked}))
			},
			wantState: duckv1alpha1.CheckRejected, wantReason: "AuthorUnknown", wantAuthor: "leaver", wantSource: "Direct", wantLookups: []string{"leaver"},
		},
		"a run that was made for a Release": {
			context: &runRef, objects: []client.Object{releases(ours)},
			nodes: func(w *world) {
				w.node(runRef, own)
				w.node(releaseRef, robot, releasedBy(origin.Release{
					AutomatedBy: robot, Standing: fixed(by("bob")), Verified: "bob", VerifiedAt: asked, ByPlan: true, PipelineRun: "team-a/build-1",
				}))
			},
			wantState: duckv1alpha1.CheckApproved, wantReason: "Attributed", wantAuthor: "bob", wantSource: "Standing", wantVerified: true,
			wantMessage: "bob stands behind " + run + " by Release prod/rel-1 and is known", wantLookups: []string{"bob"},
		},
		"a run of our own that no Release names": {
			context: &runRef, objects: []client.Object{releases(ours)},
			nodes:     func(w *world) { w.node(runRef, own) },
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: own,
		},
		"a run of our own that a Release of others' kind names": {
			context: &runRef, objects: []client.Object{releases(nil)},
			nodes: func(w *world) {
				w.node(runRef, own)
				w.node(releaseRef, alice, releasedBy(origin.Release{Author: alice, Verified: alice, VerifiedAt: asked, PipelineRun: "team-a/build-1"}))
			},
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: own,
		},
		"a run of a robot that a Release names": {
			context: &runRef, objects: []client.Object{releases(ours)},
			nodes: func(w *world) {
				w.node(runRef, robot)
				w.node(releaseRef, alice, releasedBy(origin.Release{Author: alice, Verified: alice, VerifiedAt: asked, PipelineRun: "team-a/build-1"}))
			},
			wantState: duckv1alpha1.CheckRejected, wantReason: "OnlyRobot", wantAuthor: robot,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check := makeCheck()
			if test.check != nil {
				test.check(check)
			}
			w := newWorld(t, check, test.context, test.objects...)
			if test.nodes != nil {
				test.nodes(w)
			}
			got := w.reconcile().Status
			assert.Equal(t, test.wantState, got.State, got.Message)
			assert.Equal(t, test.wantReason, got.Reason, got.Message)
			assert.Contains(t, got.Message, test.wantMessage)
			assert.True(t, strings.HasSuffix(got.Message, "."), got.Message)
			if test.wantAuthor == "" {
				assert.Nil(t, got.Author)
			} else if assert.NotNil(t, got.Author) {
				assert.Equal(t, test.wantAuthor, got.Author.Username)
			}
			assert.Equal(t, test.wantSource, got.Source)
			assert.Equal(t, test.wantSource == "Standing", got.Standing != nil)
			assert.Equal(t, test.wantVerified, got.Verified)
			assert.Equal(t, test.wantVerified, got.VerifiedAt != nil && got.VerifiedAt.Time.Equal(asked))
			assert.Equal(t, test.wantLookups, w.people.lookups)
			ready := apimeta.FindStatusCondition(got.Conditions, "Ready")
			require.NotNil(t, ready)
			assert.Equal(t, test.wantState == duckv1alpha1.CheckApproved, ready.Status == metav1.ConditionTrue)
			assert.Equal(t, int64(1), ready.ObservedGeneration)
			assert.Zero(t, w.requeued, "an answer is final")
			assert.Contains(t, w.event(), test.wantReason)
		})
	}
}

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
