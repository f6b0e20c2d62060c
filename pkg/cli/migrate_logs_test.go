package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// created is when the jobs of these tests were made.
var created = now.Add(-time.Hour)

type eventBuilder struct{ e auditv1.Event }

// madeJob is the log's word that somebody made a job, at level Metadata.
func madeJob(name, user string) *eventBuilder {
	return &eventBuilder{auditv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "audit.k8s.io/v1", Kind: "Event"}, Level: auditv1.LevelMetadata, Stage: auditv1.StageResponseComplete,
		RequestURI: "/apis/batch/v1/namespaces/team-a/jobs?fieldManager=kubectl", Verb: "create", User: authenticationv1.UserInfo{Username: user, Groups: []string{"system:authenticated"}},
		ObjectRef:                &auditv1.ObjectReference{APIGroup: "batch", APIVersion: "v1", Resource: "jobs", Namespace: "team-a", Name: name},
		ResponseStatus:           &metav1.Status{Code: 201},
		RequestReceivedTimestamp: metav1.NewMicroTime(created), StageTimestamp: metav1.NewMicroTime(created.Add(time.Second)),
	}}
}

// Stored is the object of the answer, as from level RequestResponse.
func (b *eventBuilder) Stored(name string, uid types.UID) *eventBuilder {
	b.e.ResponseObject = &runtime.Unknown{Raw: fmt.Appendf(nil, `{"metadata":{"namespace":"team-a","name":%q,"uid":%q}}`, name, uid)}
	return b
}

func (b *eventBuilder) At(at time.Time) *eventBuilder {
	b.e.RequestReceivedTimestamp, b.e.StageTimestamp = metav1.NewMicroTime(at), metav1.NewMicroTime(at)
	return b
}

func (b *eventBuilder) With(change func(*auditv1.Event)) *eventBuilder {
	change(&b.e)
	return b
}

func auditLog(t *testing.T, events ...*eventBuilder) string {
	t.Helper()
	out := &strings.Builder{}
	for _, b := range events {
		line, err := json.Marshal(&b.e)
		require.NoError(t, err)
		out.Write(append(line, '\n'))
	}
	return out.String()
}

func TestMigrateFromAuditLogs(t *testing.T) {
	patch := func(e *auditv1.Event) { e.Verb, e.RequestURI = "patch", e.RequestURI+"&fieldManager=me&force=true" }
	tests := map[string]struct {
		events []*eventBuilder
		want   string
		out    string
	}{
		"by name and time":           {events: []*eventBuilder{madeJob("a", "alice")}, want: "alice"},
		"just early enough":          {events: []*eventBuilder{madeJob("a", "alice").At(created.Add(-tolerance))}, want: "alice"},
		"just late enough":           {events: []*eventBuilder{madeJob("a", "alice").At(created.Add(tolerance))}, want: "alice"},
		"too early":                  {events: []*eventBuilder{madeJob("a", "alice").At(created.Add(-tolerance - time.Microsecond))}},
		"too late":                   {events: []*eventBuilder{madeJob("a", "alice").At(created.Add(tolerance + time.Microsecond))}},
		"by UID":                     {events: []*eventBuilder{madeJob("a", "alice").Stored("a", "uid-a").At(now)}, want: "alice"},
		"by UID, with a given name":  {events: []*eventBuilder{madeJob("", "alice").Stored("a", "uid-a")}, want: "alice"},
		"UID of a former object":     {events: []*eventBuilder{madeJob("a", "alice").Stored("a", "former")}},
		"UID goes before name":       {events: []*eventBuilder{madeJob("a", "mallory"), madeJob("a", "alice").Stored("a", "uid-a"), madeJob("a", "eve")}, want: "alice"},
		"a UID that the client sent": {events: []*eventBuilder{madeJob("other", "mallory").With(func(e *auditv1.Event) { e.ObjectRef.UID = "uid-a" })}},
		"impersonated": {events: []*eventBuilder{madeJob("a", "admin").With(func(e *auditv1.Event) {
			e.ImpersonatedUser = &authenticationv1.UserInfo{Username: "alice"}
		})}, want: "alice"},
		"an apply that makes":        {events: []*eventBuilder{madeJob("a", "alice").With(patch)}, want: "alice"},
		"an apply that changes":      {events: []*eventBuilder{madeJob("a", "mallory").With(patch).With(func(e *auditv1.Event) { e.ResponseStatus.Code = 200 })}},
		"refused":                    {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.ResponseStatus.Code = 409 })}},
		"a dry run":                  {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.RequestURI += "&dryRun=All" })}},
		"an address that is garbled": {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.RequestURI += "&%zz" })}},
		"another stage":              {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.Stage = auditv1.StageResponseStarted })}},
		"a subresource":              {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.ObjectRef.Subresource = "status" })}},
		"another kind of this name":  {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.ObjectRef.APIGroup = "other" })}},
		"another namespace":          {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.ObjectRef.Namespace = "team-b" })}},
		"nobody": {events: []*eventBuilder{madeJob("a", "system:anonymous").With(func(e *auditv1.Event) {
			e.User.Groups = []string{"system:unauthenticated"}
		})}},
		"no object":  {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.ObjectRef = nil })}},
		"no status":  {events: []*eventBuilder{madeJob("a", "mallory").With(func(e *auditv1.Event) { e.ResponseStatus = nil })}},
		"same twice": {events: []*eventBuilder{madeJob("a", "alice"), madeJob("a", "alice").At(created.Add(time.Second))}, want: "alice"},
		"two of a name at once": {events: []*eventBuilder{madeJob("a", "alice"), madeJob("a", "mallory").At(created.Add(time.Second))},
			out: "warning: the logs name more than one creator of jobs.batch/a in team-a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := recording(makeBench(t, makeJob("a"), makeJob("had", approvalv1alpha1.AnnotationCreatedBy, "bob")))
			b.in = auditLog(t, append(tt.events, madeJob("had", "mallory"))...)
			require.Equal(t, ExitDone, b.run("creators", "migrate", "--from-audit-log", "-", "--kinds", "jobs"), b.err.String())
			want := map[string]string{"had": "bob"}
			if tt.want != "" {
				want["a"] = tt.want + " by admin"
			}
			assert.Equal(t, want, b.creators())
			assert.Contains(t, b.err.String(), tt.out)
			assert.Contains(t, b.out.String(), "Had one:      1\n")
			assert.Contains(t, b.out.String(), fmt.Sprintf("No evidence:  %d\n", 2-len(want)))
		})
	}
}

