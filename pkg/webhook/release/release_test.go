package release

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

const (
	integration = "system:serviceaccount:integration:controller"
	decider     = "system:serviceaccount:countersign-system:countersign-controller"
	onPlan      = `{"kind":"ReleasePlan","namespace":"team-a","name":"plan","uid":"u","generation":3}`
	byBob       = `{"kind":"ReleasePlan","namespace":"team-a","name":"plan","uid":"u","generation":3,"author":"bob","acceptedAt":"2026-03-02T09:00:00Z"}`
)

// access lets the controller decide, cluster-wide.
type access struct{ err error }

func (a *access) Allowed(_ context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (bool, string, error) {
	asked := authz.ResourceAttributes{Group: "authority.alaudadevops.io", Resource: "checks", Verb: "decide"}
	return user.Username == decider && attrs == asked, "", a.err
}

// plan stands in generation 3, and bob stands for it.
func plan(edits ...func(*releasev1alpha1.ReleasePlan)) *releasev1alpha1.ReleasePlan {
	accepted := attribution.Standing{Generation: 3, Author: "bob", AcceptedAt: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	p := &releasev1alpha1.ReleasePlan{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "plan", UID: "u", Generation: 3,
		Labels: map[string]string{attribution.Default().StandingLabel: "true"},
		Annotations: map[string]string{
			approvalv1alpha1.AnnotationAuthor: "bob", approvalv1alpha1.AnnotationStanding: accepted.String(),
		},
	}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func newWebhook(t testing.TB, plans ...client.Object) *Webhook {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, releasev1alpha1.AddToScheme(scheme))
	return New(Deps{
		Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(plans...).Build(), Access: &access{},
		Vocabulary: attribution.Default(), Automated: sets.New(integration),
	})
}

// object is a Release with the metadata, in YAML.
func object(t testing.TB, metadata string) *unstructured.Unstructured {
	t.Helper()
	meta := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(metadata), &meta))
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "appstudio.redhat.com/v1alpha1", "kind": "Release", "metadata": meta,
		"spec": map[string]any{"releasePlan": "plan", "unknown": map[string]any{"to": "us"}},
	}}
}

func review(user string, operation admissionv1.Operation, old, object *unstructured.Unstructured) *admit.Review {
	return &admit.Review{
		Caller: admit.CallerOf(authenticationv1.UserInfo{Username: user}), Operation: operation, Namespace: "team-a", Old: old, Object: object,
	}
}

const (
	author      = "attribution.alaudadevops.io/author"
	automatedBy = "attribution.alaudadevops.io/automated-by"
	standing    = "attribution.alaudadevops.io/standing"
	authorLabel = "release.rhtap.openshift.io/author"
	automated   = "release.rhtap.openshift.io/automated"
)

