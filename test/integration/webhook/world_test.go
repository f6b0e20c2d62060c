package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// world is a namespace with a connector of its own, and the people around it.
type world struct {
	t         testing.TB
	namespace string
	admin     client.Client
}

// newWorld makes a namespace in which connector harbor stands. Everybody is somebody: names of people end in the
// namespace's, so that tests do not meet.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, namespace: cluster.Namespace(t), admin: as(t, cluster.Admin())}
	require.NoError(t, w.admin.Create(t.Context(), harbor(w.namespace)))
	return w
}

func harbor(namespace string) *connectorsv1alpha1.Connector {
	return &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "harbor"},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "oci", Address: "https://harbor.example.com"},
	}
}

func (w *world) name(person string) string { return person + "@" + w.namespace }

// person may make requests and answers here, and use the connector.
func (w *world) person(name string, groups ...string) client.Client {
	w.t.Helper()
	w.allow(name, rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"create", "get", "list", "update", "patch"}})
	w.mayUse(w.name(name))
	return as(w.t, cluster.Config(w.name(name), groups...))
}

// tenant may do everything here, and nothing elsewhere.
func (w *world) tenant(name string) client.Client {
	w.t.Helper()
	w.allow(name, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	return as(w.t, cluster.Config(w.name(name)))
}

// allow gives a person rights in the namespace.
func (w *world) allow(person string, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	w.bind(rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: w.name(person)}, rules...)
}

func (w *world) bind(subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "role-"}, Rules: rules}
	require.NoError(w.t, w.admin.Create(w.t.Context(), role))
	require.NoError(w.t, w.admin.Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "binding-"}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}))
}

// mayUse lets a user, by full name, read and write through the connector.
func (w *world) mayUse(user string) {
	w.t.Helper()
	w.bind(rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}, rbacv1.PolicyRule{
		APIGroups: []string{connectorsv1alpha1.GroupVersion.Group}, Resources: []string{"connectors/apis"}, Verbs: []string{"read", "write"}})
}

// account makes a service account that may ask and use the connector.
func (w *world) account(name string) *corev1.ServiceAccount {
	w.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	require.NoError(w.t, w.admin.Create(w.t.Context(), account))
	w.bind(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: name},
		rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"resourcecheckrequests"}, Verbs: []string{"create", "get", "list"}})
	w.mayUse("system:serviceaccount:" + w.namespace + ":" + name)
	return account
}

// pod acts with the token of a pod.
func (w *world) pod(pod *corev1.Pod) client.Client {
	w.t.Helper()
	token, err := cluster.Token(w.t.Context(), w.namespace, pod.Spec.ServiceAccountName, "", pod)
	require.NoError(w.t, err)
	return as(w.t, cluster.Bearer(token))
}

// unbound acts with a token of the service account that belongs to no pod.
func (w *world) unbound(account string) client.Client {
	w.t.Helper()
	token, err := cluster.Token(w.t.Context(), w.namespace, account, "", nil)
	require.NoError(w.t, err)
	return as(w.t, cluster.Bearer(token))
}

// create makes an object as somebody.
func (w *world) create(by client.Client, object client.Object) {
	w.t.Helper()
	require.NoError(w.t, by.Create(w.t.Context(), object))
}

func (w *world) newPod(name, account string, owner client.Object) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: corev1.PodSpec{
		ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	own(pod, owner)
	return pod
}

func (w *world) newRun(kind, name, account string, owner client.Object) *unstructured.Unstructured {
	run := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"serviceAccountName": account}}}
	run.SetGroupVersionKind(schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: kind})
	run.SetNamespace(w.namespace)
	run.SetName(name)
	own(run, owner)
	return run
}

func own(object, owner client.Object) {
	if owner == nil {
		return
	}
	gvk := owner.GetObjectKind().GroupVersionKind()
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}})
}

// pipeline is a run that a person started, as Tekton makes its children.
type pipeline struct {
	run, task *unstructured.Unstructured
	pod       *corev1.Pod
}

func (w *world) pipeline(by client.Client, name, account string) *pipeline {
	w.t.Helper()
	tekton := w.tekton()
	p := &pipeline{run: w.newRun("PipelineRun", name, account, nil)}
	w.create(by, p.run)
	p.task = w.newRun("TaskRun", name+"-push", account, p.run)
	w.create(tekton, p.task)
	p.pod = w.newPod(name+"-push-pod", account, p.task)
	w.create(tekton, p.pod)
	return p
}

// tekton is Tekton's controller.
func (w *world) tekton() client.Client {
	return impersonate(w.t, tektonController, "system:masters", "system:serviceaccounts")
}

func as(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// impersonate returns a client of the user, whatever the name, in these groups.
func impersonate(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return as(t, config)
}

// newRequest asks for connector harbor.
func newRequest(namespace, object string) *approvalv1alpha1.ResourceCheckRequest {
	return &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: approvalv1alpha1.ReservedNamePrefix},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Name: object},
			Reason:    "promote 1.4.2",
		},
	}
}

func (w *world) request(edits ...func(*approvalv1alpha1.ResourceCheckRequest)) *approvalv1alpha1.ResourceCheckRequest {
	r := newRequest(w.namespace, "harbor")
	for _, edit := range edits {
		edit(r)
	}
	return r
}

// forRun names a run, and the service account if one is given.
func forRun(run *unstructured.Unstructured, account string) func(*approvalv1alpha1.ResourceCheckRequest) {
	return func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context.Resource = &approvalv1alpha1.ObjectReference{APIVersion: run.GetAPIVersion(), Kind: run.GetKind(), Name: run.GetName()}
		if account != "" {
			r.Spec.Context.Subject = &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Name: account}
		}
	}
}

// setStatus writes a status as the controller may.
func (w *world) setStatus(r *approvalv1alpha1.ResourceCheckRequest, edit func(*approvalv1alpha1.ResourceCheckRequestStatus)) {
	w.t.Helper()
	stored := &approvalv1alpha1.ResourceCheckRequest{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(r), stored))
	edit(&stored.Status)
	require.NoError(w.t, w.admin.Status().Update(w.t.Context(), stored))
}

func reread[T client.Object](w *world, object T) T {
	w.t.Helper()
	stored := object.DeepCopyObject().(T)
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(object), stored))
	return stored
}

// refused asserts that our webhook said no, with the words.
func refused(t testing.TB, err error, words string) {
	t.Helper()
	if assert.ErrorContains(t, err, "admission webhook") {
		assert.ErrorContains(t, err, words)
	}
}

// eventually waits until the condition returns no error.
func eventually(t testing.TB, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waited in vain: %v", last)
	}
}

// warnings collects what the API server warns a client of.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return strings.Join(texts, "\n")
}

// warned returns a client of the person and what it is warned of.
func (w *world) warned(person string) (client.Client, *warnings) {
	w.t.Helper()
	collected := &warnings{}
	config := cluster.Config(w.name(person))
	config.WarningHandler = collected
	return as(w.t, config), collected
}

// isConflict tells of a name that is taken, and by whom.
func isConflict(err error, name string) error {
	if err == nil || !strings.Contains(err.Error(), name) {
		return fmt.Errorf("want a refusal that names %s: %w", name, err)
	}
	return nil
}