func TestMigrateReadsSeveralLogs(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(auditLog(t, madeJob("a", "alice"))))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	b := recording(makeBench(t, makeJob("a"), makeJob("b"), makeJob("c")))
	cut := b.file("cut.gz", packed.String()[:packed.Len()-8])
	plain := b.file("audit.log", "no event\n"+auditLog(t, madeJob("b", "bob")))
	require.Equal(t, ExitDone, b.run("creators", "migrate", "--from-audit-log", cut+","+plain, "--kinds", "jobs"), b.err.String())
	assert.Equal(t, map[string]string{"a": "alice by admin", "b": "bob by admin"}, b.creators())
	assert.Contains(t, b.err.String(), "warning: "+cut+" ends in the middle: what it held after that is missing\n")
	assert.Contains(t, b.err.String(), "line 1 is no JSON of an audit event")
	assert.Contains(t, b.err.String(), "; what these lines say is missing\n")

	assert.Equal(t, ExitError, b.run("creators", "migrate", "--from-audit-log", plain+".1", "--kinds", "jobs"))
	assert.Contains(t, b.err.String(), "the audit log cannot be opened")
}

func TestMigrateLooksForRecordedKinds(t *testing.T) {
	resource := func(name, kind string, namespaced bool, verbs ...string) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: kind, Namespaced: namespaced, Verbs: append(verbs, "get")}
	}
	known := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			resource("configmaps", "ConfigMap", true, "list", "patch"), resource("pods/status", "Pod", true, "patch"), resource("pods", "Pod", true, "list")}},
		{GroupVersion: "batch/v1", APIResources: []metav1.APIResource{resource("jobs", "Job", true, "list", "patch")}},
		{GroupVersion: "approval.alaudadevops.io/v1alpha1", APIResources: []metav1.APIResource{
			resource("checkkinds", "CheckKind", false, "list", "patch"), resource("approvalrequests", "ApprovalRequest", true, "list", "patch")}},
	}
	run := func(t *testing.T, args ...string) (listed []string, b *bench) {
		t.Helper()
		b = recording(makeBench(t, makeJob("a")))
		b.resources = known
		b.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := client.ListOptions{}
			options.ApplyOptions(opts)
			listed = append(listed, list.GetObjectKind().GroupVersionKind().Kind+" in "+options.Namespace)
			return c.List(ctx, list, opts...)
		}
		b.in = auditLog(t, madeJob("a", "alice"))
		require.Equal(t, ExitDone, b.run(append([]string{"creators", "migrate", "--from-audit-log", "-"}, args...)...), b.err.String())
		return listed, b
	}
	t.Run("of a namespace", func(t *testing.T) {
		listed, b := run(t)
		assert.Equal(t, []string{"JobList in team-a", "ApprovalRequestList in team-a"}, listed)
		assert.Equal(t, map[string]string{"a": "alice by admin"}, b.creators())
	})
	t.Run("of all", func(t *testing.T) {
		listed, _ := run(t, "-A")
		assert.Equal(t, []string{"JobList in ", "CheckKindList in ", "ApprovalRequestList in "}, listed)
	})
	t.Run("offered to a shell", func(t *testing.T) {
		b := recording(makeBench(t))
		b.resources = known
		require.Equal(t, ExitDone, b.run("__complete", "creators", "migrate", "--kinds", ""))
		assert.Equal(t, "jobs.batch\ncheckkinds.approval.alaudadevops.io\napprovalrequests.approval.alaudadevops.io\n:4\n", b.out.String())
	})
	t.Run("none", func(t *testing.T) {
		b := recording(makeBench(t))
		assert.Equal(t, ExitError, b.run("creators", "migrate", "--from-audit-log", "-"))
		assert.Contains(t, b.err.String(), "the cluster records creators of no kind that you may look for here")
	})
	t.Run("named, each once", func(t *testing.T) {
		listed, _ := run(t, "--kinds", "configmap,jobs,Job,jobs.batch", "-n", "team-b")
		assert.Equal(t, []string{"ConfigMapList in team-b", "JobList in team-b"}, listed)
	})
}

