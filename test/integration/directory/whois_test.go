package directory

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/AlaudaDevops/countersign/cmd/proxy/app"
	"github.com/AlaudaDevops/countersign/pkg/cli"
	"github.com/AlaudaDevops/countersign/test/env/port"
)

const proxyUser = "system:serviceaccount:countersign-system:countersign-proxy"

// runProxy runs a proxy, with the rights that are shipped, whose directory is OpenShift's users.
func runProxy(t *testing.T) (address string) {
	t.Helper()
	dir := t.TempDir()
	pair, err := cluster.CA().IssueServer("127.0.0.1")
	require.NoError(t, err)
	o := app.DefaultOptions()
	o.Server.CertFile, o.Server.KeyFile, err = pair.Write(dir, "tls")
	require.NoError(t, err)
	o.Server.Address, o.Server.HealthAddress = free(t), free(t)
	o.AccessLog, o.AuthenticationConfig = filepath.Join(dir, "access.log"), cluster.AuthenticationConfig()
	o.DirectoryFile = "../../../config/samples/directory/openshift.yaml"
	require.NoError(t, o.Validate())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, acting(proxyUser), o) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	eventually(t, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.Server.HealthAddress+"/healthz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	return o.Server.Address
}

func free(t *testing.T) string {
	t.Helper()
	number, err := port.Reserve()
	require.NoError(t, err)
	return fmt.Sprint("127.0.0.1:", number)
}

func eventually(t *testing.T, condition wait.ConditionWithContextFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, wait.PollUntilContextCancel(ctx, tick, true, condition))
}

// whoisTellsOfUsers asks the proxy with the CLI, as somebody who may not read Users himself.
func whoisTellsOfUsers(t *testing.T, alice *unstructured.Unstructured) {
	const clerk = "clerk@example.com"
	_, err := cluster.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "clerk"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "countersign-whois"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: clerk}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	whois := asking(t, clerk, runProxy(t))

	var out string
	eventually(t, func(context.Context) (bool, error) { // roles are taken up from a watch
		var code int
		code, out = whois("alice")
		return code == cli.ExitDone, nil
	})
	assert.Contains(t, out, "User alice")
	assert.Contains(t, out, "directory entry")
	assert.Contains(t, out, string(alice.GetUID()))

	code, out := whois("bob", "a/b", "..", "%2f", "kube:admin", "alice?x", "twin")
	assert.Equal(t, cli.ExitNotFound, code, out)
	assert.NotContains(t, out, "directory entry")
	assert.NotContains(t, out, "User alice")
	assert.Equal(t, 7, strings.Count(out, "unknown "), out)
	assert.Contains(t, out, "no User of OpenShift can have this name")
}

// asking returns kubectl countersign whois as a person, with the exit code and all that it writes.
func asking(t *testing.T, person, proxy string) func(names ...string) (int, string) {
	t.Helper()
	config, err := cluster.Person(person)
	require.NoError(t, err)
	content, err := cluster.Kubeconfig("person", config)
	require.NoError(t, err)
	dir := t.TempDir()
	kubeconfig, ca := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(kubeconfig, content, 0o600))
	require.NoError(t, os.WriteFile(ca, cluster.CA().CertPEM(), 0o600))
	return func(names ...string) (int, string) {
		var out bytes.Buffer
		args := append([]string{"--kubeconfig", kubeconfig, "--cache-dir", dir, "whois", "-o", "wide", "--proxy-url", "https://" + proxy, "--proxy-ca", ca}, names...)
		return cli.Run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}), out.String()
	}
}
