package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// forged is a complete forged record.
var forged = map[string]string{
	approvalv1alpha1.AnnotationCreatedBy:  "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller",
	approvalv1alpha1.AnnotationCreatedFor: "11111111-1111-1111-1111-111111111111",
	approvalv1alpha1.AnnotationChangedBy:  "olga",
	approvalv1alpha1.AnnotationMigratedBy: "olga",
}

func TestS1_ACreatorCannotBeForgedOnCreate(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	user := "tenant-of-" + namespace
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}, Annotations: forged},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "registry.example.com/main"}},
		},
	}
	always := *template.DeepCopy()
	always.Spec.RestartPolicy = corev1.RestartPolicyAlways
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "forged", Annotations: forged}
	pod := pendingPod(namespace, "forged")
	pod.Annotations = forged
	connector := &connectorsv1alpha1.Connector{ObjectMeta: meta, Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: "https://tool.example.com"}}
	rule := ruleFor(namespace, "forged")
	rule.Annotations = forged
	request := checkRequest(namespace, "forged")
	request.Annotations = forged
	// An answer that no webhook looked at yet has a creator all the same.
	answer := answerTo(approvalRequest(namespace, "none"), "forged")
	answer.Annotations = forged

	objects := map[string]client.Object{
		"pod":         pod,
		"job":         &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}},
		"cronjob":     &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}},
		"deployment":  &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: always}},
		"replicaset":  &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: always}},
		"statefulset": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: always}},
		"daemonset":   &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: always}},
		"connector":   connector,
		"rule":        rule,
		"request":     request,
		"answer":      answer,
	}
	for kind, apiVersion := range map[string]string{"PipelineRun": "tekton.dev/v1", "TaskRun": "tekton.dev/v1", "CustomRun": "tekton.dev/v1beta1"} {
		run := foreign(apiVersion, kind, namespace, "forged")
		run.SetAnnotations(forged)
		objects[kind] = run
	}
	for name, object := range objects {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, somebody.Create(t.Context(), object))
			assert.Equal(t, createdBy(user), record(reread(t, object)))
		})
	}
	t.Run("by server-side apply", func(t *testing.T) {
		applied := foreign("tekton.dev/v1", "TaskRun", namespace, "applied")
		applied.SetAnnotations(forged)
		require.NoError(t, somebody.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("mallory")))
		assert.Equal(t, createdBy(user), record(reread(t, applied)))
	})
}

func TestS1_CreatedForIsTheOwnerOfTheMomentOfCreation(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	victim := foreign("tekton.dev/v1", "PipelineRun", namespace, "victim")
	require.NoError(t, somebody.Create(t.Context(), victim))
	owner := metav1.OwnerReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: "victim", UID: victim.GetUID(), Controller: ptr.To(true)}
	plain := metav1.OwnerReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: "victim", UID: victim.GetUID()}

	tests := map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"none":               {nil, ""},
		"not the controller": {[]metav1.OwnerReference{plain}, ""},
		"controller":         {[]metav1.OwnerReference{owner}, string(victim.GetUID())},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := pendingPod(namespace, strings.ReplaceAll(name, " ", "-"))
			pod.OwnerReferences = tc.owners
			require.NoError(t, somebody.Create(t.Context(), pod))
			assert.Equal(t, tc.want, pod.Annotations[approvalv1alpha1.AnnotationCreatedFor])
			assert.Equal(t, "tenant-of-"+namespace, pod.Annotations[approvalv1alpha1.AnnotationCreatedBy], "the owner did not create it")
		})
	}
	t.Run("owner set later", func(t *testing.T) {
		pod := pendingPod(namespace, "later")
		require.NoError(t, somebody.Create(t.Context(), pod))
		pod.OwnerReferences = []metav1.OwnerReference{owner}
		pod.Annotations[approvalv1alpha1.AnnotationCreatedFor] = string(victim.GetUID())
		require.NoError(t, somebody.Update(t.Context(), pod))
		stored := reread(t, pod)
		assert.Len(t, stored.OwnerReferences, 1, "the update itself is allowed")
		assert.Equal(t, createdBy("tenant-of-"+namespace), record(stored))
	})
	t.Run("too many to look through", func(t *testing.T) {
		pod := pendingPod(namespace, "crowd")
		for i := range 101 {
			crowd := plain
			crowd.UID = types.UID(fmt.Sprint(i))
			pod.OwnerReferences = append(pod.OwnerReferences, crowd)
		}
		refusedByPolicy(t, somebody.Create(t.Context(), pod), "more than 100 owner references")
	})
}

