package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/cmd/proxy/app"
)

const proxyAudience = "countersign-proxy"

// proxyProcess is the one proxy of this package: its metrics are those of the process.
type proxyProcess struct{ address, health, accessLog string }

var (
	sharedProxy     proxyProcess
	sharedProxyOnce sync.Once
)

// proxied is a place whose connector is used through the proxy, which runs with the rights that are shipped.
type proxied struct {
	*place
	proxyProcess
	client *http.Client
}

func newProxied(t *testing.T, edit ...func(*connectorsv1alpha1.Connector)) *proxied {
	t.Helper()
	// The epoch has to lie in an earlier second than the creation of runs, or their creators are not believed.
	g := startGuard(t, cluster)
	g.awaitGuarded(t, true)
	eventually(t, func(context.Context) error {
		if since := g.epoch.Since(); since.IsZero() || !time.Now().Truncate(time.Second).After(since) {
			return fmt.Errorf("the epoch has not begun yet")
		}
		return nil
	})
	sharedProxyOnce.Do(func() { sharedProxy = runProxy(t) })
	p := &proxied{place: newPlace(t), proxyProcess: sharedProxy}
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: cluster.CA().Pool()}}}
	for _, e := range edit {
		e(p.connector)
	}
	require.NoError(t, p.admin.Update(t.Context(), p.connector))
	p.waitReady()
	p.waitGeneration()
	return p
}

func runProxy(t *testing.T) proxyProcess {
	dir, err := os.MkdirTemp(cluster.StateDir(), "proxy-")
	require.NoError(t, err)
	pair, err := cluster.CA().IssueServer("127.0.0.1")
	require.NoError(t, err)
	o := app.DefaultOptions()
	o.Server.CertFile, o.Server.KeyFile, err = pair.Write(dir, "tls")
	require.NoError(t, err)
	o.Server.Address, o.Server.HealthAddress = freeAddress(t), freeAddress(t)
	o.AccessLog, o.AuthenticationConfig = filepath.Join(dir, "access.log"), cluster.AuthenticationConfig()
	o.AuthorizationTTL, o.Streams.Recheck, o.LeaseName = 100*time.Millisecond, 100*time.Millisecond, "countersign-proxy-test"
	o.DirectoryFile = filepath.Join(dir, "directory.yaml")
	people := filepath.Join(dir, "people.yaml")
	require.NoError(t, os.WriteFile(o.DirectoryFile, fmt.Appendf(nil, "{type: static, static: {path: %q}}", people), 0o600))
	require.NoError(t, os.WriteFile(people, []byte("people: [{username: wanda@example.com, uid: p-1, displayName: Wanda W., email: wanda@example.com}]"), 0o600))
	require.NoError(t, o.Validate())
	go func() {
		// It ends with the process: later tests of this package use it too.
		if err := app.Run(context.Background(), acting(cluster, proxyUser), o); err != nil {
			panic(err)
		}
	}()
	return proxyProcess{address: o.Server.Address, health: o.Server.HealthAddress, accessLog: o.AccessLog}
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (p *proxied) waitReady() {
	p.t.Helper()
	eventually(p.t, func(context.Context) error {
		res, err := http.Get("http://" + p.health + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
			return fmt.Errorf("the proxy is not ready: %s", text)
		}
		return nil
	})
}

// waitGeneration waits until the proxy has seen the connector: a stranger gets the same answer before and after, so
// somebody with the right to use it looks.
func (p *proxied) waitGeneration() {
	p.t.Helper()
	p.bind("watcher", []string{"read"}, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "watcher@example.com"})
	watcher := p.person("watcher@example.com")
	eventually(p.t, func(context.Context) error {
		if got := p.send(watcher, http.MethodGet, p.path("/"), ""); got.reason == "ConnectorUnknown" {
			return fmt.Errorf("the proxy does not know the connector yet")
		}
		return nil
	})
}

// bind lets users, groups and service accounts use the connector.
func (p *proxied) bind(name string, verbs []string, subjects ...rbacv1.Subject) {
	p.t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.owners, Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"connectors.alaudadevops.io"}, Resources: []string{"connectors/apis"}, Verbs: verbs}},
	}
	require.NoError(p.t, p.admin.Create(p.t.Context(), role))
	require.NoError(p.t, p.admin.Create(p.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.owners, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subjects,
	}))
}

func groupSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: name}
}

func (p *proxied) person(email string, groups ...string) string {
	p.t.Helper()
	config, err := cluster.Person(email, groups...)
	require.NoError(p.t, err)
	return config.BearerToken
}

func (p *proxied) path(tool string) string {
	return "/namespaces/" + p.owners + "/connectors/harbor" + tool
}