// A list whose first pages are too old by now goes on where the server says.
func TestMigrateListsPageByPage(t *testing.T) {
	b := recording(makeBench(t))
	var continued []string
	b.funcs.List = func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		options := client.ListOptions{}
		options.ApplyOptions(opts)
		assert.Equal(t, int64(listPage), options.Limit)
		continued = append(continued, options.Continue)
		page := list.(*metav1.PartialObjectMetadataList)
		switch options.Continue {
		case "":
			page.Continue = "page-2"
		case "page-2":
			err := apierrors.NewResourceExpired("too old")
			err.ErrStatus.Continue = "page-2-anew"
			return err
		}
		page.Items = []metav1.PartialObjectMetadata{{ObjectMeta: makeJob("x" + options.Continue).ObjectMeta}}
		return nil
	}
	require.Equal(t, ExitDone, b.run("creators", "migrate", "--from-audit-log", "-", "--kinds", "jobs"), b.err.String())
	assert.Equal(t, []string{"", "page-2", "page-2-anew"}, continued)
	assert.Contains(t, b.out.String(), "No evidence:  2\n")

	b.funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(batchv1.Resource("jobs"), "", fmt.Errorf(`User "dev" cannot list resource "jobs" in API group "batch" in the namespace "team-a"`))
	}
	b.client = nil
	assert.Equal(t, ExitDenied, b.run("creators", "migrate", "--from-audit-log", "-", "--kinds", "jobs"))
	assert.Contains(t, b.err.String(), "leave the kind out with --kinds")
}

func TestGauge(t *testing.T) {
	// ofTwoHundred counts fifty, of whom one is refused, in half a minute.
	ofTwoHundred := func(terminal bool) (*gauge, *bench) {
		b := makeBench(t)
		p := b.program()
		p.terminal = terminal
		counts := &tally{}
		counts.count(outcomeHad, "")
		g := newGauge(p)
		stop := g.run(counts, 200)
		for range 49 {
			counts.count(outcomeAssigned, "")
		}
		counts.count(outcomeRefused, "because")
		stop()
		b.clock.Step(30 * time.Second)
		return g, b
	}
	t.Run("on a terminal", func(t *testing.T) {
		g, b := ofTwoHundred(true)
		g.draw(g.line())
		g.draw("short")
		g.clear()
		assert.Equal(t, "\r[###---------] 50 of 200 (25 %), assigned 49, refused 1, 90s left"+
			"\rshort"+strings.Repeat(" ", 60)+"\r"+strings.Repeat(" ", 5)+"\r", b.err.String())
	})
	t.Run("elsewhere", func(t *testing.T) {
		g, b := ofTwoHundred(false)
		g.draw(g.line())
		g.tell("%s", "a line")
		assert.Equal(t, "50 of 200 (25 %), assigned 49, refused 1, 90s left\na line\n", b.err.String())
	})
	t.Run("now and then", func(t *testing.T) {
		b := makeBench(t)
		g := newGauge(b.program())
		for range 3 {
			g.note("reading %s: %d events", "a\x1b[2J", 256)
			b.clock.Step(lineEvery)
			g.note("reading %s: %d events", "a\x1b[2J", 512)
		}
		assert.Equal(t, strings.Repeat("reading a\\x1b[2J: 512 events\n", 3), b.err.String())
	})
	t.Run("by itself", func(t *testing.T) {
		b := makeBench(t)
		g := newGauge(b.program())
		stop := g.run(&tally{}, 200)
		b.clock.Step(lineEvery)
		require.Eventually(t, func() bool { return b.err.String() == "0 of 200 (0 %), assigned 0\n" }, 10*time.Second, time.Millisecond)
		stop()
	})
}
