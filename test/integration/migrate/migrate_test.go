package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/cli"
)

const (
	old           = 10_000
	namespaces    = 4
	administrator = "admin@example.com"
	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

// people made the old objects: with tokens of their own, or impersonated by an administrator. Names need not be labels.
var people = []struct {
	name         string
	impersonated bool
}{
	{"dev@example.com", false}, {"https://issuer/#sub", true}, {"CN=dev,O=corp", true}, {"开发者", true}, {"a:b", true}, {"a_b", true},
	{"system:serviceaccount:team-a:builder", true}, {strings.Repeat("long ", 60), true},
}

// world is the old objects, by namespace and name, and who made them.
type world struct {
	t          *testing.T
	admin      client.Client
	namespaces []string
	mu         sync.Mutex
	creators   map[types.NamespacedName]string
	uids       map[types.NamespacedName]types.UID
}

func as(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return c
}

// newWorld makes the old objects.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, admin: as(t, cluster.Admin()), creators: map[types.NamespacedName]string{}, uids: map[types.NamespacedName]types.UID{}}
	for i := range namespaces {
		name := fmt.Sprint("team-", i)
		require.NoError(t, w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		w.namespaces = append(w.namespaces, name)
	}
	bind(t, w.admin, "dev@example.com", rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}})
	var clients []client.Client
	for _, person := range people {
		clients = append(clients, w.client(person.name, person.impersonated))
	}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range old {
		group.Go(func() error { return w.create(clients[i%len(people)], people[i%len(people)].name, i) })
	}
	require.NoError(t, group.Wait())
	return w
}

func (w *world) client(name string, impersonated bool) client.Client {
	w.t.Helper()
	if impersonated {
		config := cluster.Admin()
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
		return as(w.t, config)
	}
	config, err := cluster.Person(name)
	require.NoError(w.t, err)
	return as(w.t, config)
}

// create makes a job that never runs, every other one under a name that the server completes.
func (w *world) create(c client.Client, by string, i int) error {
	job := newJob(w.namespaces[i%namespaces], fmt.Sprint("job-", i))
	if i%2 == 0 {
		job.GenerateName, job.Name = job.Name+"-", ""
	}
	if err := c.Create(w.t.Context(), job); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.creators[client.ObjectKeyFromObject(job)], w.uids[client.ObjectKeyFromObject(job)] = by, job.UID
	return nil
}

func newJob(namespace, name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/main"}}}}},
	}
}

func bind(t *testing.T, admin client.Client, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "migrate-"}, Rules: rules}
	require.NoError(t, admin.Create(t.Context(), role))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "migrate-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}

// install puts the product's policies into force.
func (w *world) install() {
	w.t.Helper()
	config := "../../../config/"
	require.NoError(w.t, cluster.ApplyFiles(w.t.Context(), cluster.Admin(), config+"rbac", config+"roles", config+"policies"))
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	require.NoError(w.t, wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		job := newJob(w.namespaces[0], "recorded")
		err := w.admin.Create(ctx, job, client.DryRunAll)
		return err == nil && job.Annotations[approvalv1alpha1.AnnotationCreatedBy] != "", nil
	}), "creators are recorded")
}

// records are the creator records of all jobs, by namespace and name: creator, and who assigned him.
func (w *world) records() map[types.NamespacedName][2]string {
	w.t.Helper()
	jobs := &metav1.PartialObjectMetadataList{}
	jobs.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	require.NoError(w.t, w.admin.List(w.t.Context(), jobs))
	found := map[types.NamespacedName][2]string{}
	for i := range jobs.Items {
		record := jobs.Items[i].Annotations
		found[client.ObjectKeyFromObject(&jobs.Items[i])] = [2]string{record[approvalv1alpha1.AnnotationCreatedBy], record[approvalv1alpha1.AnnotationMigratedBy]}
	}
	return found
}

// program runs the command line as somebody.
type program struct {
	t          *testing.T
	kubeconfig string
	out, err   bytes.Buffer
}

func personAt(t *testing.T, email string) *program {
	t.Helper()
	config, err := cluster.Person(email)
	require.NoError(t, err)
	content, err := cluster.Kubeconfig("person", config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return &program{t: t, kubeconfig: file}
}

func (p *program) run(ctx context.Context, args ...string) int {
	p.t.Helper()
	p.out.Reset()
	p.err.Reset()
	common := []string{"--kubeconfig", p.kubeconfig, "--cache-dir", filepath.Dir(p.kubeconfig), "creators", "migrate"}
	return cli.Run(ctx, append(common, args...), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &p.out, ErrOut: &p.err})
}

