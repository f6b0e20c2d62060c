package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/archive"
	"github.com/AlaudaDevops/countersign/pkg/chain"
	"github.com/AlaudaDevops/countersign/pkg/proxy/accesslog"
)

// chainOf runs chain with the epoch an hour ago.
func (b *bench) chainOf(args ...string) int {
	b.t.Helper()
	b.out.Reset()
	b.err.Reset()
	p := b.program()
	p.epoch = func(context.Context, *cluster, epochOptions) (time.Time, string, error) {
		return now.Add(-time.Hour), "", nil
	}
	return p.run(b.t.Context(), append([]string{"--kubeconfig", b.kubeconfig, "chain"}, args...))
}

// withAnswers lets the cluster select answers by their check, as the real one does.
func (b *bench) withAnswers(answers ...approvalv1alpha1.ApprovalResponse) *bench {
	b.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		found, ok := list.(*approvalv1alpha1.ApprovalResponseList)
		if !ok {
			return c.List(ctx, list, options...)
		}
		var all client.ListOptions
		all.ApplyOptions(options)
		for _, a := range answers {
			if all.FieldSelector.Matches(fieldSet{fieldAnswered: string(a.Spec.RequestRef.UID)}) {
				found.Items = append(found.Items, a)
			}
		}
		return nil
	}
	return b
}

type fieldSet map[string]string

func (f fieldSet) Has(field string) bool   { _, ok := f[field]; return ok }
func (f fieldSet) Get(field string) string { return f[field] }

func theJob() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "release", UID: "uid-release", CreationTimestamp: metav1.NewTime(now.Add(-6 * time.Minute)),
		Annotations: map[string]string{approvalv1alpha1.AnnotationCreatedBy: "dev@example.com"},
	}}
}

func theAnswer(name, responder string, credential bool) approvalv1alpha1.ApprovalResponse {
	a := approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Kind: "ApprovalRequest", Name: "check-push", UID: "uid-check-push"},
			Decision:   approvalv1alpha1.DecisionApprove, Comment: "fine \x1b[2J", Responder: &approvalv1alpha1.Identity{Username: responder},
		},
	}
	if credential {
		a.Spec.Responder.Extra = map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=2"}}
	}
	return a
}

// forJob is a pending request that dev made for the job, with his credential.
func forJob(r *approvalv1alpha1.ResourceCheckRequest) {
	r.Spec.Context.Resource = &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "team-a", Name: "release", UID: "uid-release"}
	r.Spec.RequestedBy.Extra = map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=1"}}
	r.Status.RequestRefs[0].UID = "uid-check-push"
	r.Status.RequestRefs[0].APIVersion = approvalv1alpha1.GroupVersion.String()
}

func theCheck() *approvalv1alpha1.ApprovalRequest {
	return makeCheck("check-push", "rcr-1").With(func(c *approvalv1alpha1.ApprovalRequest) {
		c.Labels = map[string]string{approvalv1alpha1.LabelRequestUID: "uid-rcr-1"}
	}).Obj()
}

func jobBench(b *bench) *bench {
	b.kinds = append(b.kinds, batchv1.AddToScheme)
	return b
}

func TestChainTellsTheStory(t *testing.T) {
	b := jobBench(makeBench(t, theJob(), theCheck(), makeRequest("rcr-1").Pending().With(forJob).Obj())).
		withAnswers(theAnswer("answer-1", "owner1@example.com", true), theAnswer("answer-2", "owner2@example.com", false))
	require.Equal(t, ExitDone, b.chainOf("job/release"), b.err.String())
	assert.Equal(t, strings.TrimLeft(`
job/release in team-a, uid uid-release  <-- asked about
|  created 2026-03-02T08:54:00Z by dev@example.com [authenticated]
`+"`"+`- resourcecheckrequest/rcr-1 in team-a, uid uid-rcr-1, ChecksPending, "promote 1.4.2" [authenticated]
   |  requested 2026-03-02T08:55:00Z by dev@example.com [authenticated]
   `+"`"+`- approvalrequest/check-push in prod, uid uid-check-push, pending [authenticated]
      |  for rule push, generation 3 [authenticated], written by owner1@example.com [asserted: it is not known whether the rule is as young as the records that can be believed]
      |- approved "fine \x1b[2J", 2026-03-02T08:59:00Z by owner1@example.com [authenticated]
      `+"`"+`- approved "fine \x1b[2J", 2026-03-02T08:59:00Z by owner2@example.com [asserted: no credential of the caller's own was seen]
note: No audit log was given, so impersonation is not seen: creator records name the user that was acted as.
`, "\n"), b.out.String())
}

