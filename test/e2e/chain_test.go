package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	"github.com/AlaudaDevops/countersign/pkg/chain"
	"github.com/AlaudaDevops/countersign/test/env"
)

const (
	tektonController = "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller"
	administrator    = "kubernetes-admin"
)

// twoOwners is a template that asks for two answers.
const twoOwners = `{"policies":[{"name":"owners","approvers":[{"type":"Group","name":"prod-owners"}],"numberOfApprovalsRequired":2}]}`

// The files that the environment writes.
func auditLog() string  { return filepath.Join(plane.dir, "logs", "audit.log") }
func accessLog() string { return filepath.Join(plane.dir, "logs", "access.log") }
func archived() string  { return filepath.Join(plane.dir, "archive.jsonl") }

// told is a chain as the command line told it.
type told struct {
	testing.TB
	*chain.Chain
}

func readChain(t testing.TB, r ran) told {
	t.Helper()
	c := &chain.Chain{}
	require.NoErrorf(t, json.Unmarshal([]byte(r.succeeds(t).output), c), "%s", r.output)
	return told{t, c}
}

// tellChain asks the cluster and the logs, as the administrator.
func tellChain(t testing.TB, args ...string) told {
	t.Helper()
	args = append([]string{"chain"}, args...)
	return readChain(t, cli(t, "admin", append(args, "--audit-log", auditLog(), "--access-log", accessLog(), "-o", "json")...))
}

// offline asks files, with no cluster to turn to.
func offline(t testing.TB, args ...string) ran {
	t.Helper()
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	return program(t, []string{"KUBECONFIG=" + nowhere}, "kubectl-countersign", append([]string{"chain", "--offline"}, args...)...)
}

// expected is a link by what people know its ends as: user names, kind/name, the start of a use.
type expected struct {
	from     string
	relation chain.Relation
	to       string
	grade    chain.Grade
	through  string
}

func (c told) known(id string) string {
	n := c.Node(id)
	require.NotNil(c, n, "every link has its nodes")
	switch n.Type {
	case chain.NodeUser:
		return n.Name
	case chain.NodeUse:
		return n.Text
	}
	return strings.ToLower(n.Kind) + "/" + n.Name
}

func (c told) links() []string {
	var lines []string
	for i := range c.Links {
		l := &c.Links[i]
		lines = append(lines, fmt.Sprint(expected{c.known(l.From), l.Relation, c.known(l.To), l.Grade, l.Through}))
	}
	return lines
}

func (c told) holds(links ...expected) {
	c.Helper()
	all := c.links()
	for _, want := range links {
		assert.Containsf(c, all, fmt.Sprint(want), "the chain is:\n%s", strings.Join(all, "\n"))
	}
}

func (c told) lacks(words string) {
	c.Helper()
	assert.NotContains(c, strings.Join(c.links(), "\n"), words)
}

// mayRun lets developers start runs of Tekton.
func (s *stage) mayRun() {
	s.Helper()
	rule := rbacv1.PolicyRule{APIGroups: []string{"tekton.dev"}, Resources: []string{"pipelineruns"}, Verbs: []string{"create", "get", "delete"}}
	s.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "run"}, Rules: []rbacv1.PolicyRule{rule}})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "run"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "run"}, Subjects: []rbacv1.Subject{group("developers")},
	})
}

// start starts a run with one task, push, as somebody. The real Tekton makes the rest.
func (s *stage) start(as client.Client, name string) *unstructured.Unstructured {
	s.Helper()
	step := map[string]any{"name": "main", "image": "main", "command": []any{"true"}}
	run := tektonObject("PipelineRun", s.team, name, map[string]any{
		"pipelineSpec":    map[string]any{"tasks": []any{map[string]any{"name": "push", "taskSpec": map[string]any{"steps": []any{step}}}}},
		"taskRunTemplate": map[string]any{"serviceAccountName": "pipeline"},
	})
	run.SetAnnotations(map[string]string{env.PodHold: "true"})
	s.eventually("the API server takes the PipelineRun", func() error { return as.Create(s.ctx, run) })
	return run
}

// answerAs answers with a client of anybody's.
func (s *stage) answerAs(as client.Client, request *approvalv1alpha1.ResourceCheckRequest, rule string) {
	s.Helper()
	ref := s.asks(request, rule)
	require.NoError(s, as.Create(s.ctx, &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, GenerateName: "answer-"},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Name: ref.ObjectName}, Decision: approvalv1alpha1.DecisionApprove, Comment: "fine \x1b[2J",
		},
	}))
}

