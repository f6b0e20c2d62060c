package creator

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
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func storage() *resource.Quantity { return ptr.To(resource.MustParse("1Gi")) }

// othersWork shows that what is never recorded works as before.
func othersWork(t *testing.T, p *plane) {
	admin := p.admin(t)
	who := &authenticationv1.SelfSubjectReview{}
	require.NoError(t, admin.Create(t.Context(), who))
	assert.Empty(t, record(who))
	may := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: "pods", Verb: "get"}}}
	require.NoError(t, admin.Create(t.Context(), may))
	assert.True(t, may.Status.Allowed)
	assert.Empty(t, record(may))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, GenerateName: "others-"}}
	require.NoError(t, admin.Create(t.Context(), lease))
	assert.Empty(t, record(reread(t, p, lease)))
}

// meddler installs somebody else's mutating webhook for the namespace, which answers every review with the patch. It is
// asked after ours.
func (p *plane) meddler(t *testing.T, namespace, patch string, again admissionregistrationv1.ReinvocationPolicyType) {
	t.Helper()
	pair, err := p.CA().IssueServer("127.0.0.1")
	require.NoError(t, err)
	certificate, err := pair.TLS()
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, Patch: []byte(patch), PatchType: ptr.To(admissionv1.PatchTypeJSONPatch),
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review) // what is wrong shows on the other side
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-" + namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         "meddler.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: p.CA().CertPEM()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"configmaps", "taskruns", "plains"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ReinvocationPolicy:      &again,
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	admin := p.admin(t)
	require.NoError(t, admin.Create(t.Context(), config))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), config)) })
	eventually(t, func(ctx context.Context) error {
		sent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "seen-", Annotations: map[string]string{"sent": "yes"}}}
		seen := sent.DeepCopy()
		if err := admin.Create(ctx, seen, client.DryRunAll); err == nil && assert.ObjectsAreEqual(sent.Annotations, seen.Annotations) && seen.Data == nil {
			return fmt.Errorf("the webhook is not asked yet")
		}
		return nil // it meddles, also where its patch does not fit a ConfigMap
	})
}

func TestS1_TheRecordOutlivesAWebhookThatDropsIt(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		p.meddler(t, namespace, `[{"op":"add","path":"/metadata/annotations","value":{"theirs":"only"}}]`, admissionregistrationv1.NeverReinvocationPolicy)
		object := run("TaskRun", namespace, "run")
		require.NoError(t, p.user(t, "alice").Create(t.Context(), object))
		assert.Equal(t, createdBy("alice"), record(object))
		assert.Equal(t, "only", object.GetAnnotations()["theirs"])
	})
}

func TestS1_AWebhookThatInsistsOnAForgeryIsRefused(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		p.meddler(t, namespace, `[{"op":"add","path":"/metadata/annotations","value":{"attribution.alaudadevops.io/created-by":"mallory"}}]`, admissionregistrationv1.IfNeededReinvocationPolicy)
		assert.ErrorContains(t, p.user(t, "alice").Create(t.Context(), run("TaskRun", namespace, "run")), "look for an admission webhook that changes them")
	})
}

// A webhook may change the content of an object of which the client changed a label only: then it was set on behalf of
// that client. It may also fill in what he left out: then he set nothing.
func TestS1_WhatAWebhookSetsIsItsCallersContent(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		alice, bob := p.user(t, "alice"), p.user(t, "bob")
		object := plain(namespace, "plain")
		require.NoError(t, alice.Create(t.Context(), object))
		p.meddler(t, namespace, `[{"op":"add","path":"/data","value":{"filled":"in"}}]`, admissionregistrationv1.NeverReinvocationPolicy)
		require.NoError(t, merged(`{"metadata":{"labels":{"a":"b"}}}`)(t.Context(), bob, object))
		assert.Equal(t, changedBy("alice", "bob"), record(reread(t, p, object)))

		require.NoError(t, merged(`{"data":null,"metadata":{"labels":{"a":"c"}}}`)(t.Context(), alice, object))
		stored := reread(t, p, object)
		assert.Equal(t, map[string]any{"filled": "in"}, stored.Object["data"])
		assert.Equal(t, changedBy("alice", "bob"), record(stored))
	})
}