func TestRecord(t *testing.T) {
	type texts = map[string]string
	tests := map[string]struct {
		user            string
		old, sent       string
		plans           []client.Object
		wantAnnotations texts
		wantLabels      texts
	}{
		"made by a person": {user: "alice", sent: "{}", plans: []client.Object{plan()},
			wantAnnotations: texts{author: "alice", standing: onPlan}, wantLabels: texts{authorLabel: "alice"}},
		"made for somebody else": {user: "alice", sent: "{annotations: {" + author + ": ceo, " + automatedBy + ": x, " + standing + ": x, other: z}, labels: {" + authorLabel + ": ceo, other: z}}",
			plans: []client.Object{plan()}, wantAnnotations: texts{author: "alice", standing: onPlan, "other": "z"}, wantLabels: texts{authorLabel: "alice", "other": "z"}},
		"made by a program": {user: integration, sent: "{labels: {" + automated + `: "true", ` + authorLabel + ": ceo}}", plans: []client.Object{plan()},
			wantAnnotations: texts{automatedBy: integration, standing: byBob}, wantLabels: texts{automated: "true"}},
		"made by a program that does not say so": {user: integration, sent: "{labels: {" + automated + `: "yes"}}`, plans: []client.Object{plan()},
			wantAnnotations: texts{author: integration, standing: onPlan}, wantLabels: texts{automated: "yes", authorLabel: attribution.LabelValue(integration)}},
		"no plan": {user: "alice", sent: "{}", wantAnnotations: texts{author: "alice"}, wantLabels: texts{authorLabel: "alice"}},
		"a plan that asks for nobody": {user: integration, sent: "{labels: {" + automated + `: "true"}}`,
			plans:           []client.Object{plan(func(p *releasev1alpha1.ReleasePlan) { p.Labels = nil })},
			wantAnnotations: texts{automatedBy: integration, standing: onPlan}, wantLabels: texts{automated: "true"}},
		"a plan whose spec moved past the record": {user: integration, sent: "{labels: {" + automated + `: "true"}}`,
			plans:           []client.Object{plan(func(p *releasev1alpha1.ReleasePlan) { p.Annotations[standing] = `{"generation":2,"author":"bob"}` })},
			wantAnnotations: texts{automatedBy: integration, standing: onPlan}, wantLabels: texts{automated: "true"}},
		"a plan whose author is another": {user: integration, sent: "{labels: {" + automated + `: "true"}}`,
			plans:           []client.Object{plan(func(p *releasev1alpha1.ReleasePlan) { p.Annotations[author] = "carol" })},
			wantAnnotations: texts{automatedBy: integration, standing: onPlan}, wantLabels: texts{automated: "true"}},
		"stored": {user: "carol", old: "{annotations: {" + author + ": alice, " + standing + ": s}, labels: {" + authorLabel + ": alice}}", sent: "{}",
			wantAnnotations: texts{author: "alice", standing: "s"}, wantLabels: texts{authorLabel: "alice"}},
		"stored, older than the records": {user: "carol", old: "{labels: {" + authorLabel + ": alice}}", sent: "{annotations: {" + author + ": carol}}",
			wantLabels: texts{authorLabel: "alice"}},
		"stored, automated later": {user: integration, old: "{annotations: {" + author + ": alice}, labels: {" + authorLabel + ": alice}}",
			sent: "{labels: {" + automated + `: "true"}}`, wantAnnotations: texts{author: "alice"}, wantLabels: texts{authorLabel: "alice"}},
		"stored, laundered": {user: "carol", old: "{annotations: {" + automatedBy + ": x, " + standing + ": '" + byBob + "'}, labels: {" + automated + `: "true"}}`,
			sent:            "{annotations: {" + author + ": carol}, labels: {" + authorLabel + ": carol}}",
			wantAnnotations: texts{automatedBy: "x", standing: byBob}, wantLabels: texts{automated: "true"}},
		"stored, named by who may not": {user: "carol", old: "{annotations: {" + automatedBy + ": x, " + standing + ": '" + byBob + "'}, labels: {" + automated + `: "true"}}`,
			sent:            "{annotations: {" + author + ": bob}, labels: {" + authorLabel + ": bob}}",
			wantAnnotations: texts{automatedBy: "x", standing: byBob}, wantLabels: texts{automated: "true"}},
		"stored, named by who decides": {user: decider, old: "{annotations: {" + automatedBy + ": x, " + standing + ": '" + byBob + "'}, labels: {" + automated + `: "true"}}`,
			sent:            "{labels: {" + authorLabel + ": bob}}",
			wantAnnotations: texts{automatedBy: "x", standing: byBob}, wantLabels: texts{automated: "true", authorLabel: "bob"}},
		"stored, a person's, named by who decides": {user: decider, old: "{annotations: {" + author + ": alice, " + standing + ": '" + byBob + "'}}",
			sent: "{labels: {" + authorLabel + ": bob}}", wantAnnotations: texts{author: "alice", standing: byBob}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWebhook(t, tc.plans...)
			r := review(tc.user, admissionv1.Create, nil, object(t, tc.sent))
			if tc.old != "" {
				r.Operation, r.Old = admissionv1.Update, object(t, tc.old)
			}
			require.NoError(t, w.Mutate(t.Context(), r))
			assert.Equal(t, tc.wantAnnotations, r.Object.GetAnnotations())
			assert.Equal(t, tc.wantLabels, r.Object.GetLabels())
			once := r.Object.DeepCopy()
			require.NoError(t, w.Mutate(t.Context(), r), "another webhook has it run again")
			assert.Equal(t, once, r.Object)
			require.NoError(t, w.Validate(t.Context(), r))
		})
	}
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		user, sent string
		code       int32
		want       string
	}{
		"automated by a person":          {"alice", "{labels: {" + automated + `: "true"}}`, 403, "alice is none of them: leave the label out"},
		"automated by another program":   {integration + "x", "{labels: {" + automated + `: "true"}}`, 403, "--automated-service-accounts"},
		"nobody":                         {"", "{}", 403, "does not say who"},
		"labels that are no texts":       {"alice", "{labels: {a: 1}}", 422, "metadata.labels"},
		"annotations that are no object": {"alice", "{annotations: [a]}", 422, "metadata.annotations"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWebhook(t, plan())
			for _, step := range []admit.Step{w.Mutate, w.Validate} {
				err := step(t.Context(), review(tc.user, admissionv1.Create, nil, object(t, tc.sent)))
				var status apierrors.APIStatus
				require.ErrorAs(t, err, &status)
				assert.Equal(t, tc.code, status.Status().Code)
				assert.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestS1_WhatDiffersIsRefused(t *testing.T) {
	w := newWebhook(t, plan())
	made := review("alice", admissionv1.Create, nil, object(t, "{}"))
	require.NoError(t, w.Mutate(t.Context(), made))
	stored := made.Object.DeepCopy()
	for name, tc := range map[string]struct{ field, key, want string }{
		"author":    {"annotations", author, "metadata.annotations"},
		"automated": {"annotations", automatedBy, "metadata.annotations"},
		"label":     {"labels", authorLabel, "metadata.labels"},
	} {
		changed := stored.DeepCopy()
		require.NoError(t, unstructured.SetNestedField(changed.Object, "ceo", "metadata", tc.field, tc.key))
		assert.ErrorContains(t, w.Validate(t.Context(), review("alice", admissionv1.Create, nil, changed)), tc.want, name)
		assert.ErrorContains(t, w.Validate(t.Context(), review("alice", admissionv1.Update, stored, changed)), tc.want, name)
	}
	moved := newWebhook(t, plan(func(p *releasev1alpha1.ReleasePlan) { p.Generation = 4 }))
	err := moved.Validate(t.Context(), review("alice", admissionv1.Create, nil, stored))
	assert.True(t, apierrors.IsConflict(err), "the plan changed meanwhile: %v", err)
}

func TestS9_WhatCannotBeLookedUpIsRefused(t *testing.T) {
	away := errors.New("10.0.0.1: connection refused")
	w := newWebhook(t)
	w.Live = interceptor.NewClient(w.Live.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return away
		},
	})
	err := w.Mutate(t.Context(), review("alice", admissionv1.Create, nil, object(t, "{}")))
	require.ErrorIs(t, err, away)
	assert.NotContains(t, err.Error(), "10.0.0.1")

	w = newWebhook(t)
	w.Access = &access{err: away}
	old := object(t, "{annotations: {"+automatedBy+": x, "+standing+": '"+byBob+"'}}")
	require.NoError(t, w.Mutate(t.Context(), review("alice", admissionv1.Update, old, old.DeepCopy())), "nothing to ask")
	named := object(t, "{labels: {"+authorLabel+": bob}}")
	require.ErrorIs(t, w.Mutate(t.Context(), review(decider, admissionv1.Update, old, named)), away)
}

// The patch leaves everything alone that is not ours, however another installation describes the kind.
func TestThePatchIsOfMetadataOnly(t *testing.T) {
	w := newWebhook(t, plan())
	raw := []byte(`{"apiVersion":"appstudio.redhat.com/v1alpha1","kind":"Release","metadata":{"name":"r","annotations":{}},
		"spec":{"releasePlan":"plan","data":{"big":90071992547409919,"ratio":1.5,"null":null}},"more":[1]}`)
	response := admit.Mutating(w.Mutate).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "team-a", UserInfo: authenticationv1.UserInfo{Username: "alice"}, Object: runtime.RawExtension{Raw: raw}}})
	require.True(t, response.Allowed)
	require.NotEmpty(t, response.Patches)
	for _, operation := range response.Patches {
		assert.Regexp(t, "^/metadata/(annotations|labels)", operation.Path)
	}
}

