package release

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

type aRelease = *releasev1alpha1.Release

func TestS1_TheAuthorIsWhoMakesTheRelease(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.asking)
	w.create(w.user(bob), p)
	r := w.release("release")
	w.create(w.user(alice), r)
	got := w.record(reread(w, r))
	assert.Equal(t, record{author: alice, standing: got.standing, authorLabel: attribution.LabelValue(alice)}, got)
	assert.Equal(t, &attribution.Standing{Kind: "ReleasePlan", Namespace: w.namespace, Name: "plan", UID: p.UID, Generation: 1},
		standing(t, reread(w, r)), "a direct author needs nobody who stands for the plan")
}

func TestAutomatedReleases(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.asking)
	w.create(w.user(bob), p)
	accepted := standing(t, reread(w, p))

	r := w.release("release", w.automated)
	w.create(w.user(integration), r)
	got := w.record(reread(w, r))
	assert.Equal(t, record{automated: integration, standing: got.standing, automatedLabel: "true"}, got)
	assert.Equal(t, &attribution.Standing{
		Kind: "ReleasePlan", Namespace: w.namespace, Name: "plan", UID: p.UID, Generation: 1, Author: bob, AcceptedAt: accepted.AcceptedAt,
	}, standing(t, reread(w, r)))

	for _, by := range []string{alice, robot, integration + "x", "system:serviceaccount:integration-service:Controller"} {
		err := w.user(by).Create(t.Context(), w.release("other", w.automated))
		refused(t, err, "leave the label out, and you are the author")
	}
	other := w.release("other", func(r aRelease) { w.label(r, w.words.AutomatedLabel, "false") })
	w.create(w.user(robot), other)
	assert.Equal(t, robot, w.record(reread(w, other)).author, "a robot that is not automated is an author, who is verified later")
}

func TestReleasesWithoutAPlanAreStored(t *testing.T) {
	w := newWorld(t)
	for name, edit := range map[string]func(aRelease){
		"no-such-plan":  func(aRelease) {},
		"names-no-plan": func(r aRelease) { r.Spec.ReleasePlan = "" },
	} {
		r := w.release(name, edit)
		w.create(w.user(alice), r)
		assert.Equal(t, record{author: alice, authorLabel: attribution.LabelValue(alice)}, w.record(reread(w, r)), name)
	}
}

// forgeries are what a client sends to pass for somebody else.
var forgeries = map[string]string{
	approvalv1alpha1.AnnotationAuthor:    "ceo@example.com",
	approvalv1alpha1.AnnotationAutomated: integration,
	approvalv1alpha1.AnnotationStanding:  `{"kind":"ReleasePlan","name":"plan","generation":1,"author":"ceo@example.com"}`,
}

func (w *world) forge(object client.Object) {
	for name, value := range forgeries {
		annotate(object, name, value)
	}
	w.label(object, w.words.AuthorLabel, "ceo")
}

func TestS1_ForgedAuthorsOfANewRelease(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.asking)
	w.create(w.user(bob), p)
	for by, automated := range map[string]bool{alice: false, robot: false, integration: true} {
		honest, forged := w.release("honest"), w.release("forged", func(r aRelease) { w.forge(r) })
		if automated {
			w.automated(honest)
			w.automated(forged)
		}
		w.create(w.user(by), honest)
		w.create(w.user(by), forged)
		assert.Equal(t, w.record(reread(w, honest)), w.record(reread(w, forged)), by)
		require.NoError(t, w.admin.Delete(t.Context(), honest))
		require.NoError(t, w.admin.Delete(t.Context(), forged))
	}
	applied := w.release("applied", func(r aRelease) { w.forge(r) })
	require.NoError(t, serverSideApply(w, w.user(alice), applied))
	assert.Equal(t, alice, w.record(reread(w, applied)).author)
	assert.Equal(t, attribution.LabelValue(alice), w.record(reread(w, applied)).authorLabel)
}

