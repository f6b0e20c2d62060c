package konflux

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

var runKind = schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: "PipelineRunList"}

const (
	author   = approvalv1alpha1.AnnotationAuthor
	standing = approvalv1alpha1.AnnotationStanding
	byRobot  = approvalv1alpha1.AnnotationAutomated
)

// Who answers for a Release is recorded and verified; the Release itself is release-service's.
func TestReleasesOfAnotherProductAreOnlyAskedFor(t *testing.T) {
	w := newWorld(t)
	w.create(w.user(alice), w.plan("plan"))
	release := w.release("release")
	w.create(w.user(alice), release)
	assert.Equal(t, alice, release.Annotations[author])
	assert.Equal(t, attribution.LabelValue(alice), release.Labels["release.appstudio.openshift.io/author"])
	w.tells(release, "Normal Succeeded: "+alice+" answers for the Release")
	check := w.check()
	assert.Equal(t, duckv1alpha1.CheckApproved, check.Status.State)
	assert.Equal(t, alice, check.Status.Author.Username)
	assert.True(t, check.Status.Verified)
	w.leftAlone(release)
}

func TestAProgramReleasesForWhoStandsBesideKonflux(t *testing.T) {
	w := newWorld(t)
	plan := w.plan("plan", asking)
	w.create(w.user(alice), plan)
	assert.Equal(t, alice, plan.Annotations[author])
	release := w.release("release", automated)
	w.create(w.user(integration), release)
	assert.Equal(t, integration, release.Annotations[byRobot])
	w.tells(release, "Normal Succeeded: "+alice+" answers for the Release by the ReleasePlan plan")
	check := w.check()
	assert.Equal(t, approvalv1alpha1.SourceStanding, check.Status.Source)
	assert.Equal(t, alice, check.Status.Author.Username)
	w.leftAlone(release)
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(plan), plan))
	assert.Empty(t, plan.Status)
}

// A refusal is told in an event, which passes, and stands in the check, which stays.
func TestARefusalStandsInTheCheck(t *testing.T) {
	tests := map[string]struct {
		stands, by string
		automated  bool
		want       string
	}{
		"nobody whom the directory knows": {alice, gone, false, approvalv1alpha1.ReasonAuthorUnknown},
		"a robot":                         {alice, "robot", false, approvalv1alpha1.ReasonOnlyRobot},
		"nobody stands":                   {"robot", integration, true, approvalv1alpha1.ReasonNoAuthor},
		"who stands is not known":         {gone, integration, true, approvalv1alpha1.ReasonAuthorUnknown},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			name := func(user string) string {
				if user == "robot" {
					return w.robot()
				}
				return user
			}
			w.create(w.user(name(tc.stands)), w.plan("plan", asking))
			release := w.release("release")
			if tc.automated {
				automated(release)
			}
			w.create(w.user(name(tc.by)), release)
			check := w.check()
			assert.Equal(t, duckv1alpha1.CheckRejected, check.Status.State)
			assert.Equal(t, tc.want, check.Status.Reason)
			assert.False(t, check.Status.Verified)
			w.tells(release, "Warning ValidationError: ")
			w.leftAlone(release)
		})
	}
}

// What Konflux does with its own kinds is not refused: neither its statuses nor another spec, which its webhooks judge.
func TestKonfluxWritesItsStatuses(t *testing.T) {
	w := newWorld(t)
	plan, release := w.plan("plan"), w.release("release")
	w.create(w.user(alice), plan)
	w.create(w.user(alice), release)
	konflux := w.user(releaseService)
	release.Spec.GracePeriodDays = 7
	require.NoError(t, konflux.Update(t.Context(), release))
	release.Status.Attribution = &releasev1alpha1.Attribution{Author: "somebody"}
	apimeta.SetStatusCondition(&release.Status.Conditions, metav1.Condition{
		Type: releasev1alpha1.ConditionReleased, Status: metav1.ConditionUnknown, Reason: releasev1alpha1.ReasonProgressing,
	})
	eventually(t, func(ctx context.Context) error { return konflux.Status().Update(ctx, release) })
	plan.Status.ReleasePlanAdmission = &releasev1alpha1.MatchedReleasePlanAdmission{Name: "managed/shop", Active: true}
	require.NoError(t, konflux.Status().Update(t.Context(), plan))
	w.tells(release, "Normal Succeeded: "+alice+" answers for the Release")
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(release), release))
	assert.Equal(t, alice, release.Annotations[author], "the record is ours")
}