// got is an answer of the proxy.
type got struct {
	status                int
	verdict, reason, body string
}

func (p *proxied) send(bearer, method, path, body string) got {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "https://"+p.address+path, strings.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+bearer)
	res, err := p.client.Do(r)
	require.NoError(p.t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return got{res.StatusCode, res.Header.Get("Countersign-Verdict"), res.Header.Get("Countersign-Reason"), string(text)}
}

// comes waits until a request gets the reason.
func (p *proxied) comes(bearer, method, path, reason string) got {
	p.t.Helper()
	var last got
	eventually(p.t, func(context.Context) error {
		if last = p.send(bearer, method, path, ""); last.reason != reason {
			return fmt.Errorf("%s, not %s: %s", last.reason, reason, last.body)
		}
		return nil
	})
	return last
}

// grant writes what the controller writes once everybody has approved.
func (p *proxied) grant(r *approvalv1alpha1.ResourceCheckRequest, rules ...*approvalv1alpha1.ResourceCheckRule) {
	p.t.Helper()
	now := metav1.Now()
	r.Status = approvalv1alpha1.ResourceCheckRequestStatus{
		Fingerprint: keyOf(r).String(),
		Object:      &approvalv1alpha1.ObjectSnapshot{UID: p.connector.UID, Generation: p.connector.Generation},
		Validity:    &approvalv1alpha1.Validity{NotBefore: now, NotAfter: metav1.NewTime(now.Add(time.Hour))},
	}
	for _, rule := range rules {
		r.Status.Results = append(r.Status.Results, approvalv1alpha1.CheckResult{
			Name: rule.Name, UID: rule.UID, Generation: rule.Generation, State: duckv1alpha1.CheckApproved, DecidedAt: &now,
		})
	}
	require.NoError(p.t, p.controller.Status().Update(p.t.Context(), r))
}

// end writes that a request came to its end.
func (p *proxied) end(r *approvalv1alpha1.ResourceCheckRequest, reason string) {
	p.t.Helper()
	stored := reread(p.t, r)
	stored.Status.Ended = &approvalv1alpha1.Ended{At: metav1.Now(), Reason: reason, Message: "olga took it back"}
	require.NoError(p.t, p.controller.Status().Update(p.t.Context(), stored))
}

// run is a Job with its pod, made by the Job's controller.
type run struct {
	job   *batchv1.Job
	pod   *corev1.Pod
	token string
}

func (p *proxied) job(name string) run {
	p.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.asking, Name: "builder"}}
	require.NoError(p.t, client.IgnoreAlreadyExists(p.admin.Create(p.t.Context(), account)))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.asking, Name: name}, Spec: batchv1.JobSpec{
		BackoffLimit: ptr.To[int32](0),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			ServiceAccountName: "builder", RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/main"}},
		}},
	}}
	require.NoError(p.t, p.admin.Create(p.t.Context(), job))
	return run{job: job, pod: p.podOf(job), token: p.tokenOf(p.podOf(job))}
}

func (p *proxied) podOf(job *batchv1.Job) *corev1.Pod {
	p.t.Helper()
	var pods corev1.PodList
	eventually(p.t, func(ctx context.Context) error {
		if err := p.admin.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{"job-name": job.Name}); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return fmt.Errorf("job %s has no pod yet", job.Name)
		}
		return nil
	})
	return &pods.Items[0]
}

func (p *proxied) tokenOf(pod *corev1.Pod) string {
	p.t.Helper()
	token, err := cluster.Token(p.t.Context(), pod.Namespace, pod.Spec.ServiceAccountName, proxyAudience, pod)
	require.NoError(p.t, err)
	return token
}

// forRun is what admission would have made of a request for the run.
func (p *proxied) forRun(r run) func(*approvalv1alpha1.ResourceCheckRequest) {
	var account corev1.ServiceAccount
	require.NoError(p.t, p.admin.Get(p.t.Context(), client.ObjectKey{Namespace: p.asking, Name: "builder"}, &account))
	return func(request *approvalv1alpha1.ResourceCheckRequest) {
		request.Spec.Context = approvalv1alpha1.RequestContext{
			Subject:  &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: p.asking, Name: "builder", UID: string(account.UID)},
			Resource: &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: p.asking, Name: r.job.Name, UID: r.job.UID},
		}
	}
}

// logged asserts what the access log never holds.
func (p *proxied) logged(secrets ...string) {
	p.t.Helper()
	text, err := os.ReadFile(p.accessLog)
	require.NoError(p.t, err)
	for _, secret := range secrets {
		assert.NotContains(p.t, string(text), secret)
	}
}
