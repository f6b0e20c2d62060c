package script

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

func TestOnlyExpressionsThatCompile(t *testing.T) {
	tests := map[string]struct {
		spec map[string]any
		want string
	}{
		"a question":    {map[string]any{"expression": "resource.metadata.labels['tier'] == 'prod' && now > timestamp('2026-01-01T00:00:00Z')"}, ""},
		"all variables": {map[string]any{"expression": "[request, object, resource, rule].all(x, x != null)"}, ""},
		"not yet":       {map[string]any{"expression": "'not yet'"}, ""},
		"syntax":        {map[string]any{"expression": "true &&"}, "spec.expression: the expression does not compile"},
		"unknown name":  {map[string]any{"expression": "secrets.x == 1"}, "undeclared reference to 'secrets'"},
		"a number":      {map[string]any{"expression": "1 + 1"}, "yields int"},
		"no expression": {map[string]any{}, "spec.expression"},
		"not a text":    {map[string]any{"expression": int64(1)}, "spec.expression"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &admit.Review{Operation: admissionv1.Create, Object: &unstructured.Unstructured{Object: map[string]any{"spec": test.spec}}}
			err := New().Validate(t.Context(), r)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestStoredChecksStayWritable(t *testing.T) {
	stored := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"expression": "true &&"}}}
	labelled := stored.DeepCopy()
	labelled.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, New().Validate(t.Context(), &admit.Review{Operation: admissionv1.Update, Old: stored, Object: labelled}))
}
