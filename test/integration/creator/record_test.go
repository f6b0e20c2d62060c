package creator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestS1_NoCreatorIsForgedOnCreate(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace, makers := p.namespace(t), p.makers(t)
		for name, object := range kinds(namespace, "created") {
			object.SetAnnotations(forged())
			user, maker := makers(object)
			require.NoError(t, maker.Create(t.Context(), object), name)
			assert.Equal(t, createdBy(user), record(reread(t, p, object)), name)
		}
		for name, object := range kinds(namespace, "applied") {
			object.SetAnnotations(forged())
			user, maker := makers(object)
			require.NoError(t, applied(t.Context(), maker, object), name)
			assert.Equal(t, createdBy(user), record(reread(t, p, object)), name)
		}
		alice := p.user(t, "alice")
		generated := pod(namespace, "")
		generated.GenerateName = "generated-"
		generated.Annotations = forged()
		require.NoError(t, alice.Create(t.Context(), generated))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, generated)))
	})
}

// applied applies an object on the server's side, by force.
func applied(ctx context.Context, c client.Client, object client.Object) error {
	// An ApplyConfiguration is made of what the client says, so managed fields of what was read must go.
	object = object.DeepCopyObject().(client.Object)
	object.SetManagedFields(nil)
	return c.Patch(ctx, object, client.Apply, client.FieldOwner("mallory"), client.ForceOwnership) //nolint:staticcheck // takes any object, typed or not
}

func TestS1_CreatedForIsTheControllerOfTheMomentOfCreation(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		alice := p.user(t, "alice")
		victim := run("PipelineRun", namespace, "victim")
		require.NoError(t, alice.Create(t.Context(), victim))
		other := metav1.OwnerReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: "victim", UID: victim.GetUID()}
		controller := other
		controller.Controller = ptr.To(true)
		for name, tc := range map[string]struct {
			owners []metav1.OwnerReference
			want   string
		}{
			"none":       {nil, ""},
			"other":      {[]metav1.OwnerReference{other}, ""},
			"controller": {[]metav1.OwnerReference{controller}, string(victim.GetUID())},
		} {
			object := pod(namespace, name)
			object.OwnerReferences = tc.owners
			require.NoError(t, alice.Create(t.Context(), object))
			assert.Equal(t, tc.want, record(object)["created-for"], name)
		}
		later := reread(t, p, pod(namespace, "none"))
		later.OwnerReferences = []metav1.OwnerReference{controller}
		require.NoError(t, alice.Update(t.Context(), later))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, later)), "an owner that is set later does not count")

		crowd := pod(namespace, "crowd")
		for i := range 101 {
			one := other
			one.UID = types.UID(fmt.Sprint(i))
			crowd.OwnerReferences = append(crowd.OwnerReferences, one)
		}
		assert.ErrorContains(t, alice.Create(t.Context(), crowd), "more than 100 owner references")
	})
}

// change is one way to write an object.
type change func(ctx context.Context, c client.Client, object client.Object) error

func patched(kind types.PatchType, text string) change {
	return func(ctx context.Context, c client.Client, object client.Object) error {
		return c.Patch(ctx, object, client.RawPatch(kind, []byte(text)))
	}
}

// updated writes the whole object. Its controllers may have written it meanwhile.
func updated(annotations map[string]string) change {
	return func(ctx context.Context, c client.Client, object client.Object) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			object.SetAnnotations(annotations)
			object.SetLabels(map[string]string{"touched": "yes"})
			return c.Update(ctx, object)
		})
	}
}

