package imports

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// What kubectl get shows is made by the API server from the definition, as here.
func TestTablesShowWhetherACredentialWasSeen(t *testing.T) {
	person := func(asserted bool) approvalv1alpha1.Identity {
		who := approvalv1alpha1.Identity{Username: "alice"}
		if !asserted {
			who.Extra = map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=1"}}
		}
		return who
	}
	kinds := map[string]func(approvalv1alpha1.Identity) any{
		"approvalrequests": func(who approvalv1alpha1.Identity) any {
			return &approvalv1alpha1.ApprovalRequest{Spec: approvalv1alpha1.ApprovalRequestSpec{Request: &approvalv1alpha1.CheckRequest{RequestedBy: who}}}
		},
		"approvalresponses": func(who approvalv1alpha1.Identity) any {
			return &approvalv1alpha1.ApprovalResponse{Spec: approvalv1alpha1.ApprovalResponseSpec{Responder: &who}}
		},
		"resourcecheckrequests": func(who approvalv1alpha1.Identity) any {
			return &approvalv1alpha1.ResourceCheckRequest{Spec: approvalv1alpha1.ResourceCheckRequestSpec{RequestedBy: &who}}
		},
	}
	for resource, with := range kinds {
		t.Run(resource, func(t *testing.T) {
			assert.Equal(t, "JTI=1", column(t, resource, "Credential", with(person(false))))
			assert.Nil(t, column(t, resource, "Credential", with(person(true))), "asserted")
		})
	}
}

// column is what stands in the column of the object's row.
func column(t *testing.T, resource, name string, object any) any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "approval.alaudadevops.io_"+resource+".yaml"))
	require.NoError(t, err)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(text, definition))
	convertor, err := tableconvertor.New(definition.Spec.Versions[0].AdditionalPrinterColumns)
	require.NoError(t, err)
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(raw, &u.Object))
	table, err := convertor.ConvertToTable(t.Context(), runtime.Object(u), &metav1.TableOptions{})
	require.NoError(t, err)
	for i, column := range table.ColumnDefinitions {
		if column.Name == name {
			return table.Rows[0].Cells[i]
		}
	}
	t.Fatalf("%s have no column %s", resource, name)
	return nil
}