// The controllers of Kubernetes create what they own; what a template forges is overwritten, and copying a
// Deployment's annotations onto its ReplicaSet changes nothing.
func TestS1_ControllersAreRecordedWithTheirOwner(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: forged},
				Spec:       pendingPod(namespace, "").Spec,
			},
		},
	}
	require.NoError(t, somebody.Create(t.Context(), deployment))
	sets, pods := &appsv1.ReplicaSetList{}, &corev1.PodList{}
	admin := as(t, cluster.Admin())
	eventually(t, func(ctx context.Context) error { return listedOne(ctx, admin, pods, namespace) })
	require.NoError(t, admin.List(t.Context(), sets, client.InNamespace(namespace)))
	require.Len(t, sets.Items, 1)
	assert.Equal(t, map[string]string{
		"created-by":  "system:serviceaccount:kube-system:deployment-controller",
		"created-for": string(deployment.UID),
		"changed-by":  "system:serviceaccount:kube-system:deployment-controller",
	}, record(&sets.Items[0]))
	assert.Equal(t, map[string]string{
		"created-by":  "system:serviceaccount:kube-system:replicaset-controller",
		"created-for": string(sets.Items[0].UID),
		"changed-by":  "system:serviceaccount:kube-system:replicaset-controller",
	}, record(&pods.Items[0]))

	// The next roll-out proves that the annotation which cannot be copied does not hold the controller up.
	require.NoError(t, somebody.Patch(t.Context(), deployment, mergePatch(`{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`)))
	eventually(t, func(ctx context.Context) error {
		if err := admin.List(ctx, sets, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(sets.Items) != 2 {
			return fmt.Errorf("%d replica sets", len(sets.Items))
		}
		return nil
	})
}

func listedOne(ctx context.Context, c client.Client, list client.ObjectList, namespace string) error {
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	if pods, ok := list.(*corev1.PodList); ok && len(pods.Items) == 0 {
		return fmt.Errorf("no pod yet")
	}
	return nil
}

// change is one way to write an object.
type change func(ctx context.Context, c client.Client, object client.Object) error

func update(edit func(object client.Object)) change {
	return func(ctx context.Context, c client.Client, object client.Object) error {
		edit(object)
		return c.Update(ctx, object)
	}
}

func patchWith(json string) change {
	return func(ctx context.Context, c client.Client, object client.Object) error {
		return c.Patch(ctx, object, mergePatch(json))
	}
}

func statusPatch(json string) change {
	return func(ctx context.Context, c client.Client, object client.Object) error {
		return c.Status().Patch(ctx, object, mergePatch(json))
	}
}

const forgeByPatch = `{"metadata":{"labels":{"touched":"yes"},"annotations":{
	"attribution.alaudadevops.io/created-by":"mallory",
	"attribution.alaudadevops.io/created-for":"mallory",
	"attribution.alaudadevops.io/changed-by":"mallory",
	"attribution.alaudadevops.io/migrated-by":"mallory"}}}`

