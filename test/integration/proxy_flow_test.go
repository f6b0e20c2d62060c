package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/env"
)

// plainTool answers everything.
func plainTool(t *testing.T) func(*connectorsv1alpha1.Connector) {
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "tool: %s %s", r.Method, r.URL.Path)
	}))
	t.Cleanup(tool.Close)
	return func(c *connectorsv1alpha1.Connector) {
		c.Spec.ConnectorClassName, c.Spec.Address = "any", tool.URL
	}
}

func TestS14_EveryUseNeedsARight(t *testing.T) {
	p := newProxied(t, plainTool(t))
	p.bind("readers", []string{"read"}, groupSubject("readers"))
	p.bind("writers", []string{"read", "write"}, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "wanda@example.com"})

	stranger := p.person("stranger@example.com", "others")
	assert.Equal(t, "ConnectorUnknown", p.send(stranger, http.MethodGet, p.path("/a"), "").reason)
	reader := p.person("rita@example.com", "readers")
	assert.Equal(t, "tool: GET /a", p.comes(reader, http.MethodGet, p.path("/a"), "NoApplicableRule").body)
	refused := p.send(reader, http.MethodPost, p.path("/a"), "")
	assert.Equal(t, "NotPermitted", refused.reason)
	assert.Equal(t, http.StatusForbidden, refused.status)
	assert.Equal(t, "tool: POST /a", p.comes(p.person("wanda@example.com"), http.MethodPost, p.path("/a"), "NoApplicableRule").body)

	var bindings rbacv1.RoleBinding
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Namespace: p.owners, Name: "readers"}, &bindings))
	require.NoError(t, p.admin.Delete(t.Context(), &bindings))
	p.comes(reader, http.MethodGet, p.path("/a"), "ConnectorUnknown")
}

func TestProxy_APersonsApproval(t *testing.T) {
	p := newProxied(t, plainTool(t))
	p.bind("devs", []string{"read", "write"}, groupSubject("devs"))
	rule := p.rule("write")
	dev := p.person("dev@example.com", "devs")
	denied := p.comes(dev, http.MethodPut, p.path("/a"), "NoRequest")
	assert.Contains(t, denied.body, "kubectl countersign request connector/harbor -n "+p.owners)

	ask := p.request("ask", byPerson("dev@example.com"))
	p.comes(dev, http.MethodPut, p.path("/a"), "ChecksPending")
	p.grant(ask, rule)
	assert.Equal(t, "tool: PUT /a", p.comes(dev, http.MethodPut, p.path("/a"), "AllChecksApproved").body)
	other := p.person("eve@example.com", "devs")
	assert.Equal(t, "NoRequest", p.send(other, http.MethodPut, p.path("/a"), "").reason, "nobody else's")

	rule.Spec.When = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{"Write"}}
	require.NoError(t, p.admin.Update(t.Context(), rule))
	p.comes(dev, http.MethodPut, p.path("/a"), "RulesChanged")
	p.grant(reread(t, ask), reread(t, rule))
	p.comes(dev, http.MethodPut, p.path("/a"), "AllChecksApproved")
	p.end(ask, approvalv1alpha1.ReasonRevoked)
	assert.Contains(t, p.comes(dev, http.MethodPut, p.path("/a"), "Revoked").body, "olga took it back")
	p.logged(dev, other)
}

func byPerson(email string) func(*approvalv1alpha1.ResourceCheckRequest) {
	return func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context.Subject.Name, r.Spec.Context.Subject.UID = email, env.Subject(email)
		r.Spec.RequestedBy.Username = email
	}
}

