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

func TestLineTellsWhoIsAnothersWord(t *testing.T) {
	own := map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=1"}}
	answer := func(user string, extra map[string]approvalv1alpha1.ExtraValue) approvalv1alpha1.ApprovalResponse {
		return approvalv1alpha1.ApprovalResponse{Spec: approvalv1alpha1.ApprovalResponseSpec{
			Responder: &approvalv1alpha1.Identity{Username: user, Extra: extra}}}
	}
	request := &approvalv1alpha1.ResourceCheckRequest{}
	request.Spec.RequestedBy = &approvalv1alpha1.Identity{Username: "dev"}
	record := &Record{Request: request, Answers: []approvalv1alpha1.ApprovalResponse{answer("olga", nil), answer("otto", own), answer("anna", nil), answer("anna", nil)}}
	line, err := record.Line()
	require.NoError(t, err)
	var read Record
	require.NoError(t, json.Unmarshal(line, &read))
	assert.Equal(t, []string{"anna", "dev", "olga"}, read.Asserted)

	request.Spec.RequestedBy.Extra = own
	line, err = (&Record{Request: request}).Line()
	require.NoError(t, err)
	assert.NotContains(t, string(line), "asserted")
}
