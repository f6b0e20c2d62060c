package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// policyDenied begins what the API server says of every refusal by a policy of ours.
const policyDenied = "ValidatingAdmissionPolicy 'countersign-"

// tenant returns a client of a user who may do everything in the namespace, and nothing elsewhere.
func tenant(t testing.TB, namespace string) client.Client {
	t.Helper()
	user := "tenant-of-" + namespace
	bindRoleNamed(t, namespace, "tenant", user)
	return as(t, cluster.Config(user))
}

// bindClusterRole gives the user a shipped role, in the namespace or, if that is empty, everywhere.
func bindClusterRole(t testing.TB, namespace, user, role string) {
	t.Helper()
	admin := as(t, cluster.Admin())
	meta := metav1.ObjectMeta{GenerateName: role + "-", Namespace: namespace}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if namespace != "" {
		require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}))
		return
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), binding)) })
}

// controllerClient acts as the controller, with the rights that are shipped and no others.
func controllerClient(t testing.TB) client.Client {
	t.Helper()
	return impersonate(t, controllerUser, "system:serviceaccounts", "system:serviceaccounts:"+systemNamespace)
}

// refusedByPolicy asserts that one of our policies said no, in a sentence that holds the words.
func refusedByPolicy(t testing.TB, err error, words string) {
	t.Helper()
	if assert.ErrorContains(t, err, policyDenied) {
		assert.ErrorContains(t, err, words)
	}
}

// reread returns the object as it is stored.
func reread[T client.Object](t testing.TB, object T) T {
	t.Helper()
	stored := object.DeepCopyObject().(T)
	require.NoError(t, as(t, cluster.Admin()).Get(t.Context(), client.ObjectKeyFromObject(object), stored))
	return stored
}

// record is the creator record of an object.
func record(object client.Object) map[string]string {
	found := map[string]string{}
	for _, key := range []string{
		approvalv1alpha1.AnnotationCreatedBy, approvalv1alpha1.AnnotationCreatedFor, approvalv1alpha1.AnnotationChangedBy, approvalv1alpha1.AnnotationMigratedBy,
	} {
		if value, ok := object.GetAnnotations()[key]; ok {
			found[key[strings.Index(key, "/")+1:]] = value
		}
	}
	return found
}

// createdBy is the record of an object whose content is still its creator's.
func createdBy(user string) map[string]string {
	return map[string]string{"created-by": user, "changed-by": user}
}

// mergePatch is a JSON merge patch, which is what kubectl sends.
func mergePatch(json string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(json)) }

func foreign(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func pendingPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "main", Image: "registry.example.com/main"}},
			TerminationGracePeriodSeconds: new(int64),
		},
	}
}

func approvalRequest(namespace, name string) *approvalv1alpha1.ApprovalRequest {
	return &approvalv1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: approvalv1alpha1.ApprovalRequestSpec{Policies: []approvalv1alpha1.ApprovalPolicy{{
			Name: "owners", NumberOfApprovalsRequired: 1,
			Approvers: []approvalv1alpha1.Approver{{Type: approvalv1alpha1.ApproverUser, Name: "olga"}},
		}}},
	}
}

func checkRequest(namespace, name string) *approvalv1alpha1.ResourceCheckRequest {
	return &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{
				APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Namespace: namespace, Name: "harbor",
			},
			Reason: "promote 1.4.2",
		},
	}
}

func answerTo(check *approvalv1alpha1.ApprovalRequest, name string) *approvalv1alpha1.ApprovalResponse {
	return &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: check.Namespace, Name: name},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Kind: "ApprovalRequest", Name: check.Name, UID: check.UID},
			Decision:   approvalv1alpha1.DecisionApprove,
		},
	}
}

func ruleFor(namespace, name string) *approvalv1alpha1.ResourceCheckRule {
	return &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef:     approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Name: "harbor"},
			CheckTemplate: approvalv1alpha1.CheckTemplate{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "ApprovalRequest"},
		},
	}
}

// tenantToo is another user with the same rights as tenant.
func tenantToo(t testing.TB, namespace string) client.Client {
	t.Helper()
	user := "tenant-too-of-" + namespace
	bindRoleNamed(t, namespace, "tenant-too", user)
	return as(t, cluster.Config(user))
}

// bindRoleNamed lets the user, whose name need not be one of an object, do everything in the namespace.
func bindRoleNamed(t testing.TB, namespace, name, user string) {
	t.Helper()
	admin := as(t, cluster.Admin())
	require.NoError(t, admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}

// hashOf makes an object's name of any text.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

func kindOf(t testing.TB, object client.Object) schema.GroupVersionKind {
	t.Helper()
	kind, err := apiutil.GVKForObject(object, scheme)
	require.NoError(t, err)
	return kind
}
