package release

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

const (
	alice = "alice@example.com"
	bob   = "bob@example.com"
	robot = "system:serviceaccount:argocd:application-controller"
)

type plan = *releasev1alpha1.ReleasePlan

func accepting(value string) func(plan) {
	return func(p plan) { annotate(p, approvalv1alpha1.AnnotationAccept, value) }
}

func retarget(target string) func(plan) { return func(p plan) { p.Spec.Target = target } }

func withData(text string) func(plan) {
	return func(p plan) { p.Spec.Data = &runtime.RawExtension{Raw: []byte(text)} }
}

func noise(p plan) { annotate(p, "example.com/noise", time.Now().String()) }

// Each step is one write of the plan; who stands then is looked up in the API server, and that the record's generation is
// the one that the API server gave to the plan.
func TestWhoStandsForAPlan(t *testing.T) {
	type step struct {
		by     string
		change func(plan)
		// stands is who does after the step; refused is what a refusal says, and then nothing changes.
		stands, refused string
	}
	w := newWorld(t)
	off := func(p plan) { p.Labels[w.words.StandingLabel] = "false" }
	tests := map[string]struct {
		first string
		edits []func(plan)
		begin string
		steps []step
	}{
		"a person makes it": {first: alice, edits: []func(plan){w.asking}, begin: alice, steps: []step{
			{by: bob, change: noise, stands: alice},
			{by: robot, change: noise, stands: alice},
			{by: bob, change: retarget("other"), stands: bob},
			{by: alice, change: withData(`{"a":{"b":1.5,"c":null}}`), stands: alice},
			{by: robot, change: withData(`{"a":{"b":2}}`), stands: ""},
			{by: bob, change: noise, stands: ""},
			{by: bob, change: retarget("more"), stands: bob},
		}},
		"it asks later": {first: robot, steps: []step{
			{by: alice, change: retarget("other"), stands: ""},
			{by: bob, change: func(p plan) { w.asking(p) }, stands: bob},
			{by: alice, change: off, stands: ""},
			{by: alice, change: func(p plan) { w.asking(p) }, stands: alice},
			{by: bob, change: func(p plan) { delete(p.Labels, w.words.StandingLabel) }, stands: ""},
			{by: robot, change: func(p plan) { w.asking(p) }, stands: ""},
		}},
		"a robot proposes": {first: robot, edits: []func(plan){w.proposing(alice)}, steps: []step{
			{by: bob, change: accepting("true"), refused: "that is alice@example.com, not bob@example.com"},
			{by: robot, change: accepting("true"), refused: "not " + robot},
			{by: alice, change: accepting("soon"), refused: `"soon" is neither "true" nor a time to come in UTC`},
			{by: alice, change: accepting("2020-01-01T00:00:00Z"), refused: "a time to come"},
			{by: alice, change: accepting("2120-01-01T00:00:00+01:00"), refused: "in UTC"},
			{by: alice, change: accepting("true"), stands: alice},
			{by: bob, change: accepting("false"), refused: "only the person who is proposed or stands"},
			{by: robot, change: noise, stands: alice},
			{by: robot, change: retarget("other"), stands: ""},
			{by: alice, change: accepting("true"), stands: alice},
			{by: bob, change: func(p plan) { annotate(p, approvalv1alpha1.AnnotationProposed, bob) }, stands: alice},
			{by: bob, change: accepting("true"), stands: bob},
		}},
		"a robot is proposed": {first: robot, edits: []func(plan){w.proposing(robot)}, steps: []step{
			{by: robot, change: accepting("true"), refused: "only the person"},
		}},
		"accepting what asks for nobody": {first: robot, edits: []func(plan){w.proposing(alice), off}, steps: []step{
			{by: alice, change: accepting("true"), refused: "asks for nobody"},
		}},
		"accepting while editing": {first: robot, edits: []func(plan){w.asking}, steps: []step{
			{by: alice, change: func(p plan) { retarget("other")(p); accepting("2120-01-01T00:00:00Z")(p) }, stands: alice},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.plan("plan", tc.edits...)
			w.create(w.user(tc.first), p)
			w.stands(p, tc.begin)
			for i, s := range tc.steps {
				before := reread(w, p)
				err := edit(w, w.user(s.by), p, s.change)
				if s.refused != "" {
					refused(t, err, s.refused)
					assert.Equal(t, before, reread(w, p), "step %d", i)
					continue
				}
				require.NoErrorf(t, err, "step %d", i)
				w.stands(p, s.stands)
			}
		})
	}
}

func TestAcceptingUntilATime(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.proposing(alice))
	w.create(w.user(robot), p)
	require.NoError(t, edit(w, w.user(alice), p, accepting("2120-01-01T00:00:00Z")))
	w.stands(p, alice)
	s := standing(t, reread(w, p))
	require.NotNil(t, s.ExpiresAt)
	assert.Equal(t, time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC), *s.ExpiresAt)
	assert.WithinDuration(t, time.Now(), s.AcceptedAt, patience)

	require.NoError(t, edit(w, w.user(alice), p, accepting("true")))
	assert.Nil(t, standing(t, reread(w, p)).ExpiresAt, "accepted anew, without an end")
}

