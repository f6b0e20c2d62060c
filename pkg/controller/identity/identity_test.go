package identity

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

func TestAsWhomConnectorsAct(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, connectorsv1alpha1.AddToScheme(scheme))
	builder := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&connectorsv1alpha1.Connector{}, "index", Keys)
	for name, c := range map[string]struct{ class, identity string }{
		"acts": {"k8s", "deployer"}, "acts-too": {"k8s", "deployer"}, "is-new": {"k8s", ""}, "is-another-tool": {"git", "alice"},
	} {
		builder.WithObjects(&connectorsv1alpha1.Connector{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns-" + name, Name: name}, Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: c.class},
			Status: connectorsv1alpha1.ConnectorStatus{Identity: c.identity},
		})
	}
	cache := builder.Build()
	for username, want := range map[string]bool{"deployer": true, "alice": false, "": false, "Deployer": false} {
		acts, err := ActsAs(t.Context(), cache, "index", username)
		require.NoError(t, err)
		assert.Equal(t, want, acts, username)
	}
	_, err := ActsAs(t.Context(), cache, "forgotten", "deployer")
	require.Error(t, err)
	assert.Empty(t, Keys(&metav1.PartialObjectMetadata{}))
}
