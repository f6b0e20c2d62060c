package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// A program that proposes somebody may point the plan elsewhere just before, which the status does not tell yet, and hand
// the pipeline data of its own.
func TestS4_WhoAcceptsIsShownAllThatHeAnswersFor(t *testing.T) {
	p := plan()
	p.Labels = map[string]string{attribution.Default().AdmissionLabel: "elsewhere\x1b[2J"}
	p.Spec.Data = &runtime.RawExtension{Raw: []byte(`{"image":"evil \u001b[2J<x>"}`)}
	p.Status.ReleasePlanAdmission = &releasev1alpha1.MatchedReleasePlanAdmission{Name: "harmless"}
	shown := func() string {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
		require.NoError(t, err)
		return (&program{}).planSheet(&unstructured.Unstructured{Object: content})
	}
	assert.Contains(t, shown(), "Admission:    elsewhere\\x1b[2J\n")
	assert.Contains(t, shown(), "Else:         data:\n                image: \"evil \\e[2J<x>\"\n")
	assert.NotContains(t, shown(), "harmless")
	assert.NotContains(t, shown(), "\x1b")

	p.Labels = nil
	assert.Contains(t, shown(), "Admission:    harmless, when it was last looked for\n")
}
