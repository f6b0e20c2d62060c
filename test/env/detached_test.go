package env

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pids(c *Cluster) map[string]int {
	found := map[string]int{}
	for _, p := range c.processes.running {
		found[p.Name] = p.PID
	}
	return found
}

func TestDetachedClusterKeepsItsState(t *testing.T) {
	dir := t.TempDir()
	_, err := Attach(t.Context(), dir)
	require.ErrorContains(t, err, "start one first")

	helper, err := os.Executable()
	require.NoError(t, err)
	start := func() *Cluster {
		c, err := Start(t.Context(), Detached(dir, helper))
		require.NoError(t, err)
		return c
	}
	first := start()
	t.Cleanup(func() { assert.NoError(t, first.Stop()) })
	running := pids(first)
	require.Len(t, running, 5)
	_, err = first.Client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	assert.Equal(t, running, pids(start()), "a second start changes nothing")

	attached, err := Attach(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, running, pids(attached))
	images, err := attached.StartRegistry(t.Context(), filepath.Join(dir, "images"), "robot", "secret")
	require.NoError(t, err)
	running = pids(attached)
	require.Len(t, running, 6)
	assert.Equal(t, running, pids(start()), "a registry is known to every handle")
	require.NoError(t, attached.Stop())
	for name, pid := range running {
		assert.Empty(t, birth(pid), "%s still runs", name)
	}
	_, err = Attach(t.Context(), dir)
	require.ErrorContains(t, err, "start it first")

	again := start()
	t.Cleanup(func() { assert.NoError(t, again.Stop()) })
	_, err = first.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	assert.NoError(t, err, "data, address and credentials are those of before")
	assertEgressWorks(t, again)
	imagesAgain, err := again.StartRegistry(t.Context(), filepath.Join(dir, "images"), "robot", "secret")
	require.NoError(t, err)
	assert.Equal(t, images.Address, imagesAgain.Address)
}

// assertEgressWorks reaches the API server through the helper process, by its cluster IP.
func assertEgressWorks(t *testing.T, c *Cluster) {
	t.Helper()
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "egress"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.layout.egressSocket())
		},
		TLSClientConfig: &tls.Config{RootCAs: c.ca.Pool()},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+kubernetesService+":443/readyz", nil)
	require.NoError(t, err)
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	assert.Equal(t, http.StatusOK, response.StatusCode)
}

func TestFailedStartLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	_, err := Start(t.Context(), WithAPIServerArgs("--no-such-flag"))
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestStartRefusesBeforeAnythingRuns(t *testing.T) {
	cases := map[string]struct {
		opts []Option
		want string
	}{
		"a detached cluster without helper": {opts: []Option{Detached(t.TempDir())}, want: "needs a helper command"},
		"no binaries":                       {opts: []Option{WithBinaries(t.TempDir())}, want: "build it with `make cluster`"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), tc.opts...)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestKubebuilderAssetsReplaceTwoBinaries(t *testing.T) {
	assets, own := t.TempDir(), t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	for _, dir := range []string{assets, own} {
		for _, name := range []string{nameEtcd, nameAPIServer, nameControllerManager} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o700))
		}
	}
	o := &options{binaries: own}
	for name, want := range map[string]string{nameEtcd: assets, nameAPIServer: assets, nameControllerManager: own} {
		got, err := o.binary(name)
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(want, name), got)
	}
	t.Setenv("KUBEBUILDER_ASSETS", filepath.Join(assets, "missing"))
	_, err := o.binary(nameEtcd)
	assert.ErrorContains(t, err, "correct or unset KUBEBUILDER_ASSETS")
}
