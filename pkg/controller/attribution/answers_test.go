package attribution

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

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