func TestTakingOnesWordBack(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.proposing(alice))
	w.create(w.user(robot), p)
	require.NoError(t, edit(w, w.user(alice), p, accepting("true")))
	require.NoError(t, edit(w, w.user(alice), p, accepting("false")))

	stored := reread(w, p)
	assert.Equal(t, record{}, w.record(stored))
	assert.Equal(t, "true", stored.Labels[w.words.StandingLabel], "the plan goes on asking")
	assert.NotContains(t, stored.Annotations, approvalv1alpha1.AnnotationProposed)

	for _, by := range []string{bob, robot, alice} {
		require.NoError(t, edit(w, w.user(by), p, noise))
		assert.Equal(t, record{}, w.record(reread(w, p)), by)
	}
	require.NoError(t, edit(w, w.user(robot), p, func(p plan) { annotate(p, approvalv1alpha1.AnnotationProposed, alice) }))
	assert.NotContains(t, reread(w, p).Annotations, approvalv1alpha1.AnnotationAccept, "she is asked anew")
	require.NoError(t, edit(w, w.user(alice), p, accepting("true")))
	w.stands(p, alice)
}

func TestDecliningAProposal(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.asking)
	w.create(w.user(bob), p)
	require.NoError(t, edit(w, w.user(robot), p, w.proposing(alice)))
	require.NoError(t, edit(w, w.user(alice), p, accepting("false")))
	w.stands(p, bob)
	assert.NotContains(t, reread(w, p).Annotations, approvalv1alpha1.AnnotationProposed)
}

func TestAPlanThatIsMadeAnewInheritsNothing(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.asking)
	w.create(w.user(alice), p)
	backup := reread(w, p)
	require.NoError(t, w.admin.Delete(t.Context(), p))
	backup.ResourceVersion, backup.UID = "", ""
	w.create(w.user(robot), backup)
	w.stands(backup, "")
}

func TestForgingWhoStandsHasNoEffect(t *testing.T) {
	forge := func(p plan) {
		annotate(p, approvalv1alpha1.AnnotationAuthor, alice)
		annotate(p, approvalv1alpha1.AnnotationStanding, `{"generation":1,"author":"alice@example.com","acceptedAt":"`+time.Now().UTC().Format(time.RFC3339)+`"}`)
		p.Labels["release.rhtap.openshift.io/author"] = alice
	}
	t.Run("when it is made", func(t *testing.T) {
		for by, want := range map[string]string{robot: "", bob: bob} {
			w := newWorld(t)
			p := w.plan("plan", w.asking, forge)
			w.create(w.user(by), p)
			w.stands(p, want)
		}
	})
	ways := map[string]func(w *world, by client.Client, stored plan) error{
		"update": func(w *world, by client.Client, stored plan) error { return by.Update(w.t.Context(), stored) },
		"merge patch": func(w *world, by client.Client, stored plan) error {
			return by.Patch(w.t.Context(), stored, client.MergeFrom(w.plan("plan")))
		},
		"apply": func(w *world, by client.Client, stored plan) error { return serverSideApply(w, by, stored) },
		"status": func(w *world, _ client.Client, stored plan) error {
			return w.admin.Status().Update(w.t.Context(), stored)
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for _, by := range []string{robot, bob} {
				w := newWorld(t)
				p := w.plan("plan", w.proposing("carol@example.com"))
				w.create(w.user(robot), p)
				stored := reread(w, p)
				forge(stored)
				require.NoError(t, way(w, w.user(by), stored))
				w.stands(p, "")
			}
		})
	}
}

func serverSideApply(w *world, by client.Client, object client.Object) error {
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(w.t, err)
	u := applied(plain)
	gvks, _, err := scheme.ObjectKinds(object)
	require.NoError(w.t, err)
	u.SetGroupVersionKind(gvks[0])
	return by.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership)
}

func TestFullUpdatesByOtherToolsKeepWhoStands(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.proposing(alice))
	w.create(w.user(robot), p)
	require.NoError(t, edit(w, w.user(alice), p, accepting("true")))
	before := w.record(reread(w, p))
	for _, by := range []string{robot, alice, bob} {
		// As it stands in git: the tool knows nothing of the annotations.
		plain := w.plan("plan", w.asking)
		plain.Spec = reread(w, p).Spec
		plain.ResourceVersion = reread(w, p).ResourceVersion
		require.NoError(t, w.user(by).Update(t.Context(), plain))
		assert.Equal(t, before, w.record(reread(w, p)), by)

		plain.ManagedFields, plain.ResourceVersion = nil, ""
		require.NoError(t, serverSideApply(w, w.user(by), w.plan("plan", w.asking)))
		assert.Equal(t, before, w.record(reread(w, p)), by)
	}
}

func TestStatusUpdatesDoNotMoveMetadata(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.asking)
	w.create(w.user(alice), p)
	before := w.record(reread(w, p))
	stored := reread(w, p)
	annotate(stored, approvalv1alpha1.AnnotationAuthor, bob)
	annotate(stored, approvalv1alpha1.AnnotationStanding, "{}")
	stored.Labels = nil
	stored.Status.Conditions = []metav1.Condition{{Type: "Matched", Status: metav1.ConditionTrue, Reason: "Matched", LastTransitionTime: metav1.Now()}}
	require.NoError(t, w.admin.Status().Update(t.Context(), stored))
	after := reread(w, p)
	assert.Equal(t, before, w.record(after))
	assert.Len(t, after.Status.Conditions, 1)
	assert.Equal(t, "true", after.Labels[w.words.StandingLabel])
}
