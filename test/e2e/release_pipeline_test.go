package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// What the pipeline of a Release tries with the token of its pod: to say itself who answers for a Release. RBAC lets it.
func TestS4_ThePipelineCannotWriteItsOwnAttribution(t *testing.T) {
	r := newReleases(t)
	r.hold()
	alice, bob := r.somebody("alice"), r.somebody("bob")
	r.plan(alice)
	failed := r.fails(r.release(integration, automated))
	own := r.shows(r.release(alice), releasev1alpha1.ConditionManagedPipelineProcessed, metav1.ConditionUnknown, releasev1alpha1.ReasonProgressing)
	pipeline := r.inPod(r.podOf(own))
	r.writesStatus(pipeline)

	for what, release := range map[string]*releasev1alpha1.Release{"its own Release": own, "a Release that failed": failed} {
		before := release.Status.Attribution
		for way, forge := range r.forgeries(pipeline, release, bob) {
			err := forge()
			require.Truef(t, apierrors.IsForbidden(err), "%s of %s: %v", way, what, err)
			require.ErrorContainsf(t, err, "ValidatingAdmissionPolicy 'countersign-release-status-guard'", "%s of %s", way, what)
			require.Equalf(t, before, r.now(release).Status.Attribution, "%s of %s", way, what)
		}
		for way, drop := range r.besides(pipeline, release, bob) {
			require.NoErrorf(t, drop(), "%s of %s is taken without the status", way, what)
			require.Equalf(t, before, r.now(release).Status.Attribution, "%s of %s", way, what)
		}
	}

	made := r.newRelease()
	made.Status = releasev1alpha1.ReleaseStatus{Attribution: forgery(bob), ManagedProcessing: &releasev1alpha1.PipelineInfo{PipelineRun: r.prod + "/mine"}}
	require.NoError(t, pipeline.Create(r.ctx, made))
	assert.Nil(t, made.Status.Attribution, "what is sent in a create is dropped")
	assert.Nil(t, made.Status.ManagedProcessing)
	robot := "system:serviceaccount:" + r.prod + ":release-pipeline"
	assert.Equal(t, robot, r.fails(made, "only the robot "+robot).Status.Attribution.Author)
}

// writesStatus lets the pipeline's service account write Releases and their status, and waits until the API server's
// authorizer says yes, so that it is Countersign that refuses.
func (r *releases) writesStatus(pipeline client.Client) {
	r.Helper()
	rule := rbacv1.PolicyRule{
		APIGroups: []string{releasev1alpha1.GroupVersion.Group}, Resources: []string{"releases", "releases/status"},
		Verbs: []string{"create", "get", "patch", "update"},
	}
	r.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: r.team, Name: "status-writer"}, Rules: []rbacv1.PolicyRule{rule}})
	r.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.team, Name: "status-writer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "status-writer"},
		Subjects:   []rbacv1.Subject{account(r.prod, "release-pipeline")},
	})
	for _, verb := range rule.Verbs {
		r.eventually("RBAC lets the pipeline "+verb+" a status", func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: r.team, Group: releasev1alpha1.GroupVersion.Group, Resource: "releases", Subresource: "status", Verb: verb,
				},
			}}
			if err := pipeline.Create(r.ctx, review); err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("it does not: %+v", review.Status)
			}
			return nil
		})
	}
}

// forgery is what the pipeline would like to be told.
func forgery(author string) *releasev1alpha1.Attribution {
	at := metav1.Now().Rfc3339Copy()
	return &releasev1alpha1.Attribution{Author: author, Verified: true, VerifiedAt: &at}
}

// forgeries are all ways to write the status.
func (r *releases) forgeries(as client.Client, release *releasev1alpha1.Release, author string) map[string]func() error {
	text, err := json.Marshal(forgery(author))
	require.NoError(r, err)
	patch := func(kind types.PatchType, format string) func() error {
		return func() error {
			return as.Status().Patch(r.ctx, release.DeepCopy(), client.RawPatch(kind, fmt.Appendf(nil, format, text)))
		}
	}
	return map[string]func() error{
		"an update":        r.forgedUpdate(release, author, func(o client.Object) error { return as.Status().Update(r.ctx, o) }),
		"a merge patch":    patch(types.MergePatchType, `{"status":{"attribution":%s}}`),
		"a JSON patch":     patch(types.JSONPatchType, `[{"op":"add","path":"/status/attribution","value":%s}]`),
		"a JSON patch too": patch(types.JSONPatchType, `[{"op":"replace","path":"/status","value":{"attribution":%s}}]`),
		"an apply": func() error {
			return as.Status().Apply(r.ctx, forgedApply(r, release, text), client.FieldOwner("pipeline"), client.ForceOwnership)
		},
	}
}

// besides are all ways to send a status with the Release itself, where it does not belong.
func (r *releases) besides(as client.Client, release *releasev1alpha1.Release, author string) map[string]func() error {
	text, err := json.Marshal(forgery(author))
	require.NoError(r, err)
	return map[string]func() error{
		"an update": r.forgedUpdate(release, author, func(o client.Object) error { return as.Update(r.ctx, o) }),
		"a merge patch": func() error {
			return as.Patch(r.ctx, release.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"attribution":%s}}`, text)))
		},
		"an apply": func() error {
			return as.Apply(r.ctx, forgedApply(r, release, text), client.FieldOwner("pipeline"), client.ForceOwnership)
		},
	}
}

// forgedUpdate sends the Release as it is now, with another author.
func (r *releases) forgedUpdate(release *releasev1alpha1.Release, author string, update func(client.Object) error) func() error {
	return func() error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			forged := r.now(release)
			forged.Status.Attribution = forgery(author)
			return update(forged)
		})
	}
}

func forgedApply(t testing.TB, release *releasev1alpha1.Release, text []byte) runtime.ApplyConfiguration {
	t.Helper()
	attribution := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &attribution))
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"attribution": attribution}}}
	u.SetGroupVersionKind(releasev1alpha1.GroupVersion.WithKind(releasev1alpha1.KindRelease))
	u.SetNamespace(release.Namespace)
	u.SetName(release.Name)
	return client.ApplyConfigurationFromUnstructured(u)
}