func TestChainSaysWhatCannotBeRead(t *testing.T) {
	b := jobBench(makeBench(t, theJob(), makeRequest("rcr-1").Pending().With(forJob).Obj()))
	b.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if o.GetObjectKind().GroupVersionKind().Kind == "ApprovalRequest" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "approvalrequests"}, key.Name, nil)
		}
		return c.Get(ctx, key, o, options...)
	}
	b.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, is := list.(*approvalv1alpha1.ApprovalResponseList); is {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "approvalresponses"}, "", nil)
		}
		return c.List(ctx, list, options...)
	}
	require.Equal(t, ExitDone, b.chainOf("jobs/release"), b.err.String())
	assert.Contains(t, b.out.String(), "you may not read it")
	assert.Contains(t, b.out.String(), "answers in namespace prod cannot be read")
	assert.Contains(t, b.out.String(), "by owner1@example.com [asserted: ", "the request tells the answer, too, but not with what credential")
}

func TestChainUsage(t *testing.T) {
	log := written(t, "audit.log", "")
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no name":            {[]string{"job"}, ExitUsage, "is no KIND/NAME"},
		"nothing to read":    {[]string{"job/release", "--offline"}, ExitUsage, "--offline needs"},
		"no such file":       {[]string{"job/release", "--audit-log", "none*.log"}, ExitError, `there is no file "none*.log"`},
		"no regular file":    {[]string{"job/release", "--audit-log", filepath.Dir(log)}, ExitError, "no regular file"},
		"no such object":     {[]string{"job/none"}, ExitNotFound, "none"},
		"not in files":       {[]string{"job/none", "--offline", "--audit-log", log}, ExitNotFound, "the files know no job"},
		"not with this UID":  {[]string{"job/release", "--uid", "other"}, ExitNotFound, "uid-release"},
		"no such format":     {[]string{"job/release", "-o", "dot"}, ExitUsage, "mermaid"},
		"no such table":      {[]string{"job/release", "--origin-config", "none"}, ExitError, "table of origins"},
		"no such kind":       {[]string{"gizmo/release"}, ExitError, "gizmo"},
		"no namespace of it": {[]string{"job/release", "-n", "other"}, ExitNotFound, "release"},
	} {
		t.Run(name, func(t *testing.T) {
			b := jobBench(makeBench(t, theJob()))
			assert.Equal(t, test.code, b.chainOf(test.args...))
			assert.Contains(t, b.err.String(), test.says)
		})
	}
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// auditLine is a creation as an API server logs it at level Metadata.
func auditLine(resource, name, user, as string, at time.Time) string {
	line := map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "create", "user": map[string]any{"username": user},
		"objectRef":      map[string]any{"apiGroup": "batch", "apiVersion": "v1", "resource": resource, "namespace": "team-a", "name": name},
		"responseStatus": map[string]any{"code": 201}, "requestReceivedTimestamp": metav1.NewMicroTime(at), "stageTimestamp": metav1.NewMicroTime(at.Add(time.Millisecond)),
	}
	if as != "" {
		line["impersonatedUser"] = map[string]any{"username": as}
	}
	raw, _ := json.Marshal(line)
	return string(raw) + "\n"
}