// ways are all ways of writing an object, each with a forged record or none, and with a label as proof.
func ways() map[string]change {
	const key = "/metadata/annotations/attribution.alaudadevops.io~1"
	return map[string]change{
		"merge patch that forges":             patched(types.MergePatchType, forgedJSON),
		"merge patch that removes":            patched(types.MergePatchType, strings.ReplaceAll(forgedJSON, `"mallory"`, "null")),
		"merge patch that empties":            patched(types.MergePatchType, strings.ReplaceAll(forgedJSON, `"mallory"`, `""`)),
		"merge patch that removes everything": patched(types.MergePatchType, `{"metadata":{"labels":{"touched":"yes"},"annotations":null}}`),
		"JSON patch that forges": patched(types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{"touched":"yes"}},
			{"op":"add","path":"`+key+`created-by","value":"mallory"},{"op":"add","path":"`+key+`created-for","value":"mallory"},
			{"op":"add","path":"`+key+`changed-by","value":"mallory"},{"op":"add","path":"`+key+`migrated-by","value":"mallory"}]`),
		"JSON patch that removes": patched(types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{"touched":"yes"}},
			{"op":"remove","path":"`+key+`created-by"},{"op":"remove","path":"`+key+`changed-by"}]`),
		"JSON patch that removes everything": patched(types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{"touched":"yes"}},
			{"op":"remove","path":"/metadata/annotations"}]`),
		"update that forges":                         updated(forged()),
		"update by a tool that knows nothing of it":  updated(map[string]string{"theirs": "kept"}),
		"update without annotations":                 updated(nil),
		"server-side apply that forges":              applying(forged()),
		"server-side apply that knows nothing of it": applying(nil),
	}
}

func applying(annotations map[string]string) change {
	return func(ctx context.Context, c client.Client, object client.Object) error {
		kind := object.GetObjectKind().GroupVersionKind()
		sent := foreign(kind.GroupVersion().String(), kind.Kind, object.GetNamespace(), object.GetName())
		sent.SetAnnotations(annotations)
		sent.SetLabels(map[string]string{"touched": "yes"})
		return applied(ctx, c, sent)
	}
}

func TestS2_ARecordNeverChanges(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace, name := p.namespace(t), names()
		alice, mallory := p.user(t, "alice"), p.user(t, "mallory")
		for way, write := range ways() {
			for _, object := range []client.Object{pod(namespace, name()), run("TaskRun", namespace, name()), plain(namespace, name()), deployment(namespace, name(), 0)} {
				kind := object.GetObjectKind().GroupVersionKind()
				require.NoError(t, alice.Create(t.Context(), object))
				object = reread(t, p, object)
				require.NoError(t, write(t.Context(), mallory, object), "%s of a %s", way, kind.Kind)
				stored := reread(t, p, object)
				assert.Equal(t, createdBy("alice"), record(stored), "%s of a %s", way, kind.Kind)
				assert.Equal(t, "yes", stored.GetLabels()["touched"], "%s of a %s succeeds", way, kind.Kind)
			}
		}
		t.Run("strategic merge patch", func(t *testing.T) {
			object := pod(namespace, name())
			require.NoError(t, alice.Create(t.Context(), object))
			require.NoError(t, patched(types.StrategicMergePatchType, forgedJSON)(t.Context(), mallory, object))
			require.NoError(t, patched(types.StrategicMergePatchType, `{"metadata":{"annotations":{"$patch":"replace","theirs":"kept"}}}`)(t.Context(), mallory, object))
			stored := reread(t, p, object)
			assert.Equal(t, createdBy("alice"), record(stored))
			assert.Equal(t, "kept", stored.Annotations["theirs"])
		})
	})
}

// What is set through these says nothing of who sets the content: their admission does not reach the object, or only a
// part of it.
func TestS2_NoSubresourceSetsTheContent(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace, objects := p.namespace(t), map[string]client.Object{}
		alice, mallory := p.user(t, "alice"), p.user(t, "mallory")
		for name, object := range kinds(namespace, "object") {
			if slices.Contains([]string{"pod", "deployment", "replicaset", "replicationcontroller", "statefulset"}, name) {
				require.NoError(t, alice.Create(t.Context(), object), name)
				objects[name] = object
			}
		}
		debugged := reread(t, p, objects["pod"]).(*corev1.Pod)
		delete(objects, "pod")
		for name, object := range objects {
			require.NoError(t, mallory.SubResource("scale").Patch(t.Context(), reread(t, p, object), client.RawPatch(types.MergePatchType,
				[]byte(strings.Replace(forgedJSON, "{", `{"spec":{"replicas":0},`, 1)))), name)
			assert.Equal(t, createdBy("alice"), record(reread(t, p, object)), name)
		}
		debugged.Annotations = forged()
		debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "registry.example.com/debug"}}}
		require.NoError(t, mallory.SubResource("ephemeralcontainers").Update(t.Context(), debugged))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, debugged)), "pods/ephemeralcontainers moves nothing")
		resized := reread(t, p, debugged)
		resized.Annotations = forged()
		require.NoError(t, mallory.SubResource("resize").Update(t.Context(), resized))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, debugged)), "nor does pods/resize")
	})
}

// Bindings and evictions are written to a pod, and end in the pod.
func TestS2_NoBindingOrEvictionForgesARecord(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		alice, mallory := p.user(t, "alice"), p.user(t, "mallory")
		object := pod(namespace, "unscheduled")
		require.NoError(t, alice.Create(t.Context(), object))
		target := corev1.ObjectReference{Kind: "Node", Name: "node-1"}
		for key, value := range forged() {
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: object.Name, Annotations: map[string]string{key: value}}, Target: target}
			assert.ErrorContains(t, mallory.SubResource("binding").Create(t.Context(), object, binding.DeepCopy()), "leave", key)
			assert.ErrorContains(t, mallory.Create(t.Context(), binding.DeepCopy()), "leave", key)
		}
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)))
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: object.Name, Annotations: forged()},
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
		}
		require.NoError(t, mallory.SubResource("eviction").Create(t.Context(), object, eviction))
		plain := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: object.Name}, Target: target}
		require.NoError(t, mallory.SubResource("binding").Create(t.Context(), object, plain))
		bound := reread(t, p, object)
		assert.Equal(t, "node-1", bound.Spec.NodeName)
		assert.Equal(t, createdBy("alice"), record(bound), "who schedules a pod did not make it")
	})
}

func TestS3_NamesAreKeptExactly(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace, name := p.namespace(t), names()
		for _, user := range []string{
			"https://issuer.example.com/#sub", "CN=dev,O=corp", "a b  c", "山田 太郎", strings.Repeat("長い名前", 75), "a:b", "a_b", "a-b", "A:B",
			`{"user":"a"}"'` + "`", "👩🏽‍🚀 <script>&amp;", "e\u0301 is not é, \u202e nor is this", `' + request.userInfo.groups + '`, "~0~1/metadata/annotations",
			"system:serviceaccount:a:b", " ", "null", "$(whoami)",
		} {
			object := run("TaskRun", namespace, name())
			require.NoError(t, p.user(t, user).Create(t.Context(), object), user)
			assert.Equal(t, createdBy(user), record(reread(t, p, object)))
			require.NoError(t, p.user(t, "mallory").Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))))
			assert.Equal(t, createdBy(user), record(reread(t, p, object)))
		}
	})
}

func TestS1_TheImpersonatedUserIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		object := pod(namespace, "pod")
		require.NoError(t, p.user(t, "impersonated").Create(t.Context(), object))
		assert.Equal(t, createdBy("impersonated"), record(object), "and not the administrator who impersonates")
		require.NoError(t, p.admin(t).Create(t.Context(), run("TaskRun", namespace, "run")))
		assert.Equal(t, createdBy("kubernetes-admin"), record(reread(t, p, run("TaskRun", namespace, "run"))))
	})
}

func TestS1_NobodyIsRecordedWithoutAuthentication(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		for name, nobody := range map[string]client.Client{
			"anonymous":    p.anonymous(t),
			"impersonated": p.user(t, "system:anonymous"),
			"by-group":     p.user(t, "somebody", "system:unauthenticated"),
		} {
			object := run("TaskRun", namespace, name)
			object.SetAnnotations(forged())
			require.NoError(t, nobody.Create(t.Context(), object), name)
			assert.Empty(t, record(reread(t, p, object)), name)
			// What was not recorded when it was created is not made up later, but who changes it is known from then on.
			alice := p.user(t, "alice")
			require.NoError(t, updated(forged())(t.Context(), alice, object))
			assert.Empty(t, record(reread(t, p, object)), name)
			require.NoError(t, patched(types.MergePatchType, `{"spec":{"a":1}}`)(t.Context(), alice, object))
			assert.Equal(t, map[string]string{"changed-by": "alice"}, record(reread(t, p, object)), name)
			require.NoError(t, patched(types.MergePatchType, `{"spec":{"a":2}}`)(t.Context(), nobody, object))
			assert.Empty(t, record(reread(t, p, object)), "nobody knows who set this")
		}
	})
}

// An object that carries as many annotations as fit must still be served, and quickly: nothing walks through them twice.
func TestS9_ManyAnnotationsDoNotHoldTheAPIServerUp(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace := p.namespace(t)
		alice := p.user(t, "alice")
		crowded := pod(namespace, "crowded")
		crowded.Annotations = forged()
		for i := range 30000 {
			crowded.Annotations[fmt.Sprintf("a%05d", i)] = ""
		}
		require.NoError(t, alice.Create(t.Context(), crowded))
		require.NoError(t, alice.Status().Patch(t.Context(), crowded, client.RawPatch(types.MergePatchType, []byte(forgedJSON))))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, crowded)))
		assert.Contains(t, reread(t, p, crowded).Annotations, "a29999")
	})
}
