package creator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func merged(text string) change { return patched(types.MergePatchType, text) }

// record of an object that one made and another changed.
func changedBy(creator, user string) map[string]string {
	return map[string]string{"created-by": creator, "changed-by": user}
}

func TestS1_WhoeverSetsTheContentIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		alice, bob := p.user(t, "alice"), p.user(t, "bob")
		for name, tc := range map[string]struct {
			object          client.Object
			content, before string
		}{
			"a spec":                   {run("TaskRun", namespace, "a"), `{"spec":{"params":[1]}}`, `{"spec":{"params":[]}}`},
			"a spec of a built-in":     {deployment(namespace, "b", 0), `{"spec":{"replicas":1}}`, `{"spec":{"replicas":0}}`},
			"a field without a spec":   {plain(namespace, "c"), `{"data":{"key":"other"}}`, `{"data":{"key":"value"}}`},
			"a new field":              {plain(namespace, "d"), `{"rules":[{"verbs":["get"]}]}`, `{"rules":null}`},
			"a field that goes":        {plain(namespace, "e"), `{"data":null}`, `{"data":{"key":"value"}}`},
			"a spec that appears":      {foreign("tekton.dev/v1beta1", "CustomRun", namespace, "f"), `{"spec":{"a":1}}`, `{"spec":null}`},
			"an entry in another type": {plain(namespace, "g"), `{"data":{"key":1}}`, `{"data":{"key":"value"}}`},
		} {
			require.NoError(t, alice.Create(t.Context(), tc.object), name)
			for _, metadata := range []string{
				`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"finalizers":["example.com/a"]}}`, `{"metadata":{"finalizers":null}}`,
			} {
				require.NoError(t, merged(metadata)(t.Context(), bob, tc.object), name)
				assert.Equal(t, createdBy("alice"), record(reread(t, p, tc.object)), "%s: %s is no content", name, metadata)
			}
			require.NoError(t, merged(strings.Replace(tc.content, "{", `{"metadata":{"annotations":{"attribution.alaudadevops.io/changed-by":"alice"}},`, 1))(t.Context(), bob, tc.object), name)
			assert.Equal(t, changedBy("alice", "bob"), record(reread(t, p, tc.object)), "%s: nobody changes it in another's name", name)
			require.NoError(t, merged(tc.content)(t.Context(), alice, tc.object), name)
			assert.Equal(t, changedBy("alice", "bob"), record(reread(t, p, tc.object)), "%s: setting the same again takes no blame", name)
			require.NoError(t, merged(tc.before)(t.Context(), alice, tc.object), name)
			assert.Equal(t, createdBy("alice"), record(reread(t, p, tc.object)), "%s: setting it back is a change", name)
		}
	})
}

// A kind that has a spec may have more at its top level, which its controllers write.
func TestS1_OnlyTheSpecCountsWhereThereIsOne(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		object := run("TaskRun", namespace, "run")
		require.NoError(t, p.user(t, "alice").Create(t.Context(), object))
		require.NoError(t, merged(`{"operation":{"sync":{}}}`)(t.Context(), p.user(t, "bob"), object))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)))
	})
}

func TestS1_ControllersMoveNothingByStatusAndLabels(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		web := deployment(namespace, "web", 1)
		require.NoError(t, p.user(t, "alice").Create(t.Context(), web))
		admin := p.admin(t)
		sets, pods := &appsv1.ReplicaSetList{}, &corev1.PodList{}
		eventually(t, func(ctx context.Context) error {
			if err := admin.List(ctx, pods, client.InNamespace(namespace)); err != nil || len(pods.Items) == 0 {
				return fmt.Errorf("no pod yet: %w", err)
			}
			if stored := reread(t, p, web); stored.Status.ObservedGeneration < stored.Generation || stored.Status.UpdatedReplicas == 0 {
				return fmt.Errorf("its status is not written yet")
			}
			return nil
		})
		require.NoError(t, admin.List(t.Context(), sets, client.InNamespace(namespace)))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, web)), "the controller wrote a status and a revision")
		const byDeployment, byReplicaSet = "system:serviceaccount:kube-system:deployment-controller", "system:serviceaccount:kube-system:replicaset-controller"
		assert.Equal(t, map[string]string{"created-by": byDeployment, "created-for": string(web.UID), "changed-by": byDeployment}, record(&sets.Items[0]))
		assert.Equal(t, map[string]string{"created-by": byReplicaSet, "created-for": string(sets.Items[0].UID), "changed-by": byReplicaSet}, record(&pods.Items[0]))

		// The number of replicas is written through another kind of object, which says nothing of the Deployment's record.
		scaled := reread(t, p, web)
		require.NoError(t, p.user(t, "bob").SubResource("scale").Patch(t.Context(), scaled, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))))
		stored := reread(t, p, web)
		assert.EqualValues(t, 2, *stored.Spec.Replicas)
		assert.Equal(t, createdBy("alice"), record(stored))
		require.NoError(t, merged(`{"metadata":{"labels":{"a":"b"}}}`)(t.Context(), p.user(t, "carol"), stored))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, web)), "nor is it told of whoever writes next")
	})
}

// kubectl is run as a person with a file, as people do.
func kubectl(t *testing.T, p *plane, user string, object client.Object, arguments ...string) {
	t.Helper()
	kubeconfig, err := p.Kubeconfig("plane", p.Config(user, tenants))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600))
	text, err := yaml.Marshal(object)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "object.yaml"), text, 0o600))
	arguments = append(arguments, "--kubeconfig", filepath.Join(dir, "kubeconfig"), "-f", filepath.Join(dir, "object.yaml"))
	output, err := exec.CommandContext(t.Context(), "../../../bin/kubectl", arguments...).CombinedOutput()
	require.NoErrorf(t, err, "%s", output)
}

func TestS2_FilesOfOldKeepTheRecord(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		object := deployment(namespace, "web", 0)
		kubectl(t, p, "alice", object, "apply")
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)))

		old := reread(t, p, object) // exported once, record and all
		old.Annotations["attribution.alaudadevops.io/created-by"] = "somebody of another cluster"
		old.ManagedFields, old.ResourceVersion, old.UID = nil, "", ""
		kubectl(t, p, "bob", old, "apply")
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)), "the same content")
		kubectl(t, p, "bob", object, "apply")
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)), "kubectl takes out what the file no longer has")
		kubectl(t, p, "bob", object, "replace")
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)))
		kubectl(t, p, "bob", object, "apply", "--server-side", "--force-conflicts")
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)))
		object.Spec.Paused = true
		kubectl(t, p, "bob", object, "apply", "--server-side", "--force-conflicts")
		assert.Equal(t, changedBy("alice", "bob"), record(reread(t, p, object)))
		kubectl(t, p, "carol", object, "replace", "--force")
		assert.Equal(t, createdBy("carol"), record(reread(t, p, object)), "it is another object")
	})
}
