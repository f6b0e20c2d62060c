package release

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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// meddler installs somebody else's mutating webhook, which is asked after ours and answers with the patch that change
// makes of the object.
func (w *world) meddler(change func(object *unstructured.Unstructured, user string) string) {
	w.t.Helper()
	w.meddlerThatIsAsked(admissionregistrationv1.NeverReinvocationPolicy, change)
}

func (w *world) meddlerThatIsAsked(again admissionregistrationv1.ReinvocationPolicyType, change func(object *unstructured.Unstructured, user string) string) {
	w.t.Helper()
	pair, err := cluster.CA().IssueServer("127.0.0.1")
	require.NoError(w.t, err)
	certificate, err := pair.TLS()
	require.NoError(w.t, err)
	server := httptest.NewUnstartedServer(answering(change))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	w.t.Cleanup(server.Close)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "zz-meddler-"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         "meddler.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: cluster.CA().CertPEM()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"configmaps", "releases", "releaseplans"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}},
			ReinvocationPolicy:      &again,
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	w.create(w.admin, config)
	w.t.Cleanup(func() { assert.NoError(w.t, w.admin.Delete(context.Background(), config)) })
	eventually(w.t, func(ctx context.Context) error {
		// It marks a ConfigMap, which shows that it is asked.
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "probe"}}
		if err := w.admin.Create(ctx, probe, client.DryRunAll); err != nil || probe.Labels["meddled"] == "" {
			return fmt.Errorf("the meddler is not asked: %w", err)
		}
		return nil
	})
}

func answering(change func(*unstructured.Unstructured, string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		object := &unstructured.Unstructured{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := object.UnmarshalJSON(review.Request.Object.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		patch := `[{"op": "add", "path": "/metadata/labels", "value": {"meddled": "true"}}]`
		if object.GetKind() != "ConfigMap" {
			patch = change(object, review.Request.UserInfo.Username)
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if patch != "" {
			review.Response.Patch, review.Response.PatchType = []byte(patch), ptr.To(admissionv1.PatchTypeJSONPatch)
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}
}

// Ours is asked again when another webhook changed something, so what that does to the record is undone.
func TestS1_OtherWebhooksDoNotChangeTheRecord(t *testing.T) {
	const annotations = "/metadata/annotations/attribution.alaudadevops.io~1"
	patches := map[string]string{
		"author":   `[{"op": "add", "path": "` + annotations + `author", "value": "ceo@example.com"}]`,
		"standing": `[{"op": "add", "path": "` + annotations + `standing", "value": "{}"}]`,
		"none":     `[{"op": "remove", "path": "` + annotations + `author"}, {"op": "remove", "path": "` + annotations + `standing"}]`,
		"labels":   `[{"op": "remove", "path": "/metadata/labels"}]`,
	}
	for name, patch := range patches {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			// What asks for somebody to stand is no part of the record: without the label nobody does.
			p := w.plan("plan", w.asking)
			w.create(w.user(bob), p)
			w.meddler(func(*unstructured.Unstructured, string) string { return patch })
			r := w.release("release")
			w.create(w.user(alice), r)
			got := w.record(reread(w, r))
			assert.Equal(t, record{author: alice, standing: got.standing, authorLabel: attribution.LabelValue(alice)}, got)
			assert.Equal(t, p.UID, standing(t, reread(w, r)).UID)
			require.NoError(t, edit(w, w.user(bob), r, func(r aRelease) { annotate(r, "example.com/noise", "x") }))
			assert.Equal(t, got, w.record(reread(w, r)))
		})
	}
}

func TestS1_WhoeverChangesTheRecordLastIsRefused(t *testing.T) {
	for field, by := range map[string]string{
		"labels/release.rhtap.openshift.io~1author":       "metadata.labels: the server sets it, and another admission webhook or the client changed it",
		"annotations/attribution.alaudadevops.io~1author": "ValidatingAdmissionPolicy 'countersign-release-attribution'",
	} {
		t.Run(field, func(t *testing.T) {
			w := newWorld(t)
			p, r := w.plan("plan", w.asking), w.release("release")
			w.create(w.user(bob), p)
			w.create(w.user(alice), r)
			w.meddlerThatIsAsked(admissionregistrationv1.IfNeededReinvocationPolicy, func(*unstructured.Unstructured, string) string {
				return `[{"op": "add", "path": "/metadata/` + field + `", "value": "ceo"}]`
			})
			assert.ErrorContains(t, w.user(alice).Create(t.Context(), w.release("another")), by)
			assert.ErrorContains(t, w.user(alice).Create(t.Context(), w.plan("another", w.asking)), by)
			assert.ErrorContains(t, edit(w, w.user(alice), r, func(r aRelease) { annotate(r, "example.com/noise", "x") }), by)
			assert.ErrorContains(t, edit(w, w.user(bob), p, noise), by)
		})
	}
}

// A word is given once, but the step runs twice.
func TestAWordCountsAlthoughAnotherWebhookChangesThePlan(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.proposing(alice))
	w.create(w.user(robot), p)
	w.meddler(func(u *unstructured.Unstructured, _ string) string {
		if u.GetAnnotations()["meddled"] != "" {
			return ""
		}
		return `[{"op": "add", "path": "/metadata/annotations/meddled", "value": "true"}]`
	})
	again := func(p plan) { delete(p.Annotations, "meddled") }
	require.NoError(t, edit(w, w.user(alice), p, func(p plan) { again(p); accepting("2120-01-01T00:00:00Z")(p) }))
	w.stands(p, alice)
	assert.NotNil(t, standing(t, reread(w, p)).ExpiresAt)
	assert.Equal(t, "true", reread(w, p).Annotations["meddled"])

	require.NoError(t, edit(w, w.user(bob), p, again))
	w.stands(p, alice)
	require.NoError(t, edit(w, w.user(alice), p, func(p plan) { again(p); accepting("false")(p) }))
	assert.Equal(t, record{}, w.record(reread(w, p)))
}

func TestASpecThatAnotherWebhookChangesIsAccepted(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.proposing(alice))
	w.create(w.user(robot), p)
	w.meddler(func(*unstructured.Unstructured, string) string {
		return `[{"op": "add", "path": "/spec/releaseGracePeriodDays", "value": 30}]`
	})
	require.NoError(t, edit(w, w.user(alice), p, accepting("true")))
	w.stands(p, alice)
	require.EqualValues(t, 2, reread(w, p).Generation)
}

