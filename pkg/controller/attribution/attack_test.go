package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "here"}, Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: kubernetesClass},
		Status: connectorsv1alpha1.ConnectorStatus{Identity: "bob"},
	}
	objects := []client.Object{actsAsBob, plan(stoodForBy("bob")), definition(ours)}
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
