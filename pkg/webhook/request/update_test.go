package request

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

type unstructuredObject = unstructured.Unstructured

// stored is a request that a pod made for alice's run, as it is stored.
func stored(t *testing.T) (*harness, *unstructured.Unstructured, *origin.Node) {
	t.Helper()
	h := newHarness(t, connector(), account("deployer"), account("builder"))
	_, _, pod := h.pipeline()
	u := mutate(t, h, serviceAccountUser("deployer", "jti-1", pod), ask(t, `spec: {use: {http: {methods: [PUT], paths: ["/v2/**"]}}, timeRange: {duration: 90m}}`))
	return h, u, pod
}

func TestS2_FullUpdateThatLacksFieldsSucceedsWithThemKept(t *testing.T) {
	tests := map[string]func(u *unstructured.Unstructured){
		"nothing changed": func(*unstructured.Unstructured) {},
		"no spec":         func(u *unstructured.Unstructured) { delete(u.Object, "spec") },
		"no context":      func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "context") },
		"no subject's uid": func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "context", "subject", "uid")
		},
		"no requestedBy": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "requestedBy") },
		"null use":       func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, nil, "spec", "use") },
		"no labels":      func(u *unstructured.Unstructured) { u.SetLabels(nil) },
		"another label": func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{"mine": "new", approvalv1alpha1.LabelFingerprint: "x"})
		},
		"owner and finalizer": func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "dead", UID: "dead"}})
			u.SetFinalizers([]string{"example.com/keep"})
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			h, old, _ := stored(t)
			u := old.DeepCopy()
			change(u)
			got, err := h.update(person("gitops"), old, u)
			require.NoError(t, err)
			want := typed(t, old)
			assert.Equal(t, want.Spec, got.Spec)
			assert.Equal(t, want.Labels[approvalv1alpha1.LabelFingerprint], got.Labels[approvalv1alpha1.LabelFingerprint])
			assert.Empty(t, got.OwnerReferences)
			assert.Empty(t, got.Finalizers)
		})
	}
}

func TestS2_SpecCannotChange(t *testing.T) {
	tests := map[string]func(u *unstructured.Unstructured){
		"subject": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "x", "spec", "context", "subject", "name")
		},
		"resource": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "x", "spec", "context", "resource", "uid")
		},
		"use": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedStringSlice(u.Object, []string{"/**"}, "spec", "use", "http", "paths")
		},
		"a field that was absent": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedStringSlice(u.Object, []string{"Read"}, "spec", "use", "operations")
		},
		"reason": func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, "x", "spec", "reason") },
		"an equal duration written otherwise": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "1h30m", "spec", "timeRange", "duration")
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			h, old, _ := stored(t)
			u := old.DeepCopy()
			change(u)
			_, err := h.update(person("alice"), old, u)
			require.ErrorContains(t, err, "a request cannot be changed")
		})
	}
}

func TestS1_RevokerIsCaptured(t *testing.T) {
	tests := map[string]struct {
		user func(pod *origin.Node) authenticationv1.UserInfo
		want bool
	}{
		"subject and requester": {func(pod *origin.Node) authenticationv1.UserInfo { return serviceAccountUser("deployer", "other", pod) }, true},
		"subject re-created": {func(*origin.Node) authenticationv1.UserInfo {
			u := serviceAccountUser("deployer", "x", nil)
			u.UID = "new"
			return u
		}, false},
		"creator of the run": {func(*origin.Node) authenticationv1.UserInfo { return person("alice") }, true},
		"somebody else":      {func(*origin.Node) authenticationv1.UserInfo { return person("mallory") }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h, old, pod := stored(t)
			u := old.DeepCopy()
			require.NoError(t, unstructured.SetNestedMap(u.Object, map[string]any{"reason": "wrong image", "by": "bob", "at": "2020-01-01T00:00:00Z"}, "spec", "revoked"))
			user := tc.user(pod)
			got, err := h.update(user, old, u)
			if !tc.want {
				require.ErrorContains(t, err, "may revoke")
				return
			}
			require.NoError(t, err)
			at := metav1.NewTime(now).Rfc3339Copy()
			assert.Equal(t, user.Username, got.Spec.Revoked.By)
			assert.True(t, got.Spec.Revoked.At.Equal(&at))
		})
	}
}

func TestS2_RevocationStands(t *testing.T) {
	h, old, _ := stored(t)
	require.NoError(t, unstructured.SetNestedMap(old.Object, map[string]any{"reason": "x", "by": "alice", "at": "2025-01-01T12:00:00Z"}, "spec", "revoked"))
	u := old.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "spec", "revoked")
	got, err := h.update(person("alice"), old, u)
	require.NoError(t, err)
	assert.Equal(t, "alice", got.Spec.Revoked.By)

	require.NoError(t, unstructured.SetNestedField(u.Object, "alice", "spec", "revoked", "by"))
	require.NoError(t, unstructured.SetNestedField(u.Object, "other words", "spec", "revoked", "reason"))
	_, err = h.update(person("alice"), old, u)
	require.ErrorContains(t, err, "revoked already")
}

func TestS1_RevocationThatAnotherWebhookChangesIsRefused(t *testing.T) {
	h, old, _ := stored(t)
	for name, revoked := range map[string]map[string]any{
		"by":    {"reason": "x", "by": "bob", "at": now.Format(time.RFC3339)},
		"at":    {"reason": "x", "by": "alice", "at": "2020-01-01T00:00:00Z"},
		"no at": {"reason": "x", "by": "alice"},
	} {
		t.Run(name, func(t *testing.T) {
			u := old.DeepCopy()
			require.NoError(t, unstructured.SetNestedMap(u.Object, revoked, "spec", "revoked"))
			r := updateReview(person("alice"), old, u)
			require.ErrorContains(t, h.webhook.Validate(t.Context(), r), "spec.revoked")
		})
	}
}

func TestRevocationOfARunThatIsGoneIsForItsSubjectOnly(t *testing.T) {
	h, old, _ := stored(t)
	h.nodes = nil
	u := old.DeepCopy()
	require.NoError(t, unstructured.SetNestedMap(u.Object, map[string]any{"reason": "x"}, "spec", "revoked"))
	_, err := h.update(person("alice"), old, u)
	require.ErrorContains(t, err, "may revoke")
}