// konflux does to the label what Konflux' own author webhook does, which is asked after ours, and once.
func konflux(words attribution.Vocabulary) func(*unstructured.Unstructured, string) string {
	label := "/metadata/labels/release.appstudio.openshift.io~1author"
	return func(u *unstructured.Unstructured, user string) string {
		set := `[{"op": "add", "path": "` + label + `", "value": "` + attribution.LabelValue("konflux:"+user) + `"}]`
		if len(u.GetLabels()) == 0 {
			set = `[{"op": "add", "path": "/metadata/labels", "value": {}},` + set[1:]
		}
		labels := u.GetLabels()
		switch {
		case u.GetKind() == "Release" && u.GetUID() == "" && labels[words.AutomatedLabel] != "true":
			return set
		case u.GetKind() == "ReleasePlan" && labels[words.StandingLabel] == "true" && labels[words.AuthorLabel] == "":
			return set
		}
		return ""
	}
}

func TestBesideKonflux(t *testing.T) {
	w := newWorldWith(t, attribution.VocabularyAppStudio)
	w.meddler(konflux(w.words))
	p := w.plan("plan", w.asking)
	w.create(w.user(bob), p)
	w.stands(p, bob)
	mine, automated := w.release("mine"), w.release("automated", w.automated)
	w.create(w.user(alice), mine)
	w.create(w.user(integration), automated)
	assert.Equal(t, attribution.LabelValue(alice), w.record(reread(w, mine)).authorLabel)
	assert.Empty(t, w.record(reread(w, automated)).authorLabel)
	require.NoError(t, edit(w, w.user(robot), p, retarget("other")))
	w.stands(p, "")
	require.NoError(t, edit(w, w.user(robot), mine, func(r aRelease) { annotate(r, approvalv1alpha1.AnnotationAuthor, robot) }))
	assert.Equal(t, alice, w.record(reread(w, mine)).author)
}
