package attribution

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

func decode(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// release makes a Release of to-prod as the user.
func (w *world) release(user, name string, edit ...func(*releasev1alpha1.Release)) *releasev1alpha1.Release {
	w.t.Helper()
	release := &releasev1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: name},
		Spec:       releasev1alpha1.ReleaseSpec{ReleasePlan: "to-prod", Snapshot: "shop-1"},
	}
	for _, e := range edit {
		e(release)
	}
	w.create(trusted(w.t, user), release)
	return release
}

// admission lets Releases of the owners' namespace in, so that they come as far as their checks.
func (w *world) admission() {
	w.t.Helper()
	pipeline := &unstructured.Unstructured{}
	pipeline.SetAPIVersion("tekton.dev/v1")
	pipeline.SetKind("Pipeline")
	pipeline.SetNamespace(w.owners)
	pipeline.SetName("push")
	w.create(w.admin, pipeline)
	w.create(w.admin, &releasev1alpha1.ReleasePlanAdmission{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "prod"},
		Spec: releasev1alpha1.ReleasePlanAdmissionSpec{
			Applications: []string{"shop"}, Origin: w.owners,
			Pipeline: &releasev1alpha1.Pipeline{PipelineRef: releasev1alpha1.PipelineRef{Name: "push"}},
		},
	})
}

// askForRelease is what our controller asks.
func (w *world) askForRelease(release, plan string) *approvalv1alpha1.ResourceCheckRequest {
	return &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "mine-" + release},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: "appstudio.redhat.com/v1alpha1", Kind: "ReleasePlan", Name: plan},
			Context:   approvalv1alpha1.RequestContext{Resource: &approvalv1alpha1.ObjectReference{APIVersion: "appstudio.redhat.com/v1alpha1", Kind: "Release", Name: release}},
			Reason:    "let me",
		},
	}
}

// of finds the request that our controller made for a Release.
func (w *world) of(release *releasev1alpha1.Release) *approvalv1alpha1.ResourceCheckRequest {
	w.t.Helper()
	var found *approvalv1alpha1.ResourceCheckRequest
	eventually(w.t, func(ctx context.Context) error {
		var list approvalv1alpha1.ResourceCheckRequestList
		if err := w.admin.List(ctx, &list, client.InNamespace(w.owners)); err != nil {
			return err
		}
		for i := range list.Items {
			if ref := list.Items[i].Spec.Context.Resource; ref != nil && ref.UID == release.UID {
				found = &list.Items[i]
				return nil
			}
		}
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(release), release); err != nil {
			return err
		}
		return fmt.Errorf("nobody asked for %s yet: %+v", release.Name, release.Status)
	})
	return found
}

func TestAReleaseIsAskedForByTheControllerOnly(t *testing.T) {
	staff.knows("heidi@example.com", "Heidi")
	w := newWorld(t)
	w.admission()
	w.plan("heidi@example.com", w.owners)
	release := w.release("heidi@example.com", "rel-1")
	request := w.of(release)
	assert.Equal(t, "heidi@example.com", request.Spec.Context.Subject.Name)
	assert.Equal(t, controllerUser, request.Spec.RequestedBy.Username)
	status := w.answered(request, w.owners, duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
	assert.Equal(t, "heidi@example.com", status.Author.Username)

	// The tenant holds every right there is in his namespace.
	const tenant = "tenant@example.com"
	w.create(w.admin, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	})
	w.create(w.admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "everything"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "everything"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: tenant}},
	})
	eventually(t, func(ctx context.Context) error {
		return acting(t, tenant).List(ctx, &releasev1alpha1.ReleaseList{}, client.InNamespace(w.owners))
	})
	err := acting(t, tenant).Create(t.Context(), w.askForRelease("rel-1", "to-prod"))
	assert.True(t, apierrors.IsForbidden(err), err)
	assert.ErrorContains(t, err, "only Countersign's controller asks for Releases")

	err = controllerItself(t).Create(t.Context(), w.askForRelease("rel-1", "another"))
	assert.ErrorContains(t, err, `is released by the ReleasePlan "to-prod" of its namespace: ask for that one`)
}

func TestAnAutomatedReleaseIsTheOneWhoStandsForItsPlan(t *testing.T) {
	staff.knows("ivan@example.com", "Ivan")
	w := newWorld(t)
	w.admission()
	w.plan("ivan@example.com", w.owners)
	w.create(w.admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "integration-service"}})
	w.create(w.admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "integration-service", Name: "controller"}})
	release := w.release(integration, "rel-1", func(r *releasev1alpha1.Release) {
		r.Labels = map[string]string{"release.rhtap.openshift.io/automated": "true"}
	})
	request := w.of(release)
	assert.Equal(t, approvalv1alpha1.SubjectServiceAccount, request.Spec.Context.Subject.Kind)
	status := w.answered(request, w.owners, duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
	assert.Equal(t, "ivan@example.com", status.Author.Username)
	assert.Equal(t, approvalv1alpha1.SourceStanding, status.Source)

	var checks approvalv1alpha1.AttributionCheckList
	require.NoError(t, w.admin.List(t.Context(), &checks, client.InNamespace(w.owners)))
	require.Len(t, checks.Items, 1)
	assert.Equal(t, "ivan@example.com", checks.Items[0].Spec.Request.Person)
	assert.Subset(t, checks.Items[0].Spec.Request.Excluded, []string{"ivan@example.com", integration})
}

func TestTwoHundredReleasesAtOnceAskTheDirectoryOnce(t *testing.T) {
	const many = 200
	staff.knows("judy@example.com", "Judy")
	w := newWorld(t)
	w.admission()
	// Somebody else stands for the plan, so that the plan's own check asks for nobody whom this test counts.
	staff.knows("kim@example.com", "Kim")
	w.plan("kim@example.com", w.owners)
	for i := range many {
		w.release("judy@example.com", fmt.Sprintf("rel-%d", i))
	}
	eventually(t, func(ctx context.Context) error {
		var checks approvalv1alpha1.AttributionCheckList
		if err := w.admin.List(ctx, &checks, client.InNamespace(w.owners)); err != nil {
			return err
		}
		approved := 0
		for i := range checks.Items {
			if checks.Items[i].Status.State == duckv1alpha1.CheckApproved {
				approved++
			}
		}
		if approved != many {
			return fmt.Errorf("%d of %d checks are approved", approved, len(checks.Items))
		}
		return nil
	})
	assert.Equal(t, 1, staff.lookups("judy@example.com"))
}
