package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// makeJob was made an hour ago.
func makeJob(name string, annotations ...string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
	}}
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, annotations[i], annotations[i+1])
	}
	return job
}

// recording lets the cluster record creators as the admission policies do, of those who may migrate.
func recording(b *bench) *bench {
	withJobs(b)
	b.funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		review, ok := o.(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return c.Create(ctx, o, opts...)
		}
		want := authorizationv1.ResourceAttributes{Group: "authority.alaudadevops.io", Resource: "creators", Verb: "migrate"}
		review.Status.Allowed = *review.Spec.ResourceAttributes == want && b.user != "stranger"
		return nil
	}
	b.funcs.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
		return patched(ctx, c, o, recorded(ctx, b.t, c, o, patch), opts...)
	}
	return b
}

// patched does what the client in memory does not: it answers a dry run with what would be.
func patched(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	options := client.PatchOptions{}
	if options.ApplyOptions(opts); len(options.DryRun) == 0 {
		return c.Patch(ctx, o, patch, opts...)
	}
	var body struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	data, err := patch.Data(o)
	if err := errors.Join(err, json.Unmarshal(data, &body), c.Get(ctx, client.ObjectKeyFromObject(o), o)); err != nil {
		return err
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, body.Metadata.Annotations)
	o.SetAnnotations(annotations)
	return nil
}

// recorded is the patch after admission.
func recorded(ctx context.Context, t *testing.T, c client.Client, o client.Object, patch client.Patch) client.Patch {
	t.Helper()
	data, err := patch.Data(o)
	require.NoError(t, err)
	var body struct {
		Metadata map[string]any `json:"metadata"`
	}
	require.NoError(t, json.Unmarshal(data, &body))
	stored := o.DeepCopyObject().(client.Object)
	annotations := body.Metadata["annotations"].(map[string]any)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), stored); err == nil && stored.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy] != "" {
		delete(annotations, approvalv1alpha1.AnnotationCreatedBy)
	} else {
		annotations[approvalv1alpha1.AnnotationMigratedBy] = "admin"
	}
	data, err = json.Marshal(body)
	require.NoError(t, err)
	return client.RawPatch(types.MergePatchType, data)
}

// creators are those of the jobs; a migrated one ends with who assigned it.
func (b *bench) creators() map[string]string {
	b.t.Helper()
	jobs := &batchv1.JobList{}
	require.NoError(b.t, b.client.List(b.t.Context(), jobs))
	found := map[string]string{}
	for i := range jobs.Items {
		if by := jobs.Items[i].Annotations[approvalv1alpha1.AnnotationCreatedBy]; by != "" {
			found[jobs.Items[i].Name] = by
			if admin := jobs.Items[i].Annotations[approvalv1alpha1.AnnotationMigratedBy]; admin != "" {
				found[jobs.Items[i].Name] += " by " + admin
			}
		}
	}
	return found
}