// start runs the built program as another process, which a signal ends as it ends a person's.
func (p *program) start(built string, args ...string) *exec.Cmd {
	p.t.Helper()
	p.out.Reset()
	p.err.Reset()
	common := []string{"--kubeconfig", p.kubeconfig, "--cache-dir", filepath.Dir(p.kubeconfig), "creators", "migrate"}
	process := exec.CommandContext(p.t.Context(), built, append(common, args...)...)
	process.Stdout, process.Stderr = &p.out, &p.err
	require.NoError(p.t, process.Start())
	return process
}

// ended is the state of the process that is ended by the signal in the middle, after so many lines of its progress file.
func (p *program) ended(process *exec.Cmd, progress string, after int, by os.Signal) *os.ProcessState {
	p.t.Helper()
	gone := make(chan error, 1)
	go func() { gone <- process.Wait() }()
	require.Eventually(p.t, func() bool { return len(gone) > 0 || lines(progress) > after }, patience, tick)
	require.Empty(p.t, gone, "it still runs: %s", &p.err)
	require.NoError(p.t, process.Process.Signal(by))
	var exit *exec.ExitError
	require.ErrorAs(p.t, <-gone, &exit)
	return exit.ProcessState
}

// build builds the command line.
func build(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubectl-countersign")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../../cmd/kubectl-countersign").CombinedOutput()
	require.NoErrorf(t, err, "%s", output)
	return path
}

// logs are the API server's audit logs, of which it begins a new one now and then.
func logs(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cluster.StateDir(), "logs", "audit*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return strings.Join(files, ",")
}

// lines is how many lines a file has; none, if it is not there yet.
func lines(path string) int {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	return bytes.Count(content, []byte("\n"))
}

// countRecords counts objects with a creator.
func countRecords(records map[types.NamespacedName][2]string) (n int) {
	for _, record := range records {
		if record[0] != "" {
			n++
		}
	}
	return n
}