// The record does not rest on the webhooks alone: bob, who may write Releases and plans, forges none.
func TestS1_TheRecordCannotBeForgedBesideKonfluxWithoutTheWebhooks(t *testing.T) {
	w := newWorld(t)
	plan, release := w.plan("plan", asking), w.release("release")
	w.create(w.user(alice), plan)
	w.create(w.user(alice), release)
	of := func(object client.Object, name string) string { return object.GetAnnotations()[name] }
	word := (&attribution.Standing{Generation: 1, Author: alice, AcceptedAt: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}).String()
	onPlan := attribution.Standing{Kind: "ReleasePlan", Namespace: w.tenant, Name: "plan", UID: plan.UID, Generation: 1}
	onAlice := onPlan
	onAlice.Author, onAlice.AcceptedAt = alice, time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	w.withoutWebhooks()

	tests := map[string]struct {
		object  client.Object
		refused bool
	}{
		"a Release of hers":                {w.release("new", annotated(author, alice)), true},
		"a Release of hers by a program":   {w.release("new", annotated(byRobot, integration)), true},
		"a Release that she stands for":    {w.release("new", annotated(standing, onAlice.String())), true},
		"and of his":                       {w.release("new", annotated(author, bob), annotated(standing, onAlice.String())), true},
		"and of his as a program":          {w.release("new", annotated(byRobot, bob), annotated(standing, onAlice.String())), true},
		"a Release of his":                 {w.release("new", annotated(author, bob), annotated(standing, onPlan.String())), false},
		"a plan that she stands for":       {w.plan("new", asking, annotated(author, alice), annotated(standing, word)), true},
		"a plan with her word":             {w.plan("new", asking, annotated(author, bob), annotated(standing, word)), true},
		"a plan that is accepted":          {w.plan("new", asking, annotated(approvalv1alpha1.AnnotationAccept, "true")), true},
		"her Release, taken over":          {changed(release, annotated(author, bob)), true},
		"her Release, of nobody":           {changed(release, func(o client.Object) { o.SetAnnotations(nil) }), true},
		"her Release, on something else":   {changed(release, annotated(standing, onAlice.String())), true},
		"her Release, by a program":        {changed(release, annotated(byRobot, bob)), true},
		"her Release, with a note":         {changed(release, annotated("note", "x")), false},
		"her plan, for carol":              {changed(plan, annotated(author, "carol@example.com")), true},
		"her plan, with an older word":     {changed(plan, annotated(standing, word)), true},
		"her plan, changed with her word":  {changed(plan, turned), false},
		"her plan, with her word anew":     {changed(plan, turned, annotated(standing, word)), true},
		"her plan, and half of her record": {changed(plan, annotated(author, "")), true},
	}
	require.NotEqual(t, word, of(plan, standing))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := w.send(bob, tc.object)
			if !tc.refused {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "ValidatingAdmissionPolicy 'countersign-release-attribution'")
		})
	}
}

// turned has a plan go elsewhere. The word for it counts no more, because it names the generation that it was given for.
func turned(o client.Object) { o.(aPlan).Spec.Target = "elsewhere" }

func changed(object client.Object, edits ...func(client.Object)) client.Object {
	object = object.DeepCopyObject().(client.Object)
	for _, edit := range edits {
		edit(object)
	}
	return object
}

// send tries an object out as somebody: new if it is called so.
func (w *world) send(by string, object client.Object) error {
	if object.GetName() == "new" {
		return w.user(by).Create(w.t.Context(), object, client.DryRunAll)
	}
	return w.user(by).Update(w.t.Context(), object, client.DryRunAll)
}
