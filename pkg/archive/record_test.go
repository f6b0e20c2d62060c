package archive

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func TestLineIsOneLineAndComplete(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{Manager: "x"}}
	check := &unstructured.Unstructured{Object: map[string]any{"kind": "Gate", "spec": map[string]any{"text": "two\nlines"}}}
	check.SetManagedFields(managed)
	record := &Record{
		Occasion: OccasionRetention, RequestUID: "r-1", Ended: &approvalv1alpha1.Ended{Reason: approvalv1alpha1.ReasonExpired},
		Request: &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", ManagedFields: managed}},
		Checks:  []*unstructured.Unstructured{check},
		Answers: []approvalv1alpha1.ApprovalResponse{{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: managed}}},
	}
	line, err := record.Line()
	require.NoError(t, err)
	assert.NotContains(t, string(line), "\n")
	assert.NotContains(t, string(line), "managedFields")
	assert.NotEmpty(t, check.GetManagedFields(), "what was handed in is not changed")

	var read Record
	require.NoError(t, json.Unmarshal(line, &read))
	assert.Equal(t, Version, read.APIVersion)
	assert.Equal(t, "r", read.Request.Name)
	assert.Equal(t, "two\nlines", read.Checks[0].Object["spec"].(map[string]any)["text"])
	assert.Equal(t, "a", read.Answers[0].Name)
}
