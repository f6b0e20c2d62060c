package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func byPipeline(r *approvalv1alpha1.ResourceCheckRequest) {
	r.Spec.RequestedBy.Username = "system:serviceaccount:team-a:pipeline"
	r.Spec.Context.Subject = &approvalv1alpha1.Subject{Kind: "ServiceAccount", Namespace: "team-a", Name: "pipeline"}
}

// mineAndOthers has a request for each way of being mine, and two that are not.
func mineAndOthers() []client.Object {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "release", Namespace: "team-a", UID: "job-1",
		Annotations: map[string]string{approvalv1alpha1.AnnotationCreatedBy: "dev@example.com"}}}
	forRun := func(uid string) func(*approvalv1alpha1.ResourceCheckRequest) {
		return func(r *approvalv1alpha1.ResourceCheckRequest) {
			byPipeline(r)
			r.Spec.Context.Resource = &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "team-a", Name: "release"}
			r.Spec.Context.Resource.UID = job.UID
			if uid != "" {
				r.Spec.Context.Resource.UID = "another"
			}
		}
	}
	return []client.Object{
		job,
		makeRequest("asked").With(byPipeline).With(func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.RequestedBy.Username = "dev@example.com" }).Pending().Obj(),
		makeRequest("subject").With(func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.RequestedBy.Username, r.Spec.RequestedBy.Extra = "x", nil
		}).Granted().Obj(),
		makeRequest("created").With(forRun("")).Obj(),
		makeRequest("asked-too").With(byPipeline).With(func(r *approvalv1alpha1.ResourceCheckRequest) { r.Status.Askers = []string{"dev@example.com"} }).Obj(),
		makeRequest("not-mine").With(byPipeline).Obj(),
		makeRequest("another-run").With(forRun("another")).Obj(),
		makeRequest("elsewhere").With(func(r *approvalv1alpha1.ResourceCheckRequest) { r.Namespace = "team-b" }).Obj(),
	}
}

// withJobs lets the cluster in memory know Jobs.
func withJobs(b *bench) *bench {
	b.kinds = append(b.kinds, batchv1.AddToScheme)
	return b
}

func TestListMine(t *testing.T) {
	tests := map[string][]string{
		"list":      {"list", "-n", "team-a"},
		"list-wide": {"list", "--in", "team-a", "-n", "prod", "-o", "wide"},
		"list-all":  {"list", "-A"},
		"list-name": {"list", "-o", "name"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			b := withJobs(makeBench(t, mineAndOthers()...))
			require.Equal(t, ExitDone, b.run(args...), b.err.String())
			assertGolden(t, name, b.out.String())
		})
	}
}

func TestListEmpty(t *testing.T) {
	b := makeBench(t)
	assert.Equal(t, ExitDone, b.run("list"))
	assert.Empty(t, b.out.String())
	assert.Equal(t, "No requests of yours in namespace team-a.\n", b.err.String())
	assert.Equal(t, ExitDone, b.run("list", "-o", "json"))
	assert.JSONEq(t, `{"apiVersion":"v1","kind":"List","items":[]}`, b.out.String())
}

func TestListWatches(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Pending().Obj())
	u := b.begin("list", "--watch")
	require.Eventually(t, func() bool { return b.clock.Waiters() > 0 }, 10*time.Second, time.Millisecond)
	assert.Contains(t, b.out.String(), "rcr-1")

	b.out.Reset()
	require.NoError(t, b.client.Create(t.Context(), makeRequest("rcr-2").Obj()))
	b.clock.Step(pollEvery)
	require.Eventually(t, func() bool { return b.clock.Waiters() > 0 && strings.Contains(b.out.String(), "rcr-2") }, 10*time.Second, time.Millisecond)
	assert.NotContains(t, b.out.String(), "rcr-1", "nothing is listed twice")
	assert.NotContains(t, b.out.String(), "NAME")

	u.change(makeRequest("rcr-1").Granted())
	b.clock.Step(pollEvery)
	require.Eventually(t, func() bool { return b.clock.Waiters() > 0 && strings.Contains(b.out.String(), "granted") }, 10*time.Second, time.Millisecond)
	u.cancel()
	assert.Equal(t, ExitDone, <-u.code)
}

func TestInboxFromTheServer(t *testing.T) {
	checks := []client.Object{
		makeCheck("later", "rcr-1").Obj(),
		makeCheck("sooner", "rcr-2").With(wholeQuestion).With(func(c *approvalv1alpha1.ApprovalRequest) { c.Spec.Timeout = &metav1.Duration{Duration: time.Hour} }).Obj(),
		makeCheck("answered", "rcr-3").ApprovedBy("owner1").Obj(),
		makeCheck("decided", "rcr-4").State("approved").Obj(),
		makeCheck("own", "rcr-5").With(func(c *approvalv1alpha1.ApprovalRequest) { c.Spec.Request.RequestedBy.Username = "owner1" }).Obj(),
	}
	b := makeBench(t, checks...).as("owner1", "prod-owners")
	require.Equal(t, ExitDone, b.run("list", "--inbox", "-n", "prod"), b.err.String())
	assertGolden(t, "inbox", b.out.String())
	require.Equal(t, ExitDone, b.run("list", "--inbox", "-n", "prod", "-o", "wide"))
	assertGolden(t, "inbox-wide", b.out.String())
	require.Equal(t, ExitDone, b.run("list", "--inbox", "-n", "prod", "-o", "name"))
	assert.Equal(t, "approvalrequest.approval.alaudadevops.io/sooner\napprovalrequest.approval.alaudadevops.io/later\n", b.out.String())

	b.as("owner1", "prod-owners").asserting()
	b.change(func(c *approvalv1alpha1.ApprovalRequest) {
		c.Spec.AssertedAnswers = approvalv1alpha1.AssertedAnswersForbid
	}, "sooner")
	require.Equal(t, ExitDone, b.run("list", "--inbox", "-n", "prod", "-o", "name"))
	assert.Equal(t, "approvalrequest.approval.alaudadevops.io/later\n", b.out.String(), "what takes no answer by impersonation does not wait for one")

	b.as("stranger")
	require.Equal(t, ExitDone, b.run("list", "--inbox", "-n", "prod"))
	assert.Equal(t, "Nothing waits for your answer.\n", b.err.String())
}

