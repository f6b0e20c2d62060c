package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func TestS6_OnlyTheControllerMakesChecks(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody, controller := tenant(t, namespace), controllerClient(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "check"}
	for name, check := range map[string]client.Object{
		"ApprovalRequest": approvalRequest(namespace, "check"),
		"ScriptCheck":     &approvalv1alpha1.ScriptCheck{ObjectMeta: meta, Spec: approvalv1alpha1.ScriptCheckSpec{Expression: "true"}},
		"TimeWindowCheck": &approvalv1alpha1.TimeWindowCheck{ObjectMeta: meta, Spec: approvalv1alpha1.TimeWindowCheckSpec{Windows: []approvalv1alpha1.TimeWindow{{From: "09:00", To: "17:00"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			refusedByPolicy(t, somebody.Create(t.Context(), check.DeepCopyObject().(client.Object)), "create a ResourceCheckRequest to ask")
			require.NoError(t, controller.Create(t.Context(), check))
			assert.Equal(t, createdBy(controllerUser), record(check))
		})
	}
}

func TestS6_OnlyTheControllerLabelsChecks(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	label := map[string]string{approvalv1alpha1.LabelRequestUID: "33333333-3333-3333-3333-333333333333"}
	empty := map[string]string{approvalv1alpha1.LabelRequestUID: ""}
	const words = "marks checks, which the approval controller makes"

	pod := pendingPod(namespace, "labelled")
	pod.Labels = label
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "labelled", Labels: empty}}
	for name, object := range map[string]client.Object{
		"foreign check":   inspection(namespace, "labelled"),
		"built-in kind":   config,
		"pod":             pod,
		"request of ours": func() client.Object { r := checkRequest(namespace, "labelled"); r.Labels = label; return r }(),
		"our other group": func() client.Object {
			r := foreign("connectors.alaudadevops.io/v1alpha1", "Connector", namespace, "labelled")
			r.SetLabels(label)
			r.Object["spec"] = map[string]any{"connectorClassName": "any", "address": "https://tool.example.com"}
			return r
		}(),
		"without a reason": &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "labelled", Labels: label}},
	} {
		t.Run("create "+name, func(t *testing.T) {
			refusedByPolicy(t, somebody.Create(t.Context(), object), words)
		})
	}
	t.Run("label what exists", func(t *testing.T) {
		plain := foreign("checks.example.com/v1", "Inspection", namespace, "plain")
		require.NoError(t, somebody.Create(t.Context(), plain))
		smuggle := `{"metadata":{"labels":{"approval.alaudadevops.io/request-uid":"1"}}}`
		refusedByPolicy(t, somebody.Patch(t.Context(), plain, mergePatch(smuggle)), words)
		require.NoError(t, somebody.Status().Patch(t.Context(), plain, mergePatch(smuggle)), "metadata is no part of this status")
		assert.Empty(t, reread(t, plain).GetLabels())

		running := pendingPod(namespace, "running")
		require.NoError(t, somebody.Create(t.Context(), running))
		refusedByPolicy(t, somebody.Status().Patch(t.Context(), running, mergePatch(smuggle)), words)
		refusedByPolicy(t, somebody.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(inspection(namespace, "plain")), client.FieldOwner("mallory"), client.ForceOwnership), words)
	})
}

func TestS6_ACheckKeepsWhatMarksIt(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody, controller := tenant(t, namespace), controllerOfInspections(t)
	registerInspections(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	require.NoError(t, somebody.Create(t.Context(), owner))
	ours := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}
	theirs := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "dead", UID: "44444444-4444-4444-4444-444444444444"}

	tests := map[string]struct {
		owners []metav1.OwnerReference
		change change
	}{
		"label removed":   {nil, patchWith(`{"metadata":{"labels":{"touched":"yes","approval.alaudadevops.io/request-uid":null}}}`)},
		"label changed":   {nil, patchWith(`{"metadata":{"labels":{"touched":"yes","approval.alaudadevops.io/request-uid":"other"}}}`)},
		"context changed": {nil, patchWith(`{"metadata":{"labels":{"touched":"yes"},"annotations":{"approval.alaudadevops.io/context":"{}"}}}`)},
		"everything dropped": {[]metav1.OwnerReference{ours}, update(func(object client.Object) {
			object.SetAnnotations(nil)
			object.SetOwnerReferences(nil)
			object.SetLabels(map[string]string{"touched": "yes"})
		})},
		"all labels dropped": {nil, update(func(object client.Object) { object.SetLabels(nil) })},
		"dead owner set":     {nil, patchWith(`{"metadata":{"labels":{"touched":"yes"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"dead","uid":"44444444-4444-4444-4444-444444444444"}]}}`)},
		"owner replaced": {[]metav1.OwnerReference{ours}, update(func(object client.Object) {
			object.SetLabels(map[string]string{"touched": "yes"})
			object.SetOwnerReferences([]metav1.OwnerReference{theirs})
		})},
		"record forged": {nil, patchWith(forgeByPatch)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			check := inspection(namespace, "c-"+hashOf(name))
			check.SetOwnerReferences(tc.owners)
			require.NoError(t, controller.Create(t.Context(), check))
			before := check.DeepCopy()
			require.NoError(t, tc.change(t.Context(), somebody, check), "the update succeeds")
			stored := reread(t, before)
			assert.Equal(t, before.GetLabels()[approvalv1alpha1.LabelRequestUID], stored.GetLabels()[approvalv1alpha1.LabelRequestUID])
			assert.Equal(t, before.GetAnnotations(), stored.GetAnnotations())
			assert.Equal(t, before.GetOwnerReferences(), stored.GetOwnerReferences())
			assert.Equal(t, createdBy(controllerUser), record(stored))
			if name != "all labels dropped" {
				assert.Equal(t, "yes", stored.GetLabels()["touched"])
			}
		})
	}
	t.Run("a context that never was cannot appear", func(t *testing.T) {
		check := inspection(namespace, "without")
		check.SetAnnotations(nil)
		require.NoError(t, controller.Create(t.Context(), check))
		require.NoError(t, somebody.Patch(t.Context(), check, mergePatch(`{"metadata":{"annotations":{"approval.alaudadevops.io/context":"{}"}}}`)))
		assert.NotContains(t, reread(t, check).GetAnnotations(), approvalv1alpha1.AnnotationContext)
	})
	t.Run("answering in the spec is free", func(t *testing.T) {
		check := inspection(namespace, "answered")
		require.NoError(t, controller.Create(t.Context(), check))
		require.NoError(t, somebody.Patch(t.Context(), check, mergePatch(`{"spec":{"input":"approve"}}`)))
		assert.Equal(t, map[string]any{"text": "may it?", "input": "approve"}, reread(t, check).Object["spec"])
	})
}
