package e2e

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/chain"
	"github.com/AlaudaDevops/countersign/pkg/proxy/accesslog"
	"github.com/AlaudaDevops/countersign/test/env"
)

// logWorld is an API server that logs whole objects, with nothing of Countersign but its kinds: what the log tells does
// not rest on records.
type logWorld struct {
	*testing.T
	cluster *env.Cluster
	admin   client.Client
}

func newLogWorld(t *testing.T) *logWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cluster, err := env.Start(ctx, env.WithAudit(auditv1.LevelRequestResponse), env.WithControllers("none"),
		env.WithCRDs("../../config/crd/bases", "../integration/testdata/foreign-kinds.yaml"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Stop()) })
	w := &logWorld{T: t, cluster: cluster}
	w.admin = w.as(cluster.Admin())
	for _, ns := range []string{"team-a", "prod", "tekton-pipelines", "countersign-system"} {
		w.create(w.admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	for ns, name := range map[string]string{"team-a": "pipeline", "tekton-pipelines": "tekton-pipelines-controller", "countersign-system": "countersign-controller"} {
		w.create(w.admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	// Who may do what is not what is tested here.
	w.create(w.admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everybody"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{group("system:authenticated")},
	})
	return w
}

func (w *logWorld) as(config *rest.Config) client.Client {
	w.Helper()
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	require.NoError(w, err)
	return c
}

func (w *logWorld) person(email string) client.Client {
	w.Helper()
	config, err := w.cluster.Person(email)
	require.NoError(w, err)
	return w.as(config)
}

func (w *logWorld) account(namespace, name string, pod *corev1.Pod) client.Client {
	w.Helper()
	token, err := w.cluster.Token(w.Context(), namespace, name, "", pod)
	require.NoError(w, err)
	return w.as(w.cluster.Bearer(token))
}

// create waits for rights and kinds that were made a moment ago.
func (w *logWorld) create(as client.Client, o client.Object) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		last = as.Create(ctx, o)
		return last == nil, nil
	})
	require.NoErrorf(w, err, "the API server does not take %T: %v", o, last)
}

func (w *logWorld) run(as client.Client, kind, name string, owner client.Object) *unstructured.Unstructured {
	w.Helper()
	o := tektonObject(kind, "team-a", name, map[string]any{})
	if owner != nil {
		o.SetOwnerReferences(ownedBy(owner))
	}
	w.create(as, o)
	return o
}

func (w *logWorld) pod(as client.Client, owner client.Object) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", GenerateName: owner.GetName() + "-", OwnerReferences: ownedBy(owner)},
		Spec:       corev1.PodSpec{ServiceAccountName: "pipeline", Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
	w.create(as, pod)
	return pod
}

// ask asks as the pod. What Countersign's admission would fill in is given, because nothing of it runs here.
func (w *logWorld) ask(pod *corev1.Pod, run *unstructured.Unstructured) *approvalv1alpha1.ResourceCheckRequest {
	w.Helper()
	request := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", GenerateName: "rcr-"},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Namespace: "prod", Name: "tool"},
			Context: approvalv1alpha1.RequestContext{
				Subject:  &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: "team-a", Name: "pipeline"},
				Pod:      &approvalv1alpha1.PodReference{Namespace: "team-a", Name: pod.Name, UID: pod.UID},
				Resource: &approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Namespace: "team-a", Name: run.GetName(), UID: run.GetUID()},
			},
			Reason: "promote",
		},
	}
	w.create(w.account("team-a", "pipeline", pod), request)
	return request
}

// check asks the owners, as the controller does, and says so in the request's status.
func (w *logWorld) check(request *approvalv1alpha1.ResourceCheckRequest, rule *approvalv1alpha1.ResourceCheckRule) *approvalv1alpha1.ApprovalRequest {
	w.Helper()
	controller := w.account("countersign-system", "countersign-controller", nil)
	check := &approvalv1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "owners-1", Labels: map[string]string{approvalv1alpha1.LabelRequestUID: string(request.UID)}},
		Spec: approvalv1alpha1.ApprovalRequestSpec{Policies: []approvalv1alpha1.ApprovalPolicy{{
			Name: "owners", NumberOfApprovalsRequired: 1, Approvers: []approvalv1alpha1.Approver{{Type: approvalv1alpha1.ApproverGroup, Name: "prod-owners"}},
		}}},
	}
	w.create(controller, check)
	request.Status.Rules = []approvalv1alpha1.RuleSnapshot{{
		Name: rule.Name, UID: rule.UID, Generation: rule.Generation, Spec: rule.Spec, LastAuthor: "owner1@example.com",
	}}
	request.Status.RequestRefs = []approvalv1alpha1.CheckReference{{
		Name: rule.Name, APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ApprovalRequest", Namespace: "prod", ObjectName: check.Name, UID: check.UID,
	}}
	require.NoError(w, controller.Status().Update(w.Context(), request))
	return check
}

// accessLog is what the proxy would write of one use.
func (w *logWorld) accessLog(pod *corev1.Pod, run client.Object, request *approvalv1alpha1.ResourceCheckRequest) string {
	w.Helper()
	entry := accesslog.Entry{
		Time: time.Now(), ID: "1", Verdict: "allow", Reason: approvalv1alpha1.ReasonAllChecksApproved, Namespace: "prod", Name: "tool",
		Subject: "system:serviceaccount:team-a:pipeline", PodUID: string(pod.UID),
		Context:          &accesslog.Object{Group: "tekton.dev", Kind: "PipelineRun", Namespace: "team-a", Name: run.GetName(), UID: string(run.GetUID())},
		RequestNamespace: request.Namespace, RequestName: request.Name, Operation: "Write", Method: "PUT", Path: "/app", Status: 200,
	}
	path := filepath.Join(w.TempDir(), "access.log")
	require.NoError(w, os.WriteFile(path, entry.Append(nil), 0o600))
	return path
}

