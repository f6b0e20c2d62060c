package webhook

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var yamlBlock = regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```")

// What owners copy from their how-to is taken by the API server, and no webhook warns of it.
func TestSamplesOfTheHowToAreTaken(t *testing.T) {
	registerKinds(t)
	w := newWorld(t)
	text, err := os.ReadFile("../../../docs/how-to/environment-owner.md")
	require.NoError(t, err)
	w.create(w.admin, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "prod-harbor"}, Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{"username": "robot", "password": "not-used"},
	})
	config := cluster.Admin()
	warned := &warnings{}
	config.WarningHandler = warned
	admin := as(t, config)

	kinds := map[string]bool{}
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		for _, document := range strings.Split(block[1], "\n---\n") {
			object := w.sample(document)
			require.NoError(t, admin.Create(t.Context(), object, client.DryRunAll), document)
			assert.Empty(t, warned.take(), document)
			template, _, _ := unstructured.NestedString(object.Object, "spec", "checkTemplate", "kind")
			kinds[object.GetKind()], kinds[template] = true, true
		}
	}
	for _, kind := range []string{"Connector", "ResourceCheckRule", "CheckKind", "ApprovalRequest", "TimeWindowCheck", "ScriptCheck", "AttributionCheck"} {
		assert.True(t, kinds[kind], "the how-to shows a %s", kind)
	}
}

// sample is an object of the how-to in the world's namespace; of a check's template alone, a rule around it.
func (w *world) sample(document string) *unstructured.Unstructured {
	w.t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(document), &object.Object), document)
	if template, alone := object.Object["checkTemplate"]; alone {
		object.Object = map[string]any{
			"apiVersion": "approval.alaudadevops.io/v1alpha1", "kind": "ResourceCheckRule", "metadata": map[string]any{"name": "sample", "namespace": "prod"},
			"spec": map[string]any{
				"objectRef":     map[string]any{"apiVersion": "connectors.alaudadevops.io/v1alpha1", "kind": "Connector", "name": "harbor"},
				"checkTemplate": template,
			},
		}
	}
	if object.GetNamespace() != "" {
		object.SetNamespace(w.namespace)
	}
	return object
}