func TestS2_S4_TheRecordOfAReleaseNeverChanges(t *testing.T) {
	strip := func(r aRelease) { r.Annotations, r.Labels = nil, nil }
	forge := func(w *world) func(aRelease) {
		return func(r aRelease) {
			w.forge(r)
			w.label(r, w.words.AutomatedLabel, "true")
		}
	}
	unAutomate := func(w *world) func(aRelease) {
		return func(r aRelease) {
			delete(r.Labels, w.words.AutomatedLabel)
			delete(r.Annotations, approvalv1alpha1.AnnotationAutomated)
			w.label(r, w.words.AuthorLabel, attribution.LabelValue(alice))
			annotate(r, approvalv1alpha1.AnnotationAuthor, alice)
		}
	}
	changes := map[string]func(w *world) func(aRelease){
		"stripped": func(*world) func(aRelease) { return strip }, "forged": forge, "no more automated": unAutomate,
	}
	ways := map[string]func(w *world, by client.Client, before, after aRelease) error{
		"update": func(w *world, by client.Client, _, after aRelease) error { return by.Update(w.t.Context(), after) },
		"merge patch": func(w *world, by client.Client, before, after aRelease) error {
			return by.Patch(w.t.Context(), after, client.MergeFrom(before))
		},
		"JSON patch": func(w *world, by client.Client, _, after aRelease) error {
			return by.Patch(w.t.Context(), after, client.RawPatch(types.JSONPatchType, metadataPatch(w.t, after)))
		},
		"apply": func(w *world, by client.Client, _, after aRelease) error { return serverSideApply(w, by, after) },
		"status": func(w *world, _ client.Client, _, after aRelease) error {
			return w.admin.Status().Update(w.t.Context(), after)
		},
	}
	for changed, change := range changes {
		for name, way := range ways {
			t.Run(changed+" by "+name, func(t *testing.T) {
				w := newWorld(t)
				w.create(w.user(bob), w.plan("plan", w.asking))
				mine, automated := w.release("mine"), w.release("automated", w.automated)
				w.create(w.user(alice), mine)
				w.create(w.user(integration), automated)
				for _, r := range []aRelease{mine, automated} {
					stored := reread(w, r)
					for _, by := range []string{alice, integration, robot} {
						after := reread(w, r)
						before := after.DeepCopy()
						change(w)(after)
						require.NoError(t, way(w, w.user(by), before, after))
						assert.Equal(t, w.record(stored), w.record(reread(w, r)), by)
					}
				}
			})
		}
	}
}

func TestWhoDecidesMayCopyTheStandingAuthor(t *testing.T) {
	w := newWorld(t)
	w.mayAll(alice)
	w.bind("ClusterRole", "countersign-release-manager", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: controllerAccount})
	w.create(w.user(bob), w.plan("plan", w.asking))
	r := w.release("release", w.automated)
	w.create(w.user(integration), r)
	name := func(person string) func(aRelease) {
		return func(r aRelease) {
			annotate(r, approvalv1alpha1.AnnotationAuthor, person)
			w.label(r, w.words.AuthorLabel, attribution.LabelValue(person))
		}
	}
	before := w.record(reread(w, r))
	require.NoError(t, edit(w, w.user(alice), r, name(bob)))
	assert.Equal(t, before, w.record(reread(w, r)), "every right in the namespace is not decide")
	require.NoError(t, edit(w, w.decider(), r, name(alice)))
	assert.Equal(t, before, w.record(reread(w, r)), "nobody else than who stands")

	require.NoError(t, edit(w, w.decider(), r, name(bob)))
	after := before
	after.author, after.authorLabel = bob, attribution.LabelValue(bob)
	assert.Equal(t, after, w.record(reread(w, r)))
	require.NoError(t, edit(w, w.decider(), r, name("")))
	assert.Equal(t, after, w.record(reread(w, r)), "once named he stays")
}