// Whatever carries the request label keeps it, and is recorded, whatever its kind.
func TestS6_WhatMarksACheckIsPutBack(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		check := foreign("checks.example.com/v1", "SignOff", namespace, "check")
		check.SetLabels(map[string]string{approvalv1alpha1.LabelRequestUID: "1"})
		check.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationContext: "{}", approvalv1alpha1.AnnotationCreatedBy: "mallory"})
		mallory := p.user(t, "mallory")
		assert.ErrorContains(t, mallory.Create(t.Context(), check.DeepCopy()), "marks checks")
		require.NoError(t, p.admin(t).Create(t.Context(), check))
		want := createdBy("kubernetes-admin")
		assert.Equal(t, want, record(check))

		check.SetLabels(map[string]string{"theirs": "kept"})
		check.SetAnnotations(nil)
		check.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}})
		require.NoError(t, mallory.Update(t.Context(), check), "a tool that knows nothing of it gets no error")
		stored := reread(t, p, check)
		assert.Equal(t, map[string]string{"theirs": "kept", approvalv1alpha1.LabelRequestUID: "1"}, stored.GetLabels())
		assert.Equal(t, "{}", stored.GetAnnotations()[approvalv1alpha1.AnnotationContext])
		assert.Empty(t, stored.GetOwnerReferences())
		assert.Equal(t, want, record(stored))

		bystander := foreign("checks.example.com/v1", "SignOff", namespace, "bystander")
		require.NoError(t, mallory.Create(t.Context(), bystander))
		assert.ErrorContains(t, merged(`{"metadata":{"labels":{"approval.alaudadevops.io/request-uid":"1"}}}`)(t.Context(), mallory, bystander), "marks checks")
	})
}

func TestS2_OwnersAndFinalizersOfRequestsAreTheServers(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		mallory := p.user(t, "mallory")
		request := checkRequest(namespace, "request")
		request.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
		request.Finalizers = []string{"example.com/hold"}
		sent := request.DeepCopy()
		require.NoError(t, mallory.Create(t.Context(), request))
		assert.Empty(t, request.OwnerReferences)
		assert.Empty(t, request.Finalizers)
		sent.ResourceVersion = request.ResourceVersion
		require.NoError(t, mallory.Update(t.Context(), sent))
		stored := reread(t, p, request)
		assert.Empty(t, stored.OwnerReferences)
		assert.Empty(t, stored.Finalizers)
	})
}

// While the webhooks do not answer, nobody creates what would lack a record; what brings the controller back works.
func TestS9_WithoutWebhooksNothingUnrecordedIsMade(t *testing.T) {
	p := planes[1]
	namespace := p.namespace(t)
	alice, admin := p.user(t, "alice"), p.admin(t)
	object := run("TaskRun", namespace, "run")
	require.NoError(t, alice.Create(t.Context(), object))
	p.webhooks.interrupt(true)
	t.Cleanup(func() { p.webhooks.interrupt(false) })
	for name, write := range map[string]error{
		"pod":        alice.Create(t.Context(), pod(namespace, "pod")),
		"deployment": alice.Create(t.Context(), deployment(namespace, "deployment", 0)),
		"run":        alice.Create(t.Context(), run("TaskRun", namespace, "other")),
		"update":     merged(`{"metadata":{"labels":{"a":"b"}}}`)(t.Context(), alice, object),
		"forgery":    alice.Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(forgedJSON))),
		"our kinds":  admin.Create(t.Context(), plain(systemNamespace, "plain")),
	} {
		assert.ErrorContains(t, write, "failed calling webhook", name)
	}
	for name, write := range map[string]error{
		"status":             alice.Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"a":"b"}}`))),
		"pod of ours":        admin.Create(t.Context(), pod(systemNamespace, "pod"), client.DryRunAll),
		"deployment of ours": admin.Create(t.Context(), deployment(systemNamespace, "deployment", 0), client.DryRunAll),
		"lease":              admin.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "lease"}}, client.DryRunAll),
		"secret":             admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "secret"}}, client.DryRunAll),
	} {
		assert.NoError(t, write, name)
	}
	relabelled := &corev1.Namespace{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: namespace}, relabelled))
	relabelled.Labels[corev1.LabelMetadataName] = systemNamespace
	require.NoError(t, admin.Update(t.Context(), relabelled))
	assert.Equal(t, namespace, relabelled.Labels[corev1.LabelMetadataName], "the exemption goes by a label that nobody chooses")
}

// What the webhooks leave out, so that the controller can come back, has no record, whoever writes one there.
func TestS2_NobodyForgesARecordWhereNoneIsKept(t *testing.T) {
	p := planes[1]
	admin := p.admin(t)
	plainly := pod(systemNamespace, "exempt")
	require.NoError(t, admin.Create(t.Context(), plainly))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), plainly)) })
	assert.Empty(t, record(reread(t, p, plainly)))
	sent, job := pod(systemNamespace, "forged"), deployment(systemNamespace, "forged", 0)
	sent.SetAnnotations(forged())
	job.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationCreatedBy: "olga"})
	bound := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: forged()}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}
	for name, write := range map[string]error{
		"create":     admin.Create(t.Context(), sent),
		"deployment": admin.Create(t.Context(), job),
		"patch":      merged(forgedJSON)(t.Context(), admin, plainly),
		"status":     admin.Status().Patch(t.Context(), plainly, client.RawPatch("application/merge-patch+json", []byte(forgedJSON))),
		"binding":    admin.SubResource("binding").Create(t.Context(), plainly, bound),
	} {
		assert.ErrorContains(t, write, "no creator record is kept of what runs in countersign-system", name)
	}
	assert.Empty(t, record(reread(t, p, plainly)))
	assert.NoError(t, merged(`{"metadata":{"labels":{"a":"b"}}}`)(t.Context(), admin, plainly), "anything else may be written")
}
