package env

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.env.test}
spec:
  group: env.test
  scope: Cluster
  names: {plural: gears, singular: gear, kind: Gear}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gears.yaml"), []byte(crd), 0o600))
	broken := errors.New("the setup is broken")
	var ran bool
	_, err := Start(t.Context(), WithCRDs(dir), WithControllers(noControllers), WithSetup(func(ctx context.Context, c *Cluster) error {
		ran = true
		const gear = "{apiVersion: env.test/v1, kind: Gear, metadata: {name: one}}"
		assert.NoError(t, c.Apply(ctx, c.Admin(), gear), "the CRD is served")

		namespace, err := c.newNamespace(ctx, "options")
		require.NoError(t, err)
		_, err = c.Client().CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "no controller runs, and the namespace does not wait for one: %v", err)

		_, err = c.AuditEvents()
		assert.ErrorContains(t, err, "start it with WithAudit")
		return broken
	}))
	assert.True(t, ran)
	assert.ErrorIs(t, err, broken)
}

func TestControllersCanBeTakenAway(t *testing.T) {
	o, err := newOptions([]Option{WithControllers("-job-controller", "node-lifecycle-controller")})
	require.NoError(t, err)
	c, err := newCluster(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	manager, err := c.controllerManagerCommand()
	require.NoError(t, err)
	assert.Contains(t, manager.args[1], "--controllers=-job-controller,node-lifecycle-controller,clusterrole-aggregation-controller,")
}

func TestKubectlTakesTheKubeconfig(t *testing.T) {
	person, err := cluster.Person("alice@example.com", "owners")
	require.NoError(t, err)
	content, err := cluster.Kubeconfig("test", person)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	kubectl, err := cluster.options.binary("kubectl")
	require.NoError(t, err)
	output, err := exec.Command(kubectl, "--kubeconfig", path, "auth", "whoami").CombinedOutput()
	require.NoError(t, err, "%s", output)
	assert.Contains(t, string(output), "alice@example.com")
	assert.Contains(t, string(output), "[owners system:authenticated]")
}
