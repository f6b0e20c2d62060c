package webhook

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// meddler installs somebody else's mutating webhook, which is asked after ours and answers with the patch.
func (w *world) meddler(resource, patch string) {
	w.t.Helper()
	pair, err := cluster.CA().IssueServer("127.0.0.1")
	require.NoError(w.t, err)
	certificate, err := pair.TLS()
	require.NoError(w.t, err)
	server := httptest.NewUnstartedServer(answering(patch))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	w.t.Cleanup(server.Close)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "zz-meddler-"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         "meddler.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: cluster.CA().CertPEM()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"configmaps", resource}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	w.create(w.admin, config)
	w.t.Cleanup(func() { assert.NoError(w.t, w.admin.Delete(context.Background(), config)) })
	eventually(w.t, func(ctx context.Context) error {
		// The patch does not fit a ConfigMap, so a refusal shows that the webhook is asked.
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "probe-"}}
		if err := w.admin.Create(ctx, probe, client.DryRunAll); err == nil {
			return assert.AnError
		}
		return nil
	})
}

func answering(patch string) http.HandlerFunc {
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

func TestS1_WhatOtherWebhooksChangeInARequestIsRefused(t *testing.T) {
	for want, patch := range map[string]string{
		"spec.requestedBy":          `[{"op": "replace", "path": "/spec/requestedBy/username", "value": "somebody"}]`,
		"spec.context.subject.name": `[{"op": "replace", "path": "/spec/context/subject/name", "value": "somebody"}]`,
		"metadata.labels":           `[{"op": "remove", "path": "/metadata/labels/approval.alaudadevops.io~1resourcecheckrequest.fingerprint"}]`,
		"the server would name":     `[{"op": "replace", "path": "/metadata/name", "value": "rcr-other"}]`,
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t)
			alice := w.person("alice")
			w.meddler("resourcecheckrequests", patch)
			refused(t, alice.Create(t.Context(), w.request()), want)
		})
	}
}

func TestS1_WhatOtherWebhooksChangeInAnAnswerIsRefused(t *testing.T) {
	w := newWorld(t)
	w.check()
	dave := w.person("dave")
	w.meddler("approvalresponses", `[{"op": "replace", "path": "/spec/responder/username", "value": "somebody"}]`)
	refused(t, dave.Create(t.Context(), w.answer("answer", approvalv1alpha1.DecisionApprove)), "spec.responder")
}
