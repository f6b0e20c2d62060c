package definition

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

func TestOnlyTheLabelMakesADefinitionOurs(t *testing.T) {
	for value, want := range map[string]bool{"countersign": true, "release-service": false, "": false} {
		definition := New()
		definition.SetName(releasev1alpha1.DefinitionReleases)
		definition.SetLabels(map[string]string{releasev1alpha1.LabelPartOf: value})
		scheme := runtime.NewScheme()
		require.NoError(t, metav1.AddMetaToScheme(scheme))
		reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(definition).Build()
		ours, err := OursIn(t.Context(), reader, releasev1alpha1.DefinitionReleases)
		require.NoError(t, err)
		assert.Equal(t, want, ours, value)
		_, err = OursIn(t.Context(), reader, releasev1alpha1.DefinitionReleasePlans)
		assert.True(t, apierrors.IsNotFound(err))
	}
}
