package creator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

const tektonController = "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller"

// assigning is a patch that names a creator.
func assigning(name string) change {
	return merged(`{"metadata":{"annotations":{"attribution.alaudadevops.io/created-by":"` + name + `"}}}`)
}

// unrecorded makes an object without a record: nobody knows who creates it.
func unrecorded[T client.Object](t *testing.T, p *plane, object T) T {
	t.Helper()
	require.NoError(t, p.anonymous(t).Create(t.Context(), object))
	stored := reread(t, p, object)
	require.NotContains(t, record(stored), "created-by")
	return stored
}

func TestS2_AHolderOfMigrateAssignsACreatorOnce(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace, name := p.namespace(t), names()
		migrator := p.holder(t, "migrator", "countersign-migrator")
		for way, write := range map[string]change{
			"merge patch":       assigning("alice"),
			"update":            updated(map[string]string{approvalv1alpha1.AnnotationCreatedBy: "alice"}),
			"server-side apply": applying(map[string]string{approvalv1alpha1.AnnotationCreatedBy: "alice"}),
			"with a forgery": updated(map[string]string{
				approvalv1alpha1.AnnotationCreatedBy: "alice", approvalv1alpha1.AnnotationCreatedFor: "1",
				approvalv1alpha1.AnnotationChangedBy: "olga", approvalv1alpha1.AnnotationMigratedBy: "olga",
			}),
		} {
			migrated := map[string]string{"created-by": "alice", "migrated-by": "migrator"}
			for _, object := range []client.Object{unrecorded(t, p, pod(namespace, name())), unrecorded(t, p, plain(namespace, name()))} {
				require.NoError(t, write(t.Context(), migrator, object), way)
				require.Equal(t, migrated, record(reread(t, p, object)), way)

				require.NoError(t, assigning("mallory")(t.Context(), migrator, object), way)
				assert.Equal(t, migrated, record(reread(t, p, object)), "%s: it overwrites nothing, not even itself", way)
				for undo, write := range ways() {
					if err := write(t.Context(), p.user(t, "mallory"), reread(t, p, object)); err == nil {
						assert.Equal(t, migrated, record(reread(t, p, object)), "%s, then %s", way, undo)
					}
				}
			}
		}
		t.Run("any name", func(t *testing.T) {
			object := unrecorded(t, p, plain(namespace, name()))
			require.NoError(t, assigning("https://issuer/#sub 山田")(t.Context(), migrator, object))
			assert.Equal(t, "https://issuer/#sub 山田", record(reread(t, p, object))["created-by"])
		})
		t.Run("with its content", func(t *testing.T) {
			object := unrecorded(t, p, plain(namespace, name()))
			object.Object["data"] = map[string]any{"key": "other"}
			object.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationCreatedBy: "alice"})
			require.NoError(t, migrator.Update(t.Context(), object))
			assert.Equal(t, map[string]string{"created-by": "alice", "migrated-by": "migrator", "changed-by": "migrator"}, record(reread(t, p, object)))
		})
	})
}

func TestS2_NothingElseIsMigrated(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace, name := p.namespace(t), names()
		migrator, mallory := p.holder(t, "migrator", "countersign-migrator"), p.user(t, "mallory")
		t.Run("a recorded creator", func(t *testing.T) {
			object := plain(namespace, name())
			require.NoError(t, p.user(t, "alice").Create(t.Context(), object))
			require.NoError(t, assigning("mallory")(t.Context(), migrator, object))
			assert.Equal(t, createdBy("alice"), record(reread(t, p, object)))
		})
		t.Run("on create", func(t *testing.T) {
			object := plain(namespace, name())
			object.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationCreatedBy: "alice"})
			require.NoError(t, migrator.Create(t.Context(), object))
			assert.Equal(t, createdBy("migrator"), record(reread(t, p, object)))
		})
		t.Run("through a subresource", func(t *testing.T) {
			object := unrecorded(t, p, pod(namespace, name()))
			require.NoError(t, migrator.Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"annotations":{"attribution.alaudadevops.io/created-by":"alice"}}}`))))
			assert.Empty(t, record(reread(t, p, object)))
		})
		t.Run("migrated-by alone", func(t *testing.T) {
			object := unrecorded(t, p, plain(namespace, name()))
			require.NoError(t, merged(`{"metadata":{"annotations":{"attribution.alaudadevops.io/migrated-by":"migrator"}}}`)(t.Context(), migrator, object))
			assert.Empty(t, record(reread(t, p, object)))
		})
		t.Run("by a tenant", func(t *testing.T) {
			object := unrecorded(t, p, plain(namespace, name()))
			require.NoError(t, assigning("alice")(t.Context(), mallory, object))
			assert.Empty(t, record(reread(t, p, object)), "everything in one's own namespace is not enough")
		})
		t.Run("by a Role for it", func(t *testing.T) {
			object := unrecorded(t, p, plain(namespace, name()))
			require.NoError(t, p.admin(t).Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "migrator"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "countersign-migrator"},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}},
			}))
			require.NoError(t, assigning("alice")(t.Context(), mallory, object))
			assert.Empty(t, record(reread(t, p, object)), "the verb counts cluster-wide only")
		})
	})
}

// nodeOf is what origins are read from.
func nodeOf(t *testing.T, object client.Object) *origin.Node {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	return origin.FromUnstructured(&unstructured.Unstructured{Object: content})
}

func TestS2_AMigratedCreatorProvesNothing(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		since := time.Now().Add(-time.Hour)
		owner := run("TaskRun", namespace, "owner")
		require.NoError(t, p.user(t, "alice").Create(t.Context(), owner))
		references := []metav1.OwnerReference{{APIVersion: "tekton.dev/v1", Kind: "TaskRun", Name: "owner", UID: owner.GetUID(), Controller: ptr.To(true)}}
		dyn, err := dynamic.NewForConfig(p.Admin())
		require.NoError(t, err)
		climber := origin.NewClimber(origin.NewLive(dyn, p.admin(t).RESTMapper()), origin.DefaultConfig(), func() time.Time { return since })

		real := pod(namespace, "real")
		real.OwnerReferences = references
		require.NoError(t, p.user(t, tektonController).Create(t.Context(), real))
		creator, proven := nodeOf(t, reread(t, p, real)).Creator(since)
		assert.True(t, proven)
		assert.Equal(t, tektonController, creator)
		climb, err := climber.ClimbFrom(t.Context(), nodeOf(t, reread(t, p, real)))
		require.NoError(t, err)
		assert.Equal(t, "owner", climb.Resource.Name, "the run is the pod's")

		fake := pod(namespace, "fake")
		fake.OwnerReferences = references
		fake = unrecorded(t, p, fake)
		require.Equal(t, string(owner.GetUID()), record(fake)["created-for"], "for whom it was made is recorded all the same")
		require.NoError(t, assigning(tektonController)(t.Context(), p.holder(t, "migrator", "countersign-migrator"), fake))
		fake = reread(t, p, fake)
		assert.Equal(t, tektonController, record(fake)["created-by"])
		_, proven = nodeOf(t, fake).Creator(since)
		assert.False(t, proven)
		climb, err = climber.ClimbFrom(t.Context(), nodeOf(t, fake))
		require.NoError(t, err)
		assert.NotEmpty(t, climb.Stopped, "it is not the run's pod")
	})
}
