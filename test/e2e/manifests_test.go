package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applyCRD installs the CRDs of a file and waits until they are served. Conversion webhooks are dropped: nobody
// serves them here, and each kind is used in one version.
func (s *stage) applyCRD(path string) {
	s.Helper()
	text, err := os.ReadFile(path)
	require.NoError(s, err)
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		crd := &unstructured.Unstructured{}
		err := decoder.Decode(&crd.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoErrorf(s, err, "%s", path)
		if crd.GetKind() != "CustomResourceDefinition" {
			continue
		}
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
		s.serve(crd)
	}
}

// serve applies a CRD and waits until its objects can be made.
func (s *stage) serve(crd *unstructured.Unstructured) {
	s.Helper()
	require.NoError(s, s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("e2e"), client.ForceOwnership))
	s.eventually("the CRD "+crd.GetName()+" is served", func() error {
		fresh := &unstructured.Unstructured{}
		fresh.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := s.admin.Get(s.ctx, client.ObjectKey{Name: crd.GetName()}, fresh); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(fresh.Object, "status", "conditions")
		for _, condition := range conditions {
			if c, _ := condition.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
				return nil
			}
		}
		return errors.New("it is not established")
	})
}
