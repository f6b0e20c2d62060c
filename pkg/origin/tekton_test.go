package origin

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"
)

// Tekton's own types say whether we read the fields that Tekton writes.
func TestRunsAreReadAsTektonWritesThem(t *testing.T) {
	run := &pipelinev1.PipelineRun{
		TypeMeta:   metav1.TypeMeta{APIVersion: "tekton.dev/v1", Kind: "PipelineRun"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "release-1", UID: "u1"},
		Spec: pipelinev1.PipelineRunSpec{
			PipelineRef:     &pipelinev1.PipelineRef{Name: "release"},
			TaskRunTemplate: pipelinev1.PipelineTaskRunTemplate{ServiceAccountName: "pipeline"},
			TaskRunSpecs:    []pipelinev1.PipelineTaskRunSpec{{PipelineTaskName: "push", ServiceAccountName: "pusher"}},
			Params:          pipelinev1.Params{{Name: "version", Value: *pipelinev1.NewStructuredValues("1.4.2")}},
		},
	}
	node := FromUnstructured(content(t, run))
	assert.Equal(t, []string{"pipeline", "pusher"}, node.ServiceAccounts)
	assert.Equal(t, "release", node.Pipeline)
	require.Len(t, node.Parameters, 1)
	assert.Equal(t, "1.4.2", node.Parameters[0].Value)
	assert.False(t, node.Finished)

	run.Status.SetCondition(&apis.Condition{Type: apis.ConditionSucceeded, Status: corev1.ConditionUnknown, Reason: "Running"})
	assert.False(t, FromUnstructured(content(t, run)).Finished)
	run.Status.SetCondition(&apis.Condition{Type: apis.ConditionSucceeded, Status: corev1.ConditionFalse, Reason: "Failed"})
	node = FromUnstructured(content(t, run))
	assert.True(t, node.Finished)
	assert.Equal(t, "Failed", node.FinishedWhy)
}

func content(t *testing.T, typed any) *unstructured.Unstructured {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: object}
}
