package env

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const pipelineRun = `
apiVersion: tekton.dev/v1
kind: PipelineRun
metadata: {name: hello, namespace: default}
spec:
  params: [{name: who, value: world}]
  pipelineSpec:
    params: [{name: who}]
    tasks:
      - name: greet
        params: [{name: who, value: $(params.who)}]
        taskSpec:
          params: [{name: who}]
          steps: [{name: say, image: pretended/shell, command: [echo], args: ["hello $(params.who)"]}]
`

func TestTektonRunsPipelines(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err := Start(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	require.NoError(t, cluster.RunTekton(ctx))
	require.NoError(t, cluster.Apply(ctx, cluster.Admin(), pipelineRun))
	client, err := dynamic.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	runs := client.Resource(schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}).Namespace("default")
	require.Eventually(t, func() bool {
		run, err := runs.Get(ctx, "hello", metav1.GetOptions{})
		return err == nil && succeeded(run)
	}, time.Minute, 100*time.Millisecond, "Tekton runs the pipeline on the pretended node, and it succeeds")
}

func succeeded(run *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(run.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == "Succeeded" {
			return c["status"] == "True"
		}
	}
	return false
}