// forgetRun deletes a run with its pods and its request, and waits for the evidence in the archive.
func (s *stage) forgetRun(run *unstructured.Unstructured, request *approvalv1alpha1.ResourceCheckRequest) {
	s.Helper()
	require.NoError(s, s.admin.Delete(s.ctx, request))
	s.eventually("the evidence is archived", func() error {
		lines, err := os.ReadFile(archived())
		if err == nil && !strings.Contains(string(lines), string(request.UID)) {
			return fmt.Errorf("it is not")
		}
		return err
	})
	require.NoError(s, s.admin.Delete(s.ctx, run, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.eventually("the run is gone", func() error {
		if err := s.admin.DeleteAllOf(s.ctx, &corev1.Pod{}, client.InNamespace(s.team), client.GracePeriodSeconds(0)); err != nil {
			return err
		}
		var pods corev1.PodList
		if err := s.admin.List(s.ctx, &pods, client.InNamespace(s.team)); err != nil {
			return err
		}
		err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(run), run.DeepCopy())
		if !apierrors.IsNotFound(err) || len(pods.Items) > 0 {
			return fmt.Errorf("it is there: %w, %d pods", err, len(pods.Items))
		}
		return nil
	})
}

func TestChainLeadsFromAPersonToTheUse(t *testing.T) {
	s := newStage(t)
	s.mayRun()
	s.rule("owners", "ApprovalRequest", twoOwners)
	run := s.start(plane.as(t, "developer"), "release-1")
	pod := s.taskPod("release-1-push-pod")
	request := s.mustAsk(s.inPod(pod))
	s.answerAs(plane.as(t, "owner1"), request, "owners")
	s.answerAs(plane.impersonating(t, "owner2@example.com", "prod-owners"), request, "owners")
	s.allowed(s.proxyToken(pod), "PUT", "/app")

	account := "system:serviceaccount:" + s.team + ":pipeline"
	check, rcr := "approvalrequest/"+s.asks(request, "owners").ObjectName, "resourcecheckrequest/"+request.Name
	story := []expected{
		{"developer@example.com", chain.RelationCreated, "pipelinerun/release-1", chain.Authenticated, ""},
		{"pipelinerun/release-1", chain.RelationCaused, "taskrun/release-1-push", chain.Authenticated, ""},
		{tektonController, chain.RelationCreated, "taskrun/release-1-push", chain.Authenticated, ""},
		{"taskrun/release-1-push", chain.RelationCaused, "pod/release-1-push-pod", chain.Authenticated, ""},
		{tektonController, chain.RelationCreated, "pod/release-1-push-pod", chain.Authenticated, ""},
		{"pod/release-1-push-pod", chain.RelationAsked, rcr, chain.Authenticated, ""},
		{account, chain.RelationRequested, rcr, chain.Authenticated, ""},
		{rcr, chain.RelationChecks, check, chain.Authenticated, ""},
		{rcr, chain.RelationUsed, "PUT /app at connector " + s.prod + "/" + connectorName, chain.Authenticated, ""},
	}
	var live told
	s.eventually("the access log tells the use", func() error {
		if live = tellChain(t, "pod/"+pod.Name, "-n", s.team); strings.Contains(strings.Join(live.links(), "\n"), "PUT /app") {
			return nil
		}
		return fmt.Errorf("it tells %v", live.links())
	})
	live.holds(story...)
	live.holds(expected{administrator, chain.RelationWrote, "resourcecheckrule/owners", chain.Authenticated, ""})
	live.holdsAnswers()

	cli(t, "admin", "chain", "pod/"+pod.Name, "-n", s.team, "--audit-log", auditLog(), "--access-log", accessLog()).succeeds(t,
		"created", "by developer@example.com [authenticated]", "approved \"fine \\x1b[2J\"",
		administrator+", acting through owner2@example.com [asserted: ", "<-- asked about", "allow 200")
	down := tellChain(t, "pipelinerun/release-1", "-n", s.team, "--tree")
	down.holds(story[:8]...)

	old := run.GetUID()
	s.forgetRun(run, request)
	s.start(plane.impersonating(t, "intruder@example.com", "developers", "system:masters"), "release-1")
	s.taskPod("release-1-push-pod")

	t.Run("another run of the name has another chain", func(t *testing.T) {
		again := tellChain(t, "pipelinerun/release-1", "-n", s.team)
		again.TB = t
		again.holds(expected{administrator, chain.RelationCreated, "pipelinerun/release-1", chain.Asserted, "intruder@example.com"})
		again.lacks("developer@example.com")
		again.lacks(rcr)
	})
	files := []string{"-n", s.team, "--audit-log", auditLog(), "--archive", archived(), "--access-log", accessLog()}
	t.Run("files alone tell the first one", func(t *testing.T) {
		gone := readChain(t, offline(t, append(files, "pipelinerun/release-1", "--uid", string(old), "-o", "json")...))
		gone.holds(story...)
		gone.holdsAnswers()
		gone.lacks("intruder@example.com")
	})
	t.Run("and draw it", func(t *testing.T) {
		offline(t, append(files, "pipelinerun/release-1", "--uid", string(old), "-o", "mermaid")...).
			succeeds(t, "flowchart TD", "developer@example.com", "==>", "asserted")
	})
	t.Run("who may not read the records is told so", func(t *testing.T) {
		r := cli(t, "developer", "chain", "pod/release-1-push-pod", "-n", s.team).succeeds(t, "Creator records are not believed", "No audit log was given")
		assert.NotContains(t, r.output, "[authenticated]")
	})
	t.Run("what nobody knows is not found", func(t *testing.T) {
		offline(t, append(files, "pipelinerun/none")...).ends(t, exitNotFound, "none")
		cli(t, "admin", "chain", "pod/none", "-n", s.team).ends(t, exitNotFound, "none")
		cli(t, "admin", "chain", "none").ends(t, exitUsage, "KIND/NAME")
	})
}

// holdsAnswers sees one answer with a credential, and one given by impersonation.
func (c told) holdsAnswers() {
	c.Helper()
	grades := map[string]chain.Grade{}
	for i := range c.Links {
		if l := &c.Links[i]; l.Relation == chain.RelationGave {
			who := c.known(l.From)
			if l.Through != "" {
				who += " through " + l.Through
			}
			grades[who] = l.Grade
		}
	}
	assert.Equal(c, map[string]chain.Grade{
		"owner1@example.com":                          chain.Authenticated,
		administrator + " through owner2@example.com": chain.Asserted,
	}, grades)
}