// change edits a check where it is stored.
func (b *bench) change(edit func(*approvalv1alpha1.ApprovalRequest), name string) {
	b.t.Helper()
	stored := &approvalv1alpha1.ApprovalRequest{}
	require.NoError(b.t, b.client.Get(b.t.Context(), keyOf("prod", name), stored))
	edit(stored)
	require.NoError(b.t, b.client.Update(b.t.Context(), stored))
}

func TestListExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "notify")
	body := "#!/bin/sh\necho \"$1|$COUNTERSIGN_ITEM|$COUNTERSIGN_REQUEST|$COUNTERSIGN_NAMESPACE/$COUNTERSIGN_NAME|$COUNTERSIGN_REQUESTED_BY|$COUNTERSIGN_REASON|$COUNTERSIGN_DEADLINE\"\n"
	require.NoError(t, os.WriteFile(script, []byte(body), 0o700)) //nolint:gosec // It must be executable.
	check := makeCheck("check-a", "rcr-1").With(func(c *approvalv1alpha1.ApprovalRequest) { c.Spec.Request.Reason = "$(touch x); `id` \x1b[2J" }).Obj()
	b := makeBench(t, check).as("owner1", "prod-owners")
	require.Equal(t, ExitDone, b.run("list", "--inbox", "-n", "prod", "--exec", script+" first"), b.err.String())
	assert.Contains(t, b.out.String(), "first|check|team-a/rcr-1|prod/check-a|dev@example.com|$(touch x); `id` \\x1b[2J|2026-03-03T08:55:00Z\n")

	assert.Equal(t, ExitUsage, b.run("list", "--inbox", "--exec", "/no/such/program"))
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nexit 7\n"), 0o600))
	assert.Equal(t, ExitError, b.run("list", "--inbox", "-n", "prod", "--exec", script))
	assert.Contains(t, b.err.String(), "warning: --exec failed for check-a: exit status 7")
}

func TestInboxFromTheProxy(t *testing.T) {
	pages := map[string]inboxPage{
		"":   {Items: []waitingCheck{waiting(makeCheck("one", "rcr-1").Obj())}, Continue: "u1"},
		"u1": {Items: []waitingCheck{waiting(makeCheck("two", "rcr-2").Obj())}},
	}
	proxy := startProxy(t, func(query map[string][]string) (int, any) { return 200, pages[strings.Join(query["continue"], "")] })
	b := makeBench(t).as("owner1")
	proxy.config(b)
	require.Equal(t, ExitDone, b.run("list", "--inbox", "-o", "json"), b.err.String())
	var list struct{ Items []waitingCheck }
	require.NoError(t, json.Unmarshal([]byte(b.out.String()), &list))
	assert.Len(t, list.Items, 2)
	assert.Equal(t, []string{"Bearer secret-token", "Bearer secret-token"}, proxy.tokens())

	require.Equal(t, ExitDone, b.run("list", "--inbox", "-n", "team-a"))
	assert.Equal(t, "Nothing waits for your answer.\n", b.err.String(), "-n narrows")
}

func TestInboxFallsBackWithoutToken(t *testing.T) {
	proxy := startProxy(t, func(map[string][]string) (int, any) { return 200, inboxPage{} })
	b := makeBench(t, makeCheck("check-a", "rcr-1").Obj()).as("owner1", "prod-owners")
	proxy.config(b)
	b.config.BearerToken = ""
	require.Equal(t, ExitDone, b.run("list", "--inbox", "-n", "prod"), b.err.String())
	assert.Contains(t, b.err.String(), "the proxy takes only tokens")
	assert.Contains(t, b.out.String(), "check-a")
	assert.Empty(t, proxy.tokens())
}

func TestInboxRefused(t *testing.T) {
	proxy := startProxy(t, func(map[string][]string) (int, any) {
		return 401, inboxPage{Reason: "Unauthenticated", Detail: "the token has expired"}
	})
	b := makeBench(t)
	proxy.config(b)
	assert.Equal(t, ExitError, b.run("list", "--inbox"))
	assert.Equal(t, "error: the proxy refuses: the token has expired (Unauthenticated)\n", b.err.String())
}

func TestListWarnsWhileTheServerIsAway(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Obj())
	away := false
	b.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if away {
			return context.DeadlineExceeded
		}
		away = true
		return c.List(ctx, list, opts...)
	}
	u := b.begin("list", "--watch")
	require.Eventually(t, func() bool { return b.clock.Waiters() > 0 }, 10*time.Second, time.Millisecond)
	b.clock.Step(pollEvery)
	u.until("warning: the list cannot be read, and is tried again: the server did not answer in time", 1)
	u.cancel()
	assert.Equal(t, ExitDone, <-u.code)
}