func TestProxy_ARunsApproval(t *testing.T) {
	p := newProxied(t, plainTool(t))
	rule := p.rule("write")
	run := p.job("one")
	p.bind("builder", []string{"read", "write"}, rbacv1.Subject{Kind: "ServiceAccount", Namespace: p.asking, Name: "builder"})
	denied := p.comes(run.token, http.MethodPut, p.path("/a"), "NoRequest")
	assert.Contains(t, denied.body, "--in "+p.asking)
	assert.Contains(t, denied.body, "--run job/one")

	p.grant(p.request("ask", p.forRun(run)), rule)
	p.comes(run.token, http.MethodPut, p.path("/a"), "AllChecksApproved")

	other := p.job("two")
	p.comes(other.token, http.MethodPut, p.path("/a"), "NoRequest")

	unbound, err := cluster.Token(t.Context(), p.asking, "builder", proxyAudience, nil)
	require.NoError(t, err)
	assert.Equal(t, "NotPermitted", p.send(unbound, http.MethodPut, p.path("/a"), "").reason)
	elsewhere, err := cluster.Token(t.Context(), p.asking, "builder", "", run.pod)
	require.NoError(t, err)
	assert.Equal(t, "Unauthenticated", p.send(elsewhere, http.MethodPut, p.path("/a"), "").reason)

	p.finish(run.job)
	p.comes(run.token, http.MethodPut, p.path("/a"), "ContextEnded")
	p.logged(run.token, other.token, unbound, elsewhere)
}

// finish deletes the Job but leaves its pod.
func (p *proxied) finish(job *batchv1.Job) {
	p.t.Helper()
	require.NoError(p.t, p.admin.Delete(p.t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
}

// clusterTool makes the connector one to the API server itself, with an identity of the owner's.
func clusterTool(t *testing.T, p *proxied) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.owners, Name: "tool"}}
	require.NoError(t, p.admin.Create(t.Context(), account))
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: p.owners, Name: "tool"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create"}},
	}}
	require.NoError(t, p.admin.Create(t.Context(), role))
	require.NoError(t, p.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.owners, Name: "tool"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tool"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: p.owners, Name: "tool"}},
	}))
	token, err := cluster.Token(t.Context(), p.owners, "tool", "", nil)
	require.NoError(t, err)
	p.secret("login", connectorsv1alpha1.SecretTypeBearerToken, map[string]string{"token": token})
	p.secret("ca", corev1.SecretTypeOpaque, map[string]string{"ca.crt": string(cluster.CA().CertPEM())})
	p.connector = reread(t, p.connector)
	p.connector.Spec.ConnectorClassName, p.connector.Spec.Address = "k8s", cluster.Admin().Host
	p.connector.Spec.Auth = &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "login"}}
	p.connector.Spec.CACertSecretRef = &connectorsv1alpha1.SecretReference{Name: "ca"}
	require.NoError(t, p.admin.Update(t.Context(), p.connector))
}

func (p *proxied) secret(name string, kind corev1.SecretType, data map[string]string) {
	p.t.Helper()
	require.NoError(p.t, p.admin.Create(p.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.owners, Name: name}, Type: kind, StringData: data}))
}

// through is a Kubernetes client that goes through the connector.
func (p *proxied) through(bearer string) kubernetes.Interface {
	p.t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + p.address + p.path(""), BearerToken: bearer, TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CA().CertPEM()},
	})
	require.NoError(p.t, err)
	return c
}

