package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

func TestS18_AnswersOfADirectoryCannotDraw(t *testing.T) {
	w := newWorld(t, makeCheck(), &runRef).node(runRef, alice)
	w.people.known[alice] = directory.Person{DisplayName: "Alice\x1b[2J\u202e", UID: "u\x1b[2J"}
	got := w.reconcile().Status
	for _, text := range []string{got.Message, got.Conditions[0].Message, w.event()} {
		assert.Contains(t, text, "Alice")
		assert.NotContains(t, text, "\x1b")
		assert.NotContains(t, text, "\u202e")
	}
	assert.Equal(t, alice, got.Author.Username)
}

func TestS18_NamesOfAuthorsCannotDraw(t *testing.T) {
	const draws = "eve\x1b[2J\u202e"
	got := newWorld(t, makeCheck(), &runRef).node(runRef, draws).reconcile().Status
	assert.NotContains(t, got.Message, "\x1b")
	assert.NotContains(t, got.Message, "\u202e")
	assert.Equal(t, draws, got.Author.Username, "the name itself is kept exactly")
}

// Whoever may use the connector can accept a plan, as well as make a run.
func TestS16_NobodyStandsThroughAConnector(t *testing.T) {
	actsAsBob := &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "here"}, Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "k8s"},
		Status: connectorsv1alpha1.ConnectorStatus{Identity: "bob"},
	}
	objects := []client.Object{actsAsBob, plan(stoodForBy("bob")), releases(ours)}
	automated := origin.Release{AutomatedBy: robot, Standing: fixed(by("bob"))}
	verified := automated
	verified.Verified, verified.VerifiedAt, verified.ByPlan = "bob", asked, true
	for name, w := range map[string]*world{
		"a run":                            newWorld(t, makeCheck(onPlan), &runRef, objects...).node(runRef, robot),
		"a Release":                        newWorld(t, makeCheck(ofPlan), &releaseRef, objects...).node(releaseRef, robot, releasedBy(automated)),
		"a Release that was verified once": newWorld(t, makeCheck(ofPlan), &releaseRef, objects...).node(releaseRef, robot, releasedBy(verified)),
	} {
		got := w.reconcile().Status
		assert.Equal(t, duckv1alpha1.CheckRejected, got.State, name)
		assert.Equal(t, approvalv1alpha1.ReasonNoAuthor, got.Reason, name)
		assert.Contains(t, got.Message, "a connector acts as bob", name)
		assert.Empty(t, w.people.lookups, name)
	}
}

// changedBy is a resource in the namespace of the check as the API server has it.
func changedBy(name string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nightly", UID: "run-uid"}}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(runRef.APIVersion, runRef.Kind))
	if name != "" {
		o.Annotations = map[string]string{approvalv1alpha1.AnnotationChangedBy: name}
	}
	return o
}

// Whoever made a thing once does not answer for what a program has put into it since.
func TestS1_TheAuthorOfAResourceIsWhoSetItsContent(t *testing.T) {
	tests := map[string]struct {
		object      *metav1.PartialObjectMetadata
		wantReason  string
		wantMessage string
	}{
		"its creator":       {changedBy(alice), approvalv1alpha1.ReasonAttributed, "made PipelineRun prod/nightly"},
		"another person":    {changedBy("bob"), approvalv1alpha1.ReasonAttributed, "bob set what is now in PipelineRun prod/nightly"},
		"a robot":           {changedBy(robot), approvalv1alpha1.ReasonOnlyRobot, robot},
		"somebody who left": {changedBy("leaver"), approvalv1alpha1.ReasonAuthorUnknown, "leaver"},
		"nobody known":      {changedBy(""), approvalv1alpha1.ReasonNoAuthor, "nobody can be shown"},
		"another resource":  {func() *metav1.PartialObjectMetadata { o := changedBy(alice); o.UID = "x"; return o }(), approvalv1alpha1.ReasonNoAuthor, "nobody can be shown"},
	}
	for name, test := range tests {
		check := makeCheck(func(c *approvalv1alpha1.AttributionCheck) {
			c.Spec.Resource = &approvalv1alpha1.ObjectReference{APIVersion: runRef.APIVersion, Kind: runRef.Kind, Name: "nightly"}
		})
		w := newWorld(t, check, nil, test.object).node(runRef, alice, func(n *origin.Node) { n.Namespace, n.Name = "prod", "nightly" })
		got := w.reconcile().Status
		assert.Equal(t, test.wantReason, got.Reason, name)
		assert.Contains(t, got.Message, test.wantMessage, name)
	}
}
