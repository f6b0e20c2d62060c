package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const approvedStatus = `{"status":{"state":"approved","conditions":[{"type":"Ready","status":"True","reason":"AllChecksApproved","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

// guardedObjects are one object of each of our namespaced kinds with a status, made by whoever may.
func guardedObjects(t *testing.T, namespace string) map[string]client.Object {
	t.Helper()
	objects := map[string]client.Object{
		"ResourceCheckRequest": checkRequest(namespace, "guarded"),
		"ResourceCheckRule":    ruleFor(namespace, "guarded"),
		"ApprovalRequest":      approvalRequest(namespace, "guarded"),
		"ScriptCheck": &approvalv1alpha1.ScriptCheck{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "guarded"},
			Spec:       approvalv1alpha1.ScriptCheckSpec{Expression: "true"},
		},
		"TimeWindowCheck": &approvalv1alpha1.TimeWindowCheck{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "guarded"},
			Spec:       approvalv1alpha1.TimeWindowCheckSpec{Windows: []approvalv1alpha1.TimeWindow{{From: "09:00", To: "17:00"}}},
		},
		"Connector": &connectorsv1alpha1.Connector{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "guarded"},
			Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: "https://tool.example.com"},
		},
	}
	for _, object := range objects {
		require.NoError(t, as(t, cluster.Admin()).Create(t.Context(), object))
	}
	return objects
}

func TestS5_OnlyHoldersOfDecideWriteStatuses(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody, controller := tenant(t, namespace), controllerClient(t)
	writes := map[string]func(object client.Object) error{
		"patch": func(object client.Object) error {
			return somebody.Status().Patch(t.Context(), object, mergePatch(approvedStatus))
		},
		"update": func(object client.Object) error { return somebody.Status().Update(t.Context(), reread(t, object)) },
		"server-side apply": func(object client.Object) error {
			kind := kindOf(t, object)
			applied := foreign(kind.GroupVersion().String(), kind.Kind, namespace, "guarded")
			applied.Object["status"] = map[string]any{"observedGeneration": int64(7)}
			return somebody.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("mallory"), client.ForceOwnership)
		},
	}
	for kind, object := range guardedObjects(t, namespace) {
		before := statusOf(t, object)
		for write, by := range writes {
			t.Run(kind+" by "+write, func(t *testing.T) {
				refusedByPolicy(t, by(object), "written by the approval controller alone")
				assert.Equal(t, before, statusOf(t, object))
			})
		}
		t.Run(kind+" by main resource", func(t *testing.T) {
			require.NoError(t, somebody.Patch(t.Context(), object, mergePatch(`{"status":{"observedGeneration":7,"state":"approved"}}`)))
			assert.Equal(t, before, statusOf(t, object), "the status is no part of the main resource")
		})
		t.Run(kind+" by the controller", func(t *testing.T) {
			require.NoError(t, controller.Status().Patch(t.Context(), object, mergePatch(`{"status":{"observedGeneration":7}}`)))
			assert.NotEqual(t, before, statusOf(t, object))
		})
	}
}

// Whatever RBAC conveys inside a namespace conveys no verb that is checked without one.
func TestS5_NoRoleInANamespaceConveysDecide(t *testing.T) {
	namespace := cluster.Namespace(t)
	object := checkRequest(namespace, "asked")
	require.NoError(t, as(t, cluster.Admin()).Create(t.Context(), object))
	user := "named-in-" + namespace
	admin := as(t, cluster.Admin())
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "decide-here"}
	require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{approvalv1alpha1.AuthorityGroup}, Resources: []string{"*"}, Verbs: []string{"decide", "purge", "mint"}},
		{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	bindClusterRole(t, namespace, user, "cluster-admin") // by a RoleBinding: everything, here
	somebody := as(t, cluster.Config(user))
	refusedByPolicy(t, somebody.Status().Patch(t.Context(), object, mergePatch(approvedStatus)), "written by the approval controller alone")

	decider := "decider-of-" + namespace
	bindClusterRole(t, namespace, decider, "cluster-admin")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "decide-" + namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{approvalv1alpha1.AuthorityGroup}, Resources: []string{"checks"}, Verbs: []string{"decide"}},
	}}
	require.NoError(t, admin.Create(t.Context(), role))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), role)) })
	bindClusterRole(t, "", decider, role.Name)
	eventually(t, func(ctx context.Context) error {
		return as(t, cluster.Config(decider)).Status().Patch(ctx, object, mergePatch(`{"status":{"observedGeneration":7}}`))
	})
}

func TestS5_TheStatusOfAForeignCheckIsGuarded(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody, controller := tenant(t, namespace), controllerOfInspections(t)
	writer := "system:serviceaccount:" + namespace + ":inspector"
	bindRoleNamed(t, namespace, "writer", writer)
	registerInspections(t, writer)

	check := inspection(namespace, "check")
	require.NoError(t, controller.Create(t.Context(), check))
	unlabelled := foreign("checks.example.com/v1", "Inspection", namespace, "unlabelled")
	require.NoError(t, somebody.Create(t.Context(), unlabelled))

	eventually(t, func(ctx context.Context) error { // the CheckKind reaches the API server's policies by a watch
		return impersonate(t, writer).Status().Patch(ctx, check, mergePatch(`{"status":{"state":"pending"}}`))
	})
	refusedByPolicy(t, somebody.Status().Patch(t.Context(), check, mergePatch(approvedStatus)), "the writers of its CheckKind alone")
	require.NoError(t, controller.Status().Patch(t.Context(), check, mergePatch(`{"status":{"state":"pending"}}`)))
	require.NoError(t, somebody.Status().Patch(t.Context(), unlabelled, mergePatch(approvedStatus)), "what is no check is none of our business")
	refusedByPolicy(t, somebody.Status().Patch(t.Context(), check, mergePatch(`{"metadata":{"labels":null},"status":{"state":"approved"}}`)), "the writers of its CheckKind alone")
	state, _, _ := unstructured.NestedString(reread(t, check).Object, "status", "state")
	assert.Equal(t, "pending", state)

	// Writers of another kind's checks are nobody here, nor are ours there.
	built := approvalRequest(namespace, "built-in")
	built.Labels = map[string]string{approvalv1alpha1.LabelRequestUID: "1"}
	require.NoError(t, controllerClient(t).Create(t.Context(), built))
	refusedByPolicy(t, impersonate(t, writer).Status().Patch(t.Context(), built, mergePatch(approvedStatus)), "written by the approval controller alone")
	require.NoError(t, controllerClient(t).Status().Patch(t.Context(), built, mergePatch(`{"status":{"observedGeneration":7}}`)))
}

// registerInspections registers the foreign kind for the test.
func registerInspections(t *testing.T, writers ...string) {
	t.Helper()
	admin := as(t, cluster.Admin())
	kind := &approvalv1alpha1.CheckKind{
		ObjectMeta: metav1.ObjectMeta{Name: "inspection.checks.example.com"},
		Spec:       approvalv1alpha1.CheckKindSpec{APIVersion: "checks.example.com/v1", Kind: "Inspection", Writers: writers},
	}
	require.NoError(t, admin.Create(t.Context(), kind))
	t.Cleanup(func() { assert.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), kind))) })
}

// controllerOfInspections is the controller with the rights on the foreign kind, granted as the documentation says.
func controllerOfInspections(t *testing.T) client.Client {
	t.Helper()
	admin := as(t, cluster.Admin())
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "inspections", Labels: map[string]string{"approval.alaudadevops.io/aggregate-to-checks": "true"}},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"checks.example.com"}, Resources: []string{"inspections", "inspections/status"},
			Verbs: []string{"create", "delete", "get", "list", "watch", "patch", "update"},
		}},
	}
	if err := admin.Create(t.Context(), role); !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	controller := controllerClient(t)
	eventually(t, func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("checks.example.com/v1")
		list.SetKind("InspectionList")
		return controller.List(ctx, list, client.InNamespace(systemNamespace))
	})
	return controller
}

func inspection(namespace, name string) *unstructured.Unstructured {
	check := foreign("checks.example.com/v1", "Inspection", namespace, name)
	check.SetLabels(map[string]string{approvalv1alpha1.LabelRequestUID: "33333333-3333-3333-3333-333333333333"})
	check.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationContext: `{"rule":"prod"}`})
	check.Object["spec"] = map[string]any{"text": "may it?"}
	return check
}

func statusOf(t *testing.T, object client.Object) string {
	t.Helper()
	kind := kindOf(t, object)
	stored := reread(t, foreign(kind.GroupVersion().String(), kind.Kind, object.GetNamespace(), object.GetName()))
	return fmt.Sprint(stored.Object["status"])
}