// theFiles are what is left of the job: the arguments to read it.
func theFiles(t *testing.T) []string {
	t.Helper()
	request := makeRequest("rcr-1").Granted().With(forJob).Obj()
	check := &unstructured.Unstructured{}
	var err error
	check.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(theCheck())
	require.NoError(t, err)
	check.SetGroupVersionKind(approvalv1alpha1.GroupVersion.WithKind("ApprovalRequest"))
	record := archive.Record{
		At: metav1.NewTime(now), Occasion: archive.OccasionDeleted, RequestUID: string(request.UID), Request: request,
		Run:     []approvalv1alpha1.ContextHop{{Resource: *request.Spec.Context.Resource, CreatedBy: "dev@example.com"}},
		Checks:  []*unstructured.Unstructured{check},
		Answers: []approvalv1alpha1.ApprovalResponse{theAnswer("answer-1", "owner1@example.com", true)},
	}
	line, err := record.Line()
	require.NoError(t, err)
	entry := accesslog.Entry{
		Time: now, Verdict: "allow", Reason: "AllChecksApproved", Namespace: "prod", Name: "prod-harbor", Subject: "system:serviceaccount:team-a:default",
		Context: &accesslog.Object{UID: "uid-release"}, RequestNamespace: "team-a", RequestName: "rcr-1", Method: "PUT", Path: "/v2/\u202e", Status: 201,
	}
	return []string{"-n", "team-a", "--offline",
		"--audit-log", written(t, "audit.log", "torn\n"+auditLine("jobs", "release", "admin@example.com", "dev@example.com", now.Add(-6*time.Minute))),
		"--archive", written(t, "archive.jsonl", "a line of the controller's log\n"+string(line)+"\n"+string(line)+"\n"),
		"--access-log", written(t, "access.log", string(entry.Append(nil))+"torn")}
}

func TestChainFromFiles(t *testing.T) {
	b := makeBench(t)
	b.program()
	run := func(args ...string) string {
		p := b.program()
		p.dial = func(*program) (*cluster, error) { return nil, fmt.Errorf("nobody may be asked") }
		b.out.Reset()
		require.Equal(t, ExitDone, p.run(t.Context(), append([]string{"--kubeconfig", b.kubeconfig, "chain", "job/release"}, args...)), b.err.String())
		return b.out.String()
	}
	files := theFiles(t)
	text := run(files...)
	for _, want := range []string{
		"created 2026-03-02T08:54:00Z by admin@example.com, acting through dev@example.com [asserted: ", "requested 2026-03-02T08:55:00Z by dev@example.com [authenticated]",
		`approved "fine \x1b[2J", 2026-03-02T08:59:00Z by owner1@example.com [authenticated]`,
		`PUT /v2/\u202e at connector prod/prod-harbor: allow 201 AllChecksApproved, 2026-03-02T09:00:00Z by system:serviceaccount:team-a:default [authenticated]`,
		"The audit log", "line 1 is no JSON", "The access log", "1 line cannot be read",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "\x1b")

	c := &chain.Chain{}
	require.NoError(t, json.Unmarshal([]byte(run(append(files, "-o", "json")...)), c))
	assert.Equal(t, "uid-release", c.Target)
	again := &chain.Chain{}
	require.NoError(t, yaml.Unmarshal([]byte(run(append(files, "-o", "yaml")...)), again))
	assert.Equal(t, c, again)

	diagram := run(append(files, "-o", "mermaid")...)
	assert.True(t, strings.HasPrefix(diagram, "flowchart TD\n"))
	assert.Contains(t, diagram, `==>|"requested 2026-03-02T08:55:00Z, authenticated"|`)
	assert.NotContains(t, diagram, "\u202e")
}

func TestMermaidLabelsCannotDraw(t *testing.T) {
	got := label("a\"b]c<script>|`x`#1;\n\u202e%%{init}")
	assert.Equal(t, "a#34;b#93;c#60;script#62;#124;#96;x#96;#35;1#59;#92;n#92;u202e#37;#37;#123;init#125;", got)
}
