package env

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const refusal = "refused by the test's webhook"

// refuse answers every review with a no.
func refuse(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: refusal}}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

// serveHook serves with a certificate for the name of the Service.
func serveHook(t *testing.T, dnsName string) (address string) {
	t.Helper()
	pair, err := cluster.CA().IssueServer(dnsName)
	require.NoError(t, err)
	cert, err := pair.TLS()
	require.NoError(t, err)
	hook := httptest.NewUnstartedServer(http.HandlerFunc(refuse))
	hook.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	hook.StartTLS()
	t.Cleanup(hook.Close)
	return hook.Listener.Addr().String()
}

func configureHook(t *testing.T, namespace string) {
	t.Helper()
	_, err := cluster.Client().CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	hooks := cluster.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = hooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.env.test",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service:  &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "hook"},
				CABundle: cluster.CA().CertPEM(),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, hooks.Delete(context.Background(), namespace, metav1.DeleteOptions{})) })
}

func TestWebhookBehindAService(t *testing.T) {
	namespace := cluster.Namespace(t)
	configureHook(t, namespace)
	create := func() error {
		_, err := cluster.Client().CoreV1().Secrets(namespace).Create(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
		return err
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.ErrorContains(c, create(), namespace+"/hook:443 has no route")
	}, patience, tick, "the configuration comes into force, and the missing route is named")

	service := namespace + "/hook:443"
	require.NoError(t, cluster.Route(service, serveHook(t, "hook."+namespace+".svc")))
	assert.ErrorContains(t, create(), refusal)
	require.NoError(t, cluster.Route(service, ""))
}

func TestRouteRefusesNonsense(t *testing.T) {
	assert.ErrorContains(t, cluster.Route("hook", "127.0.0.1:1"), "namespace/name:port")
	assert.ErrorContains(t, cluster.Route("prod/hook:443", "127.0.0.1"), "127.0.0.1:port")
}