// FuzzRelease holds the steps to three things, whatever is sent: they do not panic, what the first makes the second passes,
// and what is stored does not change.
func FuzzRelease(f *testing.F) {
	f.Add("alice", `{"metadata":{"labels":{"release.rhtap.openshift.io/automated":"true"}}}`, "")
	f.Add(integration, `{"metadata":{"labels":{"release.rhtap.openshift.io/automated":"true"}},"spec":{"releasePlan":"plan"}}`, `{"metadata":{}}`)
	f.Add("", `{"metadata":5,"spec":[]}`, `{"metadata":{"annotations":{"attribution.alaudadevops.io/standing":"{"}}}`)
	w := newWebhook(f, plan())
	f.Fuzz(func(t *testing.T, user, sent, old string) {
		r, ok := fuzzed(user, sent, old)
		if !ok || w.Mutate(t.Context(), r) != nil {
			return
		}
		if err := w.Validate(t.Context(), r); err != nil {
			t.Fatalf("refused what it made: %v", err)
		}
		got := r.Object.GetAnnotations()
		if r.Old != nil && user != decider && got[author] != r.Old.GetAnnotations()[author] {
			t.Fatalf("the author changed to %q", got[author])
		}
		if r.Old == nil && got[author] != user && got[automatedBy] != integration {
			t.Fatalf("%q made a Release of %q", user, got[author])
		}
	})
}

func fuzzed(user, sent, old string) (*admit.Review, bool) {
	r := review(user, admissionv1.Create, nil, &unstructured.Unstructured{})
	if json.Unmarshal([]byte(sent), &r.Object.Object) != nil || r.Object.Object == nil {
		return nil, false
	}
	if old != "" {
		r.Operation, r.Old = admissionv1.Update, &unstructured.Unstructured{}
		if json.Unmarshal([]byte(old), &r.Old.Object) != nil || r.Old.Object == nil {
			return nil, false
		}
	}
	return r, true
}