func TestS2_ARecordNeverChanges(t *testing.T) {
	namespace := cluster.Namespace(t)
	first, second := tenant(t, namespace), tenantToo(t, namespace)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	require.NoError(t, first.Create(t.Context(), owner))
	tests := map[string]change{
		"overwritten": patchWith(forgeByPatch),
		"removed": patchWith(`{"metadata":{"labels":{"touched":"yes"},"annotations":{
			"attribution.alaudadevops.io/created-by":null,"attribution.alaudadevops.io/created-for":null,"attribution.alaudadevops.io/changed-by":null}}}`),
		"emptied":                 patchWith(`{"metadata":{"labels":{"touched":"yes"},"annotations":{"attribution.alaudadevops.io/created-by":""}}}`),
		"all annotations removed": patchWith(`{"metadata":{"labels":{"touched":"yes"},"annotations":null}}`),
		"full update by a tool that knows nothing of it": update(func(object client.Object) {
			object.SetAnnotations(map[string]string{"theirs": "kept"})
			object.SetLabels(map[string]string{"touched": "yes"})
		}),
		"server-side apply by force": func(ctx context.Context, c client.Client, object client.Object) error {
			kind := object.GetObjectKind().GroupVersionKind()
			applied := foreign(kind.GroupVersion().String(), kind.Kind, object.GetNamespace(), object.GetName())
			applied.SetAnnotations(forged)
			applied.SetLabels(map[string]string{"touched": "yes"})
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("mallory"), client.ForceOwnership)
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := pendingPod(namespace, "p-"+hashOf(name))
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}}
			run := foreign("tekton.dev/v1", "TaskRun", namespace, "r-"+hashOf(name))
			for _, object := range []client.Object{pod, run} {
				require.NoError(t, first.Create(t.Context(), object))
				object.GetObjectKind().SetGroupVersionKind(kindOf(t, object))
				before := record(object)
				require.Equal(t, "tenant-of-"+namespace, before["created-by"])
				require.NoError(t, tc(t.Context(), second, object))
				stored := reread(t, object)
				assert.Equal(t, before, record(stored))
				assert.Equal(t, "yes", stored.GetLabels()["touched"], "the update itself succeeds")
			}
		})
	}
}

// Metadata can be written through subresources of the built-in kinds.
func TestS2_NoSubresourceForgesARecord(t *testing.T) {
	namespace := cluster.Namespace(t)
	first, second := tenant(t, namespace), tenantToo(t, namespace)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job"},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: pendingPod(namespace, "").Spec.Containers,
		}}},
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployment"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: pendingPod(namespace, "").Spec},
		},
	}
	pod := pendingPod(namespace, "pod")
	run := foreign("tekton.dev/v1", "TaskRun", namespace, "run")
	for _, object := range []client.Object{job, deployment, pod, run} {
		require.NoError(t, first.Create(t.Context(), object))
		before := record(object)
		require.NoError(t, statusPatch(forgeByPatch)(t.Context(), second, object))
		assert.Equalf(t, before, record(reread(t, object)), "%T", object)
	}
	ephemeral := reread(t, pod)
	ephemeral.Annotations = forged
	ephemeral.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "registry.example.com/debug"}}}
	require.NoError(t, second.SubResource("ephemeralcontainers").Update(t.Context(), ephemeral))
	assert.Equal(t, createdBy("tenant-of-"+namespace), record(reread(t, pod)))

	scaled := reread(t, deployment)
	require.NoError(t, second.SubResource("scale").Patch(t.Context(), scaled, mergePatch(`{"metadata":{"annotations":{"attribution.alaudadevops.io/created-by":"mallory"}},"spec":{"replicas":0}}`)))
	assert.Equal(t, "tenant-of-"+namespace, record(reread(t, deployment))["created-by"])
}

// The API server copies the annotations and labels of a Binding onto the pod, past the admission of pods.
func TestS2_ABindingForgesNothing(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	pod := pendingPod(namespace, "unscheduled")
	require.NoError(t, somebody.Create(t.Context(), pod))
	before := record(pod)
	target := corev1.ObjectReference{Kind: "Node", Name: "node-1"}
	smuggled := map[string]corev1.Binding{
		"record": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{approvalv1alpha1.AnnotationCreatedBy: "mallory"}}},
		"owner":  {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{approvalv1alpha1.AnnotationCreatedFor: "mallory"}}},
		"label":  {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{approvalv1alpha1.LabelRequestUID: "mallory"}}},
		"text":   {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{approvalv1alpha1.AnnotationContext: "mallory"}}},
	}
	for name, binding := range smuggled {
		t.Run(name, func(t *testing.T) {
			binding.Namespace, binding.Name, binding.Target = namespace, pod.Name, target
			refusedByPolicy(t, somebody.SubResource("binding").Create(t.Context(), pod, binding.DeepCopy()), "leave")
			refusedByPolicy(t, somebody.Create(t.Context(), binding.DeepCopy()), "leave")
			stored := reread(t, pod)
			assert.Equal(t, before, record(stored))
			assert.Empty(t, stored.Labels)
			assert.Empty(t, stored.Spec.NodeName)
		})
	}
	plain := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name, Annotations: map[string]string{"theirs": "kept"}}, Target: target}
	require.NoError(t, somebody.SubResource("binding").Create(t.Context(), pod, plain))
	bound := reread(t, pod)
	assert.Equal(t, "node-1", bound.Spec.NodeName)
	assert.Equal(t, before, record(bound), "who schedules a pod did not create it")
	assert.Equal(t, "kept", bound.Annotations["theirs"])
}