func (b *bench) file(name, content string) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), name)
	require.NoError(b.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestMigrateByHand(t *testing.T) {
	b := recording(makeBench(t, makeJob("a"), makeJob("b", approvalv1alpha1.AnnotationCreatedBy, "bob"), makeJob("c")))
	file := filepath.Join(t.TempDir(), "progress")
	args := []string{"creators", "migrate", "job/a", "jobs.batch/b", "job/typo", "--to", "https://issuer/#alice", "-n", "team-a", "--progress-file", file}
	require.Equal(t, ExitNotFound, b.run(args...))
	assert.Equal(t, "error: jobs.batch/typo in team-a is not there: look at the name, and at -n\n", b.err.String())
	assert.Equal(t, map[string]string{"a": "https://issuer/#alice by admin", "b": "bob"}, b.creators())
	assert.Equal(t, "Assigned:     1, in 0s\nHad one:      1\nNo evidence:  0\nGone:         1\nRefused:      0\n", b.out.String())

	require.NoError(t, b.client.Create(t.Context(), makeJob("typo")))
	require.Equal(t, ExitDone, b.run(args...), b.err.String())
	assert.Equal(t, "https://issuer/#alice by admin", b.creators()["typo"], "what was not there is looked for again")
}

func TestMigrateFromAList(t *testing.T) {
	tests := map[string]struct {
		list, err string
		code      int
		want      map[string]string
	}{
		"CSV": {list: "\ufeffKind, Namespace,name,user\njob,team-a,a,\"alice, the dev\"\nJob,,b,bob\n", want: map[string]string{"a": "alice, the dev by admin", "b": "bob by admin"}},
		"CSV with UIDs, one of them of a former object": {list: "uid,user,kind,name,namespace\nuid-a,alice,job,a,team-a\nformer,bob,job,b,team-a\n",
			want: map[string]string{"a": "alice by admin"}},
		"YAML":                           {list: "- {kind: jobs.batch, namespace: team-a, name: a, user: alice, uid: uid-a}\n- {kind: job, name: b, user: 'a:b'}\n", want: map[string]string{"a": "alice by admin", "b": "a:b by admin"}},
		"JSON":                           {list: `[{"kind": "Job", "name": "a", "user": "alice"}]`, want: map[string]string{"a": "alice by admin"}},
		"the same twice":                 {list: "kind,name,user\njob,a,alice\njob,a,alice\n", want: map[string]string{"a": "alice by admin"}},
		"two creators":                   {list: "kind,name,user\njob,b,bob\njob,a,alice\njob,a,bob\n", code: ExitError, err: "line 4: jobs.batch/a in team-a has another creator further up"},
		"no user":                        {list: "kind,name,user\njob,b,bob\njob,a,\n", code: ExitError, err: "line 3: user: a user has a name"},
		"no name":                        {list: "- {kind: job, user: alice}", code: ExitError, err: "entry 1: give kind and name"},
		"unknown kind":                   {list: "kind,name,user\nbogus,a,alice\n", code: ExitError, err: "line 2: the cluster does not know this kind"},
		"namespace of one that has none": {list: "kind,namespace,name,user\nnode,team-a,a,alice\n", code: ExitError, err: `line 2: "node" belongs to no namespace`},
		"row too long":                   {list: "kind,name,user\njob,a,alice,more\n", code: ExitError, err: "wrong number of fields"},
		"column missing":                 {list: "kind,name\njob,a\n", code: ExitError, err: "has no column user"},
		"neither":                        {list: "a,b\n1,2\n", code: ExitError, err: "is neither a YAML list"},
		"unknown field":                  {list: "- {kind: job, name: a, usr: alice}", code: ExitError, err: "is neither a YAML list"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := recording(makeBench(t, makeJob("a"), makeJob("b")))
			b.in = tt.list
			assert.Equal(t, tt.code, b.run("creators", "migrate", "--assign", "-"), b.err.String())
			assert.Contains(t, b.err.String(), tt.err)
			if tt.want == nil {
				tt.want = map[string]string{}
			}
			assert.Equal(t, tt.want, b.creators(), "a list is taken as a whole")
		})
	}
}

func TestMigrateNeedsTheRight(t *testing.T) {
	b := recording(makeBench(t, makeJob("a"))).as("stranger")
	assert.Equal(t, ExitDenied, b.run("creators", "migrate", "job/a", "--to", "alice"))
	assert.Equal(t, "error: you may not assign creators: ask a cluster administrator for the verb migrate on creators.authority.alaudadevops.io, "+
		"by a ClusterRole and a ClusterRoleBinding\n", b.err.String())
	assert.Empty(t, b.creators())
}

func TestMigrateDryRunChangesNothing(t *testing.T) {
	b := recording(makeBench(t, makeJob("a"), makeJob("b", approvalv1alpha1.AnnotationCreatedBy, "bob")))
	file := filepath.Join(t.TempDir(), "progress")
	require.Equal(t, ExitDone, b.run("creators", "migrate", "job/a", "job/b", "--to", "al\x1b[2Jice", "--dry-run", "--progress-file", file), b.err.String())
	assert.Equal(t, "jobs.batch/a in team-a: al\\x1b[2Jice\nWould assign: 1, in 0s\nHad one:      1\nNo evidence:  0\nGone:         0\nRefused:      0\n", b.out.String())
	assert.Equal(t, map[string]string{"b": "bob"}, b.creators())
	assert.NoFileExists(t, file)
}

// Where nothing records creators, an assigned one would look like the API server's own.
func TestMigrateWritesNothingWhereNothingIsRecorded(t *testing.T) {
	tests := map[string]struct {
		patch func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error
		want  string
	}{
		"no policies": {patched, "1: jobs.batch have no creator records in this cluster"},
		"policies that know no migration": {func(ctx context.Context, c client.WithWatch, o client.Object, _ client.Patch, opts ...client.PatchOption) error {
			return patched(ctx, c, o, client.RawPatch(types.MergePatchType, []byte(`{}`)), opts...)
		}, "1: the cluster takes no assigned creators"},
		"refused": {func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewForbidden(batchv1.Resource("jobs"), "a", errors.New("because"))
		}, "1: because"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := recording(makeBench(t, makeJob("a")))
			b.funcs.Patch = tt.patch
			assert.Equal(t, ExitDenied, b.run("creators", "migrate", "job/a", "--to", "alice"))
			assert.Contains(t, b.out.String(), "Refused:      1\n              "+tt.want)
			assert.Empty(t, b.creators())
		})
	}
}

