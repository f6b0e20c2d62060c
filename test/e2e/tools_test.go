package e2e

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const askCommand = "kubectl countersign request connector/"

func TestCranePushesAndPulls(t *testing.T) {
	t.Parallel()
	target := plane.values["PROXY_HOST"] + "/namespaces/prod/connectors/prod-harbor/e2e/app:1"
	local := image(t, "hello from the test\n")

	crane(t, "developer", "push", local, target).fails(t, approvalv1alpha1.ReasonNoRequest, askCommand+"prod-harbor -n prod", "developer@example.com")
	crane(t, "developer", "digest", target).fails(t)
	granted(t, "developer", "connector/prod-harbor", "prod", "team-a")

	crane(t, "developer", "push", local, target).succeeds(t)
	pulled := filepath.Join(t.TempDir(), "pulled.tar")
	crane(t, "intruder", "pull", target, pulled).succeeds(t)
	assert.FileExists(t, pulled)
	pushed := crane(t, "developer", "digest", target).succeeds(t, "sha256:").output
	assert.Equal(t, pushed, crane(t, "intruder", "digest", target).succeeds(t).output)
	crane(t, "intruder", "push", image(t, "something else\n"), target).fails(t, approvalv1alpha1.ReasonNoRequest, "intruder@example.com")
	crane(t, "intruder", "delete", target).fails(t, approvalv1alpha1.ReasonNoRequest)
}

// kubectl runs kubectl through the proxy as a person.
func kubectl(t testing.TB, person string, args ...string) ran {
	t.Helper()
	return program(t, nil, "kubectl", append(args, "--context", "prod-k8s-"+person)...)
}

func TestKubectlGetsAndApplies(t *testing.T) {
	t.Parallel()
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(manifest, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: prod-apps}, spec: {containers: [{name: web, image: web}]}}`), 0o600))

	kubectl(t, "developer", "get", "pods").succeeds(t)
	kubectl(t, "developer", "apply", "-f", manifest).fails(t, approvalv1alpha1.ReasonNoRequest, askCommand+"prod-k8s -n prod", "developer@example.com")
	kubectl(t, "developer", "get", "secrets").fails(t, approvalv1alpha1.ReasonNoRequest)
	granted(t, "developer", "connector/prod-k8s", "prod", "team-a")

	kubectl(t, "developer", "apply", "-f", manifest).succeeds(t, "pod/web created")
	kubectl(t, "developer", "apply", "-f", manifest).succeeds(t, "pod/web unchanged")
	kubectl(t, "intruder", "get", "pods").succeeds(t, "web")
	kubectl(t, "intruder", "delete", "pod", "web").fails(t, approvalv1alpha1.ReasonNoRequest, "intruder@example.com")
	kubectl(t, "developer", "delete", "pod", "web", "--wait=false").succeeds(t, `pod "web" deleted`)
}

const (
	gitUser     = "bot"
	gitPassword = "only-the-connector-knows"
	repository  = "repo"
)

// gitServer is git's own server with one repository that has a commit. It takes only the connector's password.
func gitServer(t *testing.T) (address, bare string) {
	t.Helper()
	root := t.TempDir()
	bare = filepath.Join(root, "app.git")
	git(t, "init", "--bare", "--initial-branch=main", bare).succeeds(t)
	git(t, "-C", bare, "config", "http.receivepack", "true").succeeds(t)
	backend := strings.TrimSpace(git(t, "--exec-path").succeeds(t).output)
	handler := &cgi.Handler{
		Path: filepath.Join(backend, "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != gitUser || password != gitPassword {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	commit(t, filepath.Join(t.TempDir(), "seed"), bare, "first")
	return server.URL, bare
}

// git runs the system's git for nobody in particular.
func git(t testing.TB, args ...string) ran {
	t.Helper()
	return program(t, []string{
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_SSL_CAINFO=" + plane.values["PROXY_CA"],
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com",
	}, "git", args...)
}

// commit makes a first commit in a new working copy and pushes it to a repository on this machine.
func commit(t testing.TB, dir, bare, message string) {
	t.Helper()
	git(t, "clone", bare, dir).succeeds(t)
	addCommit(t, dir, message)
	git(t, "-C", dir, "push", "origin", "HEAD:main").succeeds(t)
}

func addCommit(t testing.TB, dir, message string) {
	t.Helper()
	git(t, "-C", dir, "commit", "--allow-empty", "-m", message).succeeds(t)
}

func TestGitClonesAndPushes(t *testing.T) {
	s := newStage(t)
	address, bare := gitServer(t)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: repository}, Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{corev1.BasicAuthUsernameKey: gitUser, corev1.BasicAuthPasswordKey: gitPassword},
	})
	connector := s.connector(repository)
	connector.Spec.ConnectorClassName, connector.Spec.Address = "git", address
	connector.Spec.Auth = &connectorsv1alpha1.ConnectorAuth{Name: "basicAuth", SecretRef: &connectorsv1alpha1.SecretReference{Name: repository}}
	s.create(connector)
	s.rule("everything", "ApprovalRequest", people(2), func(r *approvalv1alpha1.ResourceCheckRule) {
		r.Spec.ObjectRef.Name = repository
		r.Spec.When = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationRead, approvalv1alpha1.OperationWrite}}
	})
	remote := func(person string) string {
		host := plane.values["PROXY_HOST"]
		return fmt.Sprintf("https://%s:%s@%s/namespaces/%s/connectors/%s/app.git", person, url.QueryEscape(plane.token(t, person)), host, s.prod, repository)
	}
	dir := filepath.Join(t.TempDir(), "work")

	git(t, "clone", remote("developer"), dir).fails(t, approvalv1alpha1.ReasonNoRequest, askCommand+repository, "developer@example.com")
	name := nameIn(cli(t, "developer", "request", "connector/"+repository, "-n", s.prod, "--in", s.team, "--use", "Read",
		"--reason", "look", "-o", "name").succeeds(t).output)
	s.approve(named(s.team, name), "everything", 2)
	s.eventually("a clone comes through", func() error {
		if r := git(t, "clone", remote("developer"), dir); r.code != 0 {
			return fmt.Errorf("%s", r.output)
		}
		return nil
	})
	addCommit(t, dir, "second")
	git(t, "-C", dir, "push", "origin", "HEAD:main").fails(t, approvalv1alpha1.ReasonOutsideRequest)

	granted(t, "developer", "connector/"+repository, s.prod, s.team)
	git(t, "-C", dir, "push", "origin", "HEAD:main").succeeds(t)
	git(t, "-C", bare, "log", "main", "--format=%s").succeeds(t, "second", "first")
	git(t, "clone", remote("intruder"), dir+"-2").fails(t, approvalv1alpha1.ReasonNoRequest, "intruder@example.com")
}