func TestS3_NamesAreKeptExactly(t *testing.T) {
	namespace := cluster.Namespace(t)
	names := map[string]string{
		"separators": `a:b/c_d@example.com,O=x`,
		"JSON":       `{"user":"a"}\n"'` + "`",
		"any script": "Ольга Παπαδοπούλου 山田 عمر",
		"emoji":      "👩🏽‍🚀 <script>&amp;",
		"combining":  "e\u0301 is not é, \u202e nor is this",
		"spaces":     "a  b\u00a0c",
		"CEL":        `' + request.userInfo.groups + '`,
		"pointer":    "~0~1/metadata/annotations",
		"long":       strings.Repeat("長い名前", 2000),
	}
	for name, user := range names {
		t.Run(name, func(t *testing.T) {
			bindRoleNamed(t, namespace, "r-"+hashOf(name), user)
			run := foreign("tekton.dev/v1", "TaskRun", namespace, "n-"+hashOf(name))
			require.NoError(t, impersonate(t, user).Create(t.Context(), run))
			assert.Equal(t, user, run.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy])
			require.NoError(t, as(t, cluster.Admin()).Patch(t.Context(), run, mergePatch(`{"metadata":{"annotations":null}}`)))
			assert.Equal(t, createdBy(user), record(reread(t, run)))
		})
	}
}

func TestS1_TheLastAuthorIsWhoeverSetTheSpec(t *testing.T) {
	namespace := cluster.Namespace(t)
	first, second := tenant(t, namespace), tenantToo(t, namespace)
	firstName, secondName := "tenant-of-"+namespace, "tenant-too-of-"+namespace
	connector := &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "harbor"},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: "https://tool.example.com"},
	}
	for object, specPatch := range map[client.Object]string{
		ruleFor(namespace, "rule"): `{"spec":{"grant":{"maxDuration":"1h0m0s"}}}`,
		connector:                  `{"spec":{"requireChecks":true}}`,
	} {
		t.Run(fmt.Sprintf("%T", object), func(t *testing.T) {
			require.NoError(t, first.Create(t.Context(), object))
			both := map[string]string{"created-by": firstName, "changed-by": firstName}
			assert.Equal(t, both, record(object))

			require.NoError(t, patchWith(forgeByPatch)(t.Context(), second, object))
			assert.Equal(t, both, record(reread(t, object)), "labels and annotations are not the spec")
			require.NoError(t, controllerClient(t).Status().Patch(t.Context(), object, mergePatch(`{"status":{"observedGeneration":1},"spec":{"grant":{"maxDuration":"2h"}}}`)))
			assert.Equal(t, both, record(reread(t, object)), "nor is the status")

			require.NoError(t, patchWith(strings.Replace(specPatch, "{", `{"metadata":{"annotations":{"attribution.alaudadevops.io/changed-by":"`+firstName+`"}},`, 1))(t.Context(), second, object))
			both["changed-by"] = secondName
			assert.Equal(t, both, record(reread(t, object)), "nobody changes a spec in another's name")

			stored := reread(t, object)
			stored.SetAnnotations(nil)
			require.NoError(t, first.Update(t.Context(), stored))
			assert.Equal(t, both, record(reread(t, object)), "putting the same again takes no blame")
		})
	}
}

// A pod that carries as many annotations as fit must still be served, and quickly: no policy walks through them.
func TestS9_ManyAnnotationsDoNotHoldTheAPIServerUp(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	pod := pendingPod(namespace, "crowded")
	pod.Annotations = map[string]string{approvalv1alpha1.AnnotationCreatedBy: "mallory"}
	for i := range 30000 {
		pod.Annotations[fmt.Sprintf("a%05d", i)] = ""
	}
	require.NoError(t, somebody.Create(t.Context(), pod))
	require.NoError(t, statusPatch(forgeByPatch)(t.Context(), somebody, pod))
	assert.Equal(t, createdBy("tenant-of-"+namespace), record(reread(t, pod)))
}