func TestS3_AnyNameIsKeptAndShown(t *testing.T) {
	w := newWorld(t)
	names := []string{
		"https://issuer.example.com/#sub", "CN=dev,O=corp", "with a space", "田中太郎", strings.Repeat("x", 300), "a:b", "a_b", "a.b", "A_b",
		"x\u202ey", `quote"d`, "-dash-", "alice+test@example.com",
	}
	values := map[string]string{}
	for i, name := range names {
		r := w.release("release-" + string(rune('a'+i)))
		w.create(w.user(name), r)
		got := w.record(reread(w, r))
		assert.Equal(t, name, got.author)
		assert.Empty(t, validation.IsValidLabelValue(got.authorLabel), name)
		assert.NotContains(t, values, got.authorLabel, "%s and %s share a label", name, values[got.authorLabel])
		values[got.authorLabel] = name

		p := w.plan("plan-"+string(rune('a'+i)), w.asking)
		w.create(w.user(name), p)
		w.stands(p, name)
	}
	assert.Equal(t, "a_b", values["a_b"])
}

func TestAReleaseKeepsWhatItStandsOnWhenThePlanChanges(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.asking)
	w.create(w.user(bob), p)
	r := w.release("release", w.automated)
	w.create(w.user(integration), r)
	before := w.record(reread(w, r))

	require.NoError(t, edit(w, w.user(alice), p, retarget("other")))
	require.NoError(t, edit(w, w.user(alice), r, func(r aRelease) { annotate(r, "example.com/noise", "x") }))
	assert.Equal(t, before, w.record(reread(w, r)))

	later := w.release("later", w.automated)
	w.create(w.user(integration), later)
	s := standing(t, reread(w, later))
	assert.Equal(t, alice, s.Author)
	assert.EqualValues(t, 2, s.Generation)
	require.NoError(t, edit(w, w.user(robot), p, retarget("robots")))
	last := w.release("last", w.automated)
	w.create(w.user(integration), last)
	assert.Empty(t, standing(t, reread(w, last)).Author, "nobody saw what the robot wrote")

	require.NoError(t, w.admin.Delete(t.Context(), p))
	anew := w.plan("plan", w.asking)
	w.create(w.user(robot), anew)
	after := w.release("after", w.automated)
	w.create(w.user(integration), after)
	s = standing(t, reread(w, after))
	assert.Equal(t, anew.UID, s.UID)
	assert.Empty(t, s.Author)
	assert.NotEqual(t, s.UID, standing(t, reread(w, r)).UID)
}

func TestAnExpiryIsFixedWithTheRelease(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.proposing(alice))
	w.create(w.user(robot), p)
	require.NoError(t, edit(w, w.user(alice), p, accepting("2120-01-01T00:00:00Z")))
	r := w.release("release", w.automated)
	w.create(w.user(integration), r)
	s := standing(t, reread(w, r))
	require.NotNil(t, s.ExpiresAt)
	assert.Equal(t, 2120, s.ExpiresAt.Year())
}

func TestOtherVocabularies(t *testing.T) {
	for _, vocabulary := range []string{attribution.VocabularyAppStudio, attribution.VocabularyAuthorization} {
		t.Run(vocabulary, func(t *testing.T) {
			w := newWorldWith(t, vocabulary)
			p := w.plan("plan", w.asking)
			w.create(w.user(bob), p)
			w.stands(p, bob)
			mine, automated := w.release("mine"), w.release("automated", w.automated)
			w.create(w.user(alice), mine)
			w.create(w.user(integration), automated)
			assert.Equal(t, attribution.LabelValue(alice), reread(w, mine).Labels[w.words.AuthorLabel])
			assert.Equal(t, bob, standing(t, reread(w, automated)).Author)
			refused(t, w.user(alice).Create(t.Context(), w.release("forged", w.automated)), w.words.AutomatedLabel)
			require.NoError(t, edit(w, w.user(robot), p, func(p plan) { p.Labels[w.words.StandingLabel] = "false" }))
			w.stands(p, "")

			ordinary := w.release("ordinary", func(r aRelease) { w.label(r, attribution.Default().AutomatedLabel, "true") })
			if attribution.Default().AutomatedLabel != w.words.AutomatedLabel {
				w.create(w.user(alice), ordinary)
				assert.Equal(t, alice, w.record(reread(w, ordinary)).author, "a word of another vocabulary says nothing")
			}
		})
	}
}
