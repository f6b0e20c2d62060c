package release

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestS17_RolesOfReleasing(t *testing.T) {
	read := []string{"get", "list", "watch"}
	write := append([]string{"create", "delete", "patch", "update"}, read...)
	for role, want := range map[string][]string{
		"countersign-release-viewer": read, "view": read, "edit": read, "countersign-release-manager": write,
	} {
		t.Run(role, func(t *testing.T) {
			w := &world{t: t, namespace: cluster.Namespace(t), admin: as(t, cluster.Admin())}
			w.bind("ClusterRole", role, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: alice})
			for _, resource := range []string{"releases", "releaseplans", "releaseplanadmissions"} {
				for _, verb := range append([]string{"deletecollection"}, write...) {
					eventually(t, func(ctx context.Context) error {
						return w.may(ctx, alice, verb, resource, "", slices.Contains(want, verb))
					})
				}
				require.NoError(t, w.may(t.Context(), alice, "update", resource, "status", false))
				require.NoError(t, w.may(t.Context(), alice, "patch", resource, "status", false))
			}
		})
	}
}

// may returns an error unless the person may or may not do it, as wanted.
func (w *world) may(ctx context.Context, user, verb, resource, subresource string, want bool) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: w.namespace, Verb: verb, Group: "appstudio.redhat.com", Resource: resource, Subresource: subresource,
		}}}
	review, err := cluster.Client().AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if review.Status.Allowed != want {
		return fmt.Errorf("may %s %s/%s: %t", verb, resource, subresource, review.Status.Allowed)
	}
	return nil
}
