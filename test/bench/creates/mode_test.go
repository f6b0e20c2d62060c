package creates

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/webhook/creator"
)

func kinds(objects []client.Object) (found []string) {
	for _, object := range objects {
		found = append(found, object.GetObjectKind().GroupVersionKind().Kind)
	}
	return found
}

func TestEachModeInstallsWhatIsShipped(t *testing.T) {
	assert.Empty(t, Without.shipped())
	assert.Equal(t, []string{
		policies.KindMutatingPolicy, policies.KindMutatingBinding, policies.KindValidatingPolicy, policies.KindValidatingBinding,
	}, kinds(Policy.shipped()))
	assert.Equal(t, []string{policies.KindMutatingWebhook, policies.KindValidatingWebhook}, kinds(Webhook.shipped()))
}

func TestRedirectChangesNothingButTheServer(t *testing.T) {
	before := Webhook.shipped()[0].(*admissionregistrationv1.MutatingWebhookConfiguration)
	after := before.DeepCopy()
	(&server{url: "https://127.0.0.1:1", ca: []byte("ca")}).redirect(after)
	require.NotEmpty(t, after.Webhooks)
	assert.Equal(t, "https://127.0.0.1:1"+creator.MutatePath, *after.Webhooks[0].ClientConfig.URL)
	for i := range after.Webhooks {
		assert.Nil(t, after.Webhooks[i].ClientConfig.Service)
		assert.Equal(t, []byte("ca"), after.Webhooks[i].ClientConfig.CABundle)
		after.Webhooks[i].ClientConfig = before.Webhooks[i].ClientConfig
	}
	assert.Equal(t, before, after)
	assert.Equal(t, before, Webhook.shipped()[0], "what is embedded is not changed")
}