// rotated splits the audit log as rotation does: the older half compressed.
func (w *logWorld) rotated() string {
	w.Helper()
	raw, err := os.ReadFile(filepath.Join(w.cluster.StateDir(), "logs", "audit.log"))
	require.NoError(w, err)
	half := len(raw) / 2
	for raw[half-1] != '\n' {
		half++
	}
	dir := w.TempDir()
	require.NoError(w, os.WriteFile(filepath.Join(dir, "audit.log"), raw[half:], 0o600))
	file, err := os.Create(filepath.Join(dir, "audit-1.log.gz"))
	require.NoError(w, err)
	packed := gzip.NewWriter(file)
	_, err = packed.Write(raw[:half])
	require.NoError(w, errors.Join(err, packed.Close(), file.Close()))
	return filepath.Join(dir, "audit*")
}

func TestChainFromTheAuditLogAlone(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t)
	alice, tekton := w.person("alice@example.com"), w.account("tekton-pipelines", "tekton-pipelines-controller", nil)
	acting := w.cluster.Admin()
	acting.Impersonate = rest.ImpersonationConfig{UserName: tektonController, Groups: []string{"system:masters"}}
	rule := &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "owners"},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef:     approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Name: "tool"},
			CheckTemplate: approvalv1alpha1.CheckTemplate{APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ApprovalRequest"},
		},
	}
	w.create(w.person("owner1@example.com"), rule)

	first := w.run(alice, "PipelineRun", "release", nil)
	task := w.run(tekton, "TaskRun", "release-push", first)
	pod := w.pod(tekton, task)
	w.run(w.as(acting), "TaskRun", "release-acted", first)
	w.run(w.person("eve@example.com"), "TaskRun", "release-forged", first)
	request := w.ask(pod, first)
	check := w.check(request, rule)
	w.create(w.person("owner2@example.com"), &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", GenerateName: "answer-"},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Kind: "ApprovalRequest", Name: check.Name, UID: check.UID}, Decision: approvalv1alpha1.DecisionApprove,
		},
	})
	access := w.accessLog(pod, first, request)
	require.NoError(t, alice.Delete(t.Context(), first))
	second := w.run(w.person("bob@example.com"), "PipelineRun", "release", nil)
	files := []string{"-n", "team-a", "--audit-log", w.rotated(), "--access-log", access, "-o", "json"}
	of := func(uid types.UID, args ...string) told {
		return readChain(t, offline(t, append(append(args, files...), "pipelinerun/release", "--uid", string(uid))...))
	}

	rcr := "resourcecheckrequest/" + request.Name
	up := []expected{
		{"alice@example.com", chain.RelationCreated, "pipelinerun/release", chain.Authenticated, ""},
		{"pipelinerun/release", chain.RelationCaused, "taskrun/release-push", chain.Authenticated, ""},
		{tektonController, chain.RelationCreated, "taskrun/release-push", chain.Authenticated, ""},
		{"taskrun/release-push", chain.RelationCaused, "pod/" + pod.Name, chain.Authenticated, ""},
		{tektonController, chain.RelationCreated, "pod/" + pod.Name, chain.Authenticated, ""},
		{"pod/" + pod.Name, chain.RelationAsked, rcr, chain.Authenticated, ""},
		{"system:serviceaccount:team-a:pipeline", chain.RelationRequested, rcr, chain.Authenticated, ""},
		{"owner1@example.com", chain.RelationWrote, "resourcecheckrule/owners", chain.Authenticated, ""},
		{rcr, chain.RelationUsed, "PUT /app at connector prod/tool", chain.Authenticated, ""},
		{"alice@example.com", chain.RelationDeleted, "pipelinerun/release", chain.Authenticated, ""},
	}
	fromPod := readChain(t, offline(t, append(files, "pod/"+pod.Name)...))
	fromPod.holds(up...)
	fromPod.lacks("bob@example.com")
	fromPod.lacks("eve@example.com")
	answered := 0
	for i := range fromPod.Links {
		if l := &fromPod.Links[i]; l.Relation == chain.RelationGave {
			answered++
			assert.Equal(t, "owner2@example.com", fromPod.known(l.From))
			assert.Equal(t, chain.Authenticated, l.Grade)
		}
	}
	assert.Equal(t, 1, answered)

	tree := of(first.GetUID(), "--tree")
	tree.holds(up...)
	tree.holds(
		expected{administrator, chain.RelationCreated, "taskrun/release-acted", chain.Asserted, tektonController},
		expected{"pipelinerun/release", chain.RelationCaused, "taskrun/release-acted", chain.Asserted, ""},
		expected{"eve@example.com", chain.RelationCreated, "taskrun/release-forged", chain.Authenticated, ""},
		expected{"pipelinerun/release", chain.RelationCaused, "taskrun/release-forged", chain.Asserted, ""},
	)
	other := of(second.GetUID(), "--tree")
	assert.Equal(t, []string{fmt.Sprint(expected{"bob@example.com", chain.RelationCreated, "pipelinerun/release", chain.Authenticated, ""})}, other.links())

	last := readChain(t, offline(t, append(files, "pipelinerun/release")...))
	assert.Equal(t, string(second.GetUID()), last.Target)
	notes, err := json.Marshal(last.Notes)
	require.NoError(t, err)
	assert.Contains(t, string(notes), string(first.GetUID()), "the other one of the name is told")
}