// An object that changes is looked at again; another of its name never gets the creator.
func TestMigrateMeetsChanges(t *testing.T) {
	tests := map[string]struct {
		meanwhile func(t *testing.T, c client.Client)
		want      map[string]string
		out       string
		code      int
	}{
		"another write": {func(t *testing.T, c client.Client) {
			job := &batchv1.Job{}
			require.NoError(t, c.Get(t.Context(), keyOf("team-a", "a"), job))
			metav1.SetMetaDataAnnotation(&job.ObjectMeta, "example.com/a", "b")
			require.NoError(t, c.Update(t.Context(), job))
		}, map[string]string{"a": "alice by admin"}, "Assigned:     1", ExitDone},
		"another creator": {func(t *testing.T, c client.Client) {
			job := &batchv1.Job{}
			require.NoError(t, c.Get(t.Context(), keyOf("team-a", "a"), job))
			metav1.SetMetaDataAnnotation(&job.ObjectMeta, approvalv1alpha1.AnnotationCreatedBy, "bob")
			require.NoError(t, c.Update(t.Context(), job))
		}, map[string]string{"a": "bob"}, "Had one:      1", ExitDone},
		"deleted": {func(t *testing.T, c client.Client) {
			require.NoError(t, c.Delete(t.Context(), makeJob("a")))
		}, map[string]string{}, "Gone:         1", ExitNotFound},
		"made anew": {func(t *testing.T, c client.Client) {
			require.NoError(t, c.Delete(t.Context(), makeJob("a")))
			again := makeJob("a")
			again.UID = "another"
			require.NoError(t, c.Create(t.Context(), again))
		}, map[string]string{}, "Gone:         1", ExitNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := recording(makeBench(t, makeJob("a")))
			patch, patches := b.funcs.Patch, 0
			b.funcs.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if patches++; patches == 2 { // after the dry run
					tt.meanwhile(t, c)
					return apierrors.NewConflict(batchv1.Resource("jobs"), "a", errors.New("changed"))
				}
				return patch(ctx, c, o, p, opts...)
			}
			assert.Equal(t, tt.code, b.run("creators", "migrate", "job/a", "--to", "alice"), b.err.String())
			assert.Equal(t, tt.want, b.creators())
			assert.Contains(t, b.out.String(), tt.out)
		})
	}
	t.Run("for ever", func(t *testing.T) {
		b := recording(makeBench(t, makeJob("a")))
		b.funcs.Patch = func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewConflict(batchv1.Resource("jobs"), "a", errors.New("changed"))
		}
		assert.Equal(t, ExitError, b.run("creators", "migrate", "job/a", "--to", "alice"))
		assert.Contains(t, b.out.String(), "Failed:       1\n              1: it changes faster than it can be assigned")
	})
}

func manyJobs(n int) (jobs []client.Object, list string) {
	lines := &strings.Builder{}
	lines.WriteString("kind,name,user\n")
	for i := range n {
		jobs = append(jobs, makeJob(fmt.Sprint("job-", i)))
		fmt.Fprintf(lines, "job,job-%d,user-%d\n", i, i)
	}
	return jobs, lines.String()
}

func TestMigrateIsInterruptedAndGoesOn(t *testing.T) {
	jobs, list := manyJobs(200)
	b := recording(makeBench(t, jobs...))
	path, progress := b.file("list.csv", list), filepath.Join(t.TempDir(), "progress")
	ctx, interrupt := context.WithCancel(t.Context())
	patch := b.funcs.Patch
	var patches, real atomic.Int64
	b.funcs.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if patches.Add(1) == 60 {
			interrupt()
		}
		assert.NoError(t, ctx.Err(), "what is under way is finished")
		options := client.PatchOptions{}
		options.ApplyOptions(opts)
		if len(options.DryRun) == 0 {
			real.Add(1)
		}
		return patch(ctx, c, o, p, opts...)
	}
	args := []string{"creators", "migrate", "--assign", path, "--progress-file", progress, "--rate", "100000", "--concurrency", "8"}
	require.Equal(t, ExitError, b.start(ctx, args...))
	assert.Contains(t, b.err.String(), "error: interrupted: what was assigned stays, and the same command goes on where it stopped\n")
	first := len(b.creators())
	assert.Greater(t, first, 0)
	assert.Less(t, first, 200)
	assert.Contains(t, b.out.String(), fmt.Sprintf("Assigned:     %d, in", first))
	content, err := os.ReadFile(progress)
	require.NoError(t, err)
	assert.Equal(t, first+1, strings.Count(string(content), "\n"), "a line for each, and the head")

	require.Equal(t, ExitDone, b.run(args...), b.err.String())
	assert.Len(t, b.creators(), 200)
	assert.Equal(t, int64(200), real.Load(), "nothing is done twice")
	assert.Contains(t, b.out.String(), fmt.Sprintf("Assigned:     %d, in 0s\nDone before:  %d\n", 200-first, first))

	require.Equal(t, ExitDone, b.run(args...), b.err.String())
	assert.Contains(t, b.out.String(), "Assigned:     0, in 0s\nDone before:  200\n")
}