func TestMigrateTenThousandOldObjects(t *testing.T) {
	w := newWorld(t)
	keys := slices.SortedFunc(maps.Keys(w.creators), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	require.Len(t, keys, old)

	bind(t, w.admin, administrator, rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get", "list", "patch"}})
	admin := personAt(t, administrator)
	progress := filepath.Join(t.TempDir(), "creators.progress")
	migrate := func() []string { // the API server renames its log when it has grown, as it does meanwhile
		return []string{"-A", "--kinds", "jobs", "--from-audit-log", logs(t), "--progress-file", progress, "--rate", "100000", "--concurrency", "8"}
	}

	// Without the verb nothing is even read; without the policies nothing is written.
	require.Equal(t, cli.ExitDenied, admin.run(t.Context(), migrate()...))
	assert.Contains(t, admin.err.String(), "the verb migrate on creators.authority.alaudadevops.io")
	bind(t, w.admin, administrator, rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.AuthorityGroup}, Resources: []string{"creators"}, Verbs: []string{"migrate"}})
	require.Equal(t, cli.ExitDenied, admin.run(t.Context(), "job/"+keys[0].Name, "-n", keys[0].Namespace, "--to", "mallory"))
	assert.Contains(t, admin.out.String(), "have no creator records in this cluster")
	assert.Zero(t, countRecords(w.records()))
	w.install()

	// Some are gone and made anew under their names meanwhile, and have a record of their own.
	renewed := keys[:50]
	for _, key := range renewed {
		require.NoError(t, w.admin.Delete(t.Context(), newJob(key.Namespace, key.Name), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		require.NoError(t, w.admin.Create(t.Context(), newJob(key.Namespace, key.Name)))
	}
	admins := w.records()[renewed[0]][0]
	require.NotEmpty(t, admins)

	// Interrupted in the middle, it leaves a progress file that agrees with the cluster.
	built := build(t)
	state := admin.ended(admin.start(built, migrate()...), progress, 2000, os.Interrupt)
	require.Equal(t, cli.ExitError, state.ExitCode(), admin.err.String())
	assert.Contains(t, admin.err.String(), "interrupted: what was assigned stays")
	first := countRecords(w.records()) - len(renewed)
	assert.Greater(t, first, 1999)
	assert.Less(t, first, old-len(renewed), "there is something left")
	assert.Equal(t, first+1, lines(progress), "a line for each, and the head")
	assert.Contains(t, admin.out.String(), fmt.Sprintf("Assigned:     %d, in ", first))

	// Killed, it had no time to write down the last that it did, and had written down nothing that it did not do.
	state = admin.ended(admin.start(built, migrate()...), progress, first+2000, os.Kill)
	require.Equal(t, syscall.SIGKILL, state.Sys().(syscall.WaitStatus).Signal())
	known := lines(progress) - 1
	killed := countRecords(w.records()) - len(renewed)
	assert.GreaterOrEqual(t, killed, known)
	assert.Less(t, killed, old-len(renewed), "there is something left")

	// The same command goes on.
	require.Equal(t, cli.ExitDone, admin.run(t.Context(), migrate()...), admin.err.String()+admin.out.String())
	want := map[types.NamespacedName][2]string{}
	for key, creator := range w.creators {
		want[key] = [2]string{creator, administrator}
	}
	for _, key := range renewed {
		want[key] = [2]string{admins, ""}
	}
	assert.Empty(t, cmp.Diff(want, w.records()), "everybody's own, each as assigned, and no other")
	assert.Contains(t, admin.out.String(), fmt.Sprintf("Assigned:     %d, in ", old-len(renewed)-killed))
	assert.Contains(t, admin.out.String(), fmt.Sprintf("Done before:  %d\nHad one:      %d\nNo evidence:  0\nGone:         0\nRefused:      0\n", known, killed-known+len(renewed)))
	t.Logf("interrupted after %d, killed after %d, of which %d were written down; last run:\n%s", first, killed, known, admin.out.String())

	// Nothing is ever replaced, by this command or past it.
	require.Equal(t, cli.ExitDone, admin.run(t.Context(), "job/"+keys[100].Name, "job/"+renewed[0].Name, "-n", keys[100].Namespace, "--to", "mallory"))
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		approvalv1alpha1.AnnotationCreatedBy: "mallory", approvalv1alpha1.AnnotationMigratedBy: "mallory"}}})
	require.NoError(t, err)
	config, err := cluster.Person(administrator)
	require.NoError(t, err)
	for _, key := range []types.NamespacedName{keys[100], renewed[0]} {
		require.NoError(t, as(t, config).Patch(t.Context(), newJob(key.Namespace, key.Name), client.RawPatch(types.MergePatchType, patch)))
	}
	assert.Empty(t, cmp.Diff(want, w.records()))
}

// A patch for a former object never reaches the one that has its name now.
func TestMigrateMeetsAnotherObjectOfTheName(t *testing.T) {
	admin := as(t, cluster.Admin())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "again-"}}
	require.NoError(t, admin.Create(t.Context(), namespace))
	// Whoever was not authenticated leaves no record, so this is an object without one.
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:anonymous", Groups: []string{"system:unauthenticated", "system:masters"}}
	job := newJob(namespace.Name, "a")
	require.NoError(t, as(t, config).Create(t.Context(), job))
	require.Empty(t, job.Annotations[approvalv1alpha1.AnnotationCreatedBy])

	list := filepath.Join(t.TempDir(), "list.csv")
	write := func(uid types.UID) {
		require.NoError(t, os.WriteFile(list, fmt.Appendf(nil, "kind,namespace,name,uid,user\njob,%s,a,%s,alice\n", namespace.Name, uid), 0o600))
	}
	content, err := cluster.Kubeconfig("admin", cluster.Admin())
	require.NoError(t, err)
	p := &program{t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	require.NoError(t, os.WriteFile(p.kubeconfig, content, 0o600))
	write("former")
	require.Equal(t, cli.ExitDone, p.run(t.Context(), "--assign", list), p.err.String())
	assert.Contains(t, p.out.String(), "Gone:         1")
	write(job.UID)
	require.Equal(t, cli.ExitDone, p.run(t.Context(), "--assign", list), p.err.String()+p.out.String())
	assert.Contains(t, p.out.String(), "Assigned:     1")

	// What the command rests on besides the version: the API server itself compares the UID in a patch.
	patch := fmt.Appendf(nil, `{"metadata":{"uid":"former","annotations":{"example.com/a":"b"}}}`)
	err = admin.Patch(t.Context(), newJob(namespace.Name, "a"), client.RawPatch(types.MergePatchType, patch))
	assert.ErrorContains(t, err, `metadata.uid: Invalid value: "former": field is immutable`)
}
