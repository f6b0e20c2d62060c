package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// meddle answers every review with the JSON patch.
func meddle(patch string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, Patch: []byte(patch), PatchType: ptr.To(admissionv1.PatchTypeJSONPatch),
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}
}

// meddler installs somebody else's mutating webhook for the namespace.
func meddler(t *testing.T, namespace, patch string, again admissionregistrationv1.ReinvocationPolicyType) {
	t.Helper()
	pair, err := cluster.CA().IssueServer("127.0.0.1")
	require.NoError(t, err)
	certificate, err := pair.TLS()
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(meddle(patch))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         "meddler.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: cluster.CA().CertPEM()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"configmaps", "taskruns", "resourcecheckrules"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ReinvocationPolicy:      &again,
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	admin := as(t, cluster.Admin())
	require.NoError(t, admin.Create(t.Context(), config))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), config)) })
	eventually(t, func(ctx context.Context) error {
		seen := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "seen-", Annotations: map[string]string{"sent": "yes"}}, Data: map[string]string{"sent": "yes"}}
		sent := seen.DeepCopy()
		if err := admin.Create(ctx, seen, client.DryRunAll); err != nil {
			return nil // it meddles: the patch does not fit a ConfigMap
		}
		if assert.ObjectsAreEqual(sent.Annotations, seen.Annotations) && assert.ObjectsAreEqual(sent.Data, seen.Data) {
			return fmt.Errorf("the webhook is not asked yet")
		}
		return nil
	})
}

func TestS1_TheRecordOutlivesAWebhookThatDropsIt(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	meddler(t, namespace, `[{"op":"add","path":"/metadata/annotations","value":{"theirs":"only"}}]`, admissionregistrationv1.NeverReinvocationPolicy)
	run := foreign("tekton.dev/v1", "TaskRun", namespace, "run")
	require.NoError(t, somebody.Create(t.Context(), run))
	assert.Equal(t, createdBy("tenant-of-"+namespace), record(run))
	assert.Equal(t, "only", run.GetAnnotations()["theirs"])
}

func TestS1_AWebhookThatInsistsOnAForgeryIsRefused(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	meddler(t, namespace, `[{"op":"add","path":"/metadata/annotations","value":{"attribution.alaudadevops.io/created-by":"mallory"}}]`, admissionregistrationv1.IfNeededReinvocationPolicy)
	refusedByPolicy(t, somebody.Create(t.Context(), foreign("tekton.dev/v1", "TaskRun", namespace, "run")), "look for an admission webhook that changes them")
}

// A webhook, ours too, may fill in what a client left out; that must not make the client the last author.
func TestS1_FillingInADefaultMakesNobodyTheLastAuthor(t *testing.T) {
	namespace := cluster.Namespace(t)
	first, second := tenant(t, namespace), tenantToo(t, namespace)
	meddler(t, namespace, fmt.Sprintf(`[{"op":"add","path":"/spec/objectRef/namespace","value":%q}]`, namespace), admissionregistrationv1.IfNeededReinvocationPolicy)
	rule := ruleFor(namespace, "rule")
	require.NoError(t, first.Create(t.Context(), rule))
	require.Equal(t, namespace, rule.Spec.ObjectRef.Namespace)
	before := record(rule)

	again := ruleFor(namespace, "rule")
	again.ResourceVersion = rule.ResourceVersion
	require.NoError(t, second.Update(t.Context(), again))
	assert.Equal(t, before, record(again), "the same rule, written with the default left out")
}
