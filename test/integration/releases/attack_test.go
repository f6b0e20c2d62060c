package releases

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// elsewhere is a second way into the managed namespace, with another pipeline.
func (w *world) elsewhere() {
	w.t.Helper()
	w.create(w.admin, &releasev1alpha1.ReleasePlanAdmission{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.managed, Name: "elsewhere"},
		Spec: releasev1alpha1.ReleasePlanAdmissionSpec{
			Applications: []string{"another"}, Origin: w.tenant,
			Pipeline: &releasev1alpha1.Pipeline{PipelineRef: releasev1alpha1.PipelineRef{Name: "push"}, ServiceAccountName: "another"},
		},
	})
}

// relabel points the plan at another admission, which no generation tells of.
func (w *world) relabel(by client.Client, plan *releasev1alpha1.ReleasePlan, to string) {
	w.t.Helper()
	patch := []byte(`{"metadata":{"labels":{"` + words.AdmissionLabel + `":"` + to + `"}}}`)
	require.NoError(w.t, by.Patch(w.t.Context(), plan, client.RawPatch(types.MergePatchType, patch)))
}

func TestS4_AnAcceptedPlanIsNotPointedElsewhere(t *testing.T) {
	w := newWorld(t)
	w.elsewhere()
	plan := w.plan(w.person(w.alice), standing)
	w.relabel(w.account(w.tenant, "gitops"), plan, "elsewhere")
	assert.Empty(t, plan.Annotations[approvalv1alpha1.AnnotationAuthor], "alice stood for the way that she saw")

	release := w.release(w.account(integrationNamespace, integrationAccount), automated)
	w.says(release, released, "False Failed")
	assert.Contains(t, told(release, validated), "nobody stood for the ReleasePlan prod then")
	assert.Empty(t, w.runs())
}

func TestS4_AReleaseThatWaitsIsNotPointedElsewhere(t *testing.T) {
	for name, by := range map[string]func(w *world) *releasev1alpha1.Release{
		"for who stands": func(w *world) *releasev1alpha1.Release {
			return w.release(w.account(integrationNamespace, integrationAccount), automated)
		},
		"for its author": func(w *world) *releasev1alpha1.Release { return w.release(w.person(w.alice)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.elsewhere()
			plan := w.plan(w.person(w.alice), standing)
			w.peopleRule()
			release := by(w)
			w.says(release, validated, "from group owners")
			w.relabel(w.account(w.tenant, "gitops"), plan, "elsewhere")
			w.says(release, released, "False Failed")
			assert.Contains(t, told(release, validated), "another ReleasePlanAdmission")
			assert.Empty(t, w.runs())
		})
	}
}

func TestS2_WhatIsReleasedCannotBeChangedUnderItsAuthor(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	release := w.release(alice, func(r *releasev1alpha1.Release) {
		r.Spec.Data = &runtime.RawExtension{Raw: []byte(`{"image":"shop@sha256:1","tags":["1.4"]}`)}
	})
	robot := w.account(w.tenant, "gitops")
	for name, patch := range map[string]string{
		"changed": `{"spec":{"data":{"image":"evil"}}}`,
		"added":   `{"spec":{"data":{"more":true}}}`,
		"removed": `{"spec":{"data":null}}`,
	} {
		err := robot.Patch(t.Context(), release.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		assert.ErrorContains(t, err, "create another Release", name)
	}
	// A tool that knows only the fields of its own sends the rest as it was.
	require.NoError(t, robot.Patch(t.Context(), release.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"a"}}}`))))
}

// A status that comes with a new Release is dropped, so nothing is verified by a copy.
func TestS1_AStatusThatIsSentWithAReleaseDoesNotCount(t *testing.T) {
	w := newWorld(t)
	sso.leaves(w.alice)
	alice := w.person(w.alice)
	w.plan(alice)
	release := w.release(alice, func(r *releasev1alpha1.Release) {
		at := metav1.Now()
		r.Status.Attribution = &releasev1alpha1.Attribution{Author: w.alice, Verified: true, VerifiedAt: &at}
		r.Status.ManagedProcessing = &releasev1alpha1.PipelineInfo{PipelineRun: w.managed + "/mine"}
	})
	assert.Nil(t, release.Status.Attribution)
	w.says(release, released, "False Failed")
	assert.Empty(t, w.runs())
}

// The owners are asked again, and approve. But whoever made the Release has seen another plan, and would be named for this
// one.
func TestS4_AReleaseThatWaitsIsNotRetargetedUnderItsAuthor(t *testing.T) {
	w, there := newWorld(t), newWorld(t)
	w.create(w.admin, &releasev1alpha1.ReleasePlanAdmission{
		ObjectMeta: metav1.ObjectMeta{Namespace: there.managed, Name: "for-robots"},
		Spec: releasev1alpha1.ReleasePlanAdmissionSpec{
			Applications: []string{"shop"}, Origin: w.tenant,
			Pipeline: &releasev1alpha1.Pipeline{PipelineRef: releasev1alpha1.PipelineRef{Name: "push"}},
		},
	})
	plan := w.plan(w.person(w.alice))
	w.peopleRule()
	release := w.release(w.person(w.alice))
	w.says(release, validated, "from group owners")
	robot := w.account(w.tenant, "gitops")
	require.NoError(t, robot.Patch(t.Context(), plan, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"target":"`+there.managed+`"}}`))))
	w.says(release, released, "False Failed")
	assert.Contains(t, told(release, validated), "was changed after Release")
	assert.Equal(t, w.alice, release.Status.Attribution.Author)
	assert.Empty(t, w.runs())
	assert.Empty(t, there.runs())
}