func TestProxy_KubernetesBehindAConnector(t *testing.T) {
	p := newProxied(t)
	clusterTool(t, p)
	p.bind("devs", []string{"read", "write"}, groupSubject("devs"))
	rule := p.rule("write")
	bearer := p.person("dev@example.com", "devs")
	dev := p.through(bearer)
	var maps *corev1.ConfigMapList
	eventually(t, func(ctx context.Context) (err error) {
		maps, err = dev.CoreV1().ConfigMaps(p.owners).List(ctx, metav1.ListOptions{})
		return err
	})

	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	_, err := dev.CoreV1().ConfigMaps(p.owners).Create(t.Context(), settings, metav1.CreateOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
	assert.ErrorContains(t, err, "nobody has asked for this use")
	assert.ErrorContains(t, err, "you are seen as dev@example.com")
	_, err = dev.CoreV1().Secrets(p.owners).List(t.Context(), metav1.ListOptions{})
	assert.ErrorContains(t, err, "(NoRequest)", "reading Secrets is a write")

	events, err := dev.CoreV1().ConfigMaps(p.owners).Watch(t.Context(), metav1.ListOptions{ResourceVersion: maps.ResourceVersion})
	require.NoError(t, err)
	defer events.Stop()
	p.grant(p.request("ask", byPerson("dev@example.com")), rule)
	eventually(t, func(ctx context.Context) error {
		_, err := dev.CoreV1().ConfigMaps(p.owners).Create(ctx, settings, metav1.CreateOptions{})
		return err
	})
	event := <-events.ResultChan()
	assert.Equal(t, watch.Added, event.Type)

	// S13: the right to read is lost, so the watch ends, and no new one begins.
	var binding rbacv1.RoleBinding
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Namespace: p.owners, Name: "devs"}, &binding))
	require.NoError(t, p.admin.Delete(t.Context(), &binding))
	for event := range events.ResultChan() {
		assert.Equal(t, watch.Error, event.Type)
	}
	_, err = dev.CoreV1().ConfigMaps(p.owners).List(t.Context(), metav1.ListOptions{})
	require.Error(t, err)
	// As long as the right to write is remembered, the refusal names the right that is missing; then nothing is known.
	eventually(t, func(ctx context.Context) error {
		_, err := dev.CoreV1().ConfigMaps(p.owners).List(ctx, metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is not unknown yet: %w", err)
		}
		return nil
	})
	p.logged(bearer)
}

// gitServer serves bare repositories by git's own program.
func gitServer(t *testing.T) func(*connectorsv1alpha1.Connector) {
	programs, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	root := t.TempDir()
	_, err = git(t, root, nil, "init", "--bare", "-b", "main", "app.git")
	require.NoError(t, err)
	_, err = git(t, filepath.Join(root, "app.git"), nil, "config", "http.receivepack", "true")
	require.NoError(t, err)
	server := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	})
	t.Cleanup(server.Close)
	return func(c *connectorsv1alpha1.Connector) {
		c.Spec.ConnectorClassName, c.Spec.Address = "git", server.URL
	}
}

// git runs git without anybody's settings.
func git(t *testing.T, dir string, environment []string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	command.Env = append(command.Env, environment...)
	text, err := command.CombinedOutput()
	return string(text), err
}

func TestProxy_GitBehindAConnector(t *testing.T) {
	p := newProxied(t, gitServer(t))
	p.bind("devs", []string{"read", "write"}, groupSubject("devs"))
	rule := p.rule("write")
	bearer := p.person("dev@example.com", "devs")
	p.comes(bearer, http.MethodPost, p.path("/app.git/git-receive-pack"), "NoRequest")

	work, ca := t.TempDir(), filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, cluster.CA().CertPEM(), 0o600))
	with := []string{"GIT_SSL_CAINFO=" + ca}
	url := "https://whoever:" + bearer + "@" + p.address + p.path("/app.git")
	text, err := git(t, work, with, "clone", url, "app")
	require.NoError(t, err, text)
	app := filepath.Join(work, "app")
	text, err = git(t, app, with, "commit", "--allow-empty", "-m", "first")
	require.NoError(t, err, text)

	text, err = git(t, app, with, "push", "origin", "HEAD:main")
	require.Error(t, err)
	assert.Contains(t, text, "remote: countersign: Connector "+p.owners+"/harbor is guarded by rule write")
	assert.Contains(t, text, "remote: to ask: kubectl countersign request connector/harbor -n "+p.owners)
	assert.Contains(t, text, "remote: you are seen as dev@example.com")

	p.grant(p.request("ask", byPerson("dev@example.com")), rule)
	p.comes(bearer, http.MethodGet, p.path("/app.git/info/refs?service=git-receive-pack"), "AllChecksApproved")
	text, err = git(t, app, with, "push", "origin", "HEAD:main")
	require.NoError(t, err, text)
	text, err = git(t, work, with, "clone", url, "again")
	require.NoError(t, err, text)
	text, err = git(t, filepath.Join(work, "again"), with, "log", "--oneline")
	require.NoError(t, err)
	assert.Contains(t, text, "first")
	p.logged(bearer)
}
