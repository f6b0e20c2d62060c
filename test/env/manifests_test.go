package env

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const mixed = `
# what depends stands before what it depends on
apiVersion: env.test/v1
kind: Widget
metadata: {name: one, namespace: env-widgets}
spec: {size: 3}
---
apiVersion: v1
kind: Namespace
metadata: {name: env-widgets}
---
---
# nothing here
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.env.test}
spec:
  group: env.test
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
`

func TestApply(t *testing.T) {
	require.NoError(t, cluster.Apply(t.Context(), cluster.Admin(), mixed))
	require.NoError(t, cluster.Apply(t.Context(), cluster.Admin(), mixed), "once more changes nothing")

	client, err := dynamic.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	widget, err := client.Resource(schema.GroupVersionResource{Group: "env.test", Version: "v1", Resource: "widgets"}).
		Namespace("env-widgets").Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"size": int64(3)}, widget.Object["spec"])
}

func TestApplyRefuses(t *testing.T) {
	cases := map[string]struct {
		manifest string
		user     string
		want     string
	}{
		"no YAML":                       {manifest: "a: [", user: "x", want: "no valid YAML"},
		"a field twice":                 {manifest: "a: 1\na: 2", user: "x", want: "no valid YAML"},
		"no kind":                       {manifest: "metadata: {name: lost}", user: "x", want: `add both to "lost"`},
		"an unknown kind":               {manifest: "{apiVersion: env.test/v9, kind: Nothing, metadata: {name: none, namespace: default}}", user: adminUser, want: "Nothing none in default cannot be applied"},
		"somebody without the right":    {manifest: "{apiVersion: v1, kind: Namespace, metadata: {name: mine}}", user: "carol", want: "forbidden"},
		"what the server finds invalid": {manifest: "{apiVersion: v1, kind: Namespace, metadata: {name: UPPER}}", user: adminUser, want: "Invalid value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := cluster.Config(tc.user)
			if tc.user == adminUser {
				cfg = cluster.Admin()
			}
			assert.ErrorContains(t, cluster.Apply(t.Context(), cfg, tc.manifest), tc.want)
		})
	}
}

func TestApplyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	assert.ErrorContains(t, cluster.ApplyFiles(t.Context(), cluster.Admin(), dir), "holds no manifest")
	write("a.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: env-files}}")
	write("b.yml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: env-files, namespace: env-files}}")
	write("kustomization.yaml", "resources: [a.yaml]")
	write("notes.txt", "not a manifest: [")
	require.NoError(t, cluster.ApplyFiles(t.Context(), cluster.Admin(), dir))
	_, err := cluster.Client().CoreV1().ConfigMaps("env-files").Get(t.Context(), "env-files", metav1.GetOptions{})
	assert.NoError(t, err)
	assert.Error(t, cluster.ApplyFiles(t.Context(), cluster.Admin(), filepath.Join(dir, "missing")))
}