func TestMigrateGivesUpWhenEverythingFails(t *testing.T) {
	jobs, list := manyJobs(200)
	b := recording(makeBench(t, jobs...))
	var patches atomic.Int64
	b.funcs.Patch = func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		patches.Add(1)
		return errors.New("connection refused")
	}
	assert.Equal(t, ExitError, b.run("creators", "migrate", "--assign", b.file("list.csv", list), "--rate", "100000", "--concurrency", "4", "--namespace", "team-a"))
	assert.Contains(t, b.err.String(), "error: one object after the other fails, the last because: connection refused. Run the same command again when that is mended\n")
	assert.Less(t, patches.Load(), int64(50))
}

func TestMigrateUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "say where creators come from",
		"--assign a --from-audit-log b":      "say where creators come from",
		"--to alice":                         "give at least one KIND/NAME",
		"job/a --assign b":                   "objects are named with --to only",
		"job/a":                              "say where creators come from",
		"job --to alice":                     `"job" is no KIND/NAME`,
		"--assign a --kinds jobs":            "--kinds and --all-namespaces go with --from-audit-log",
		"--from-audit-log a --concurrency 0": "--concurrency takes a number",
		"--from-audit-log a --rate 0":        "--rate takes a positive number",
		"--from-audit-log a --kinds nodes":   `"nodes" belongs to no namespace; add --all-namespaces`,
	} {
		b := recording(makeBench(t))
		assert.Equal(t, ExitUsage, b.run(append([]string{"creators", "migrate"}, strings.Fields(args)...)...), args)
		assert.Contains(t, b.err.String(), want, args)
	}
}

func TestJournal(t *testing.T) {
	const head = `{"countersignCreatorsMigrate":1,"cluster":"c-1"}` + "\n"
	const lineA = `{"kind":"jobs.batch","namespace":"team-a","name":"a","uid":"uid-a","user":"alice","outcome":"assigned"}` + "\n"
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "c-1"}}
	tests := map[string]struct {
		content, after, err string
		want                []string
	}{
		"new":                    {want: []string{"a", "b"}},
		"goes on":                {content: head + lineA, want: []string{"b"}},
		"torn line":              {content: head + lineA + lineA[:40], want: []string{"b"}},
		"torn head":              {content: head[:20], want: []string{"a", "b"}},
		"of an unknown cluster":  {content: strings.Replace(head, "c-1", "", 1) + lineA, want: []string{"b"}},
		"of another cluster":     {content: strings.Replace(head, "c-1", "c-2", 1), err: "it is about another cluster"},
		"another file":           {content: "root:x:0:0\n", err: "it is no progress file"},
		"another file, one line": {content: "root:x:0:0", err: "it is no progress file"},
		"of a later release":     {content: `{"countersignCreatorsMigrate":2}` + "\n", err: "it is no progress file"},
		"garbled":                {content: head + "x\n" + lineA, err: "line 2 is none of its lines"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := recording(makeBench(t, system, makeJob("a"), makeJob("b")))
			path := b.file("progress", tt.content)
			code := b.run("creators", "migrate", "job/a", "job/b", "--to", "alice", "--progress-file", path, "--concurrency", "1")
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			if tt.err != "" {
				assert.Equal(t, ExitError, code)
				assert.Contains(t, b.err.String(), tt.err)
				assert.Equal(t, tt.content, string(content), "nothing of it is lost")
				assert.Empty(t, b.creators())
				return
			}
			require.Equal(t, ExitDone, code, b.err.String())
			var done []string
			for name := range b.creators() {
				done = append(done, name)
			}
			slices.Sort(done)
			assert.Equal(t, tt.want, done)
			assert.Equal(t, 3, strings.Count(string(content), "\n"), string(content))
			assert.Contains(t, string(content), lineA)
		})
	}
}

func TestJournalThatCannotBeWritten(t *testing.T) {
	b := recording(makeBench(t, makeJob("a")))
	assert.Equal(t, ExitError, b.run("creators", "migrate", "job/a", "--to", "alice", "--progress-file", t.TempDir()))
	assert.Contains(t, b.err.String(), "the progress file cannot be opened")
	assert.Equal(t, ExitError, b.run("creators", "migrate", "job/a", "--to", "alice", "--progress-file", "/dev/full"))
	assert.Contains(t, b.err.String(), "it is no progress file")
	assert.Empty(t, b.creators())
}
