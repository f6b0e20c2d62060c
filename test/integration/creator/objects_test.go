package creator

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// forged is a complete forged record.
func forged() map[string]string {
	return map[string]string{
		approvalv1alpha1.AnnotationCreatedBy:  "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller",
		approvalv1alpha1.AnnotationCreatedFor: "11111111-1111-1111-1111-111111111111",
		approvalv1alpha1.AnnotationChangedBy:  "olga",
		approvalv1alpha1.AnnotationMigratedBy: "olga",
	}
}

// forgedJSON is the same for patches, with a label that shows whether the patch was applied.
const forgedJSON = `{"metadata":{"labels":{"touched":"yes"},"annotations":{
	"attribution.alaudadevops.io/created-by":"mallory",
	"attribution.alaudadevops.io/created-for":"mallory",
	"attribution.alaudadevops.io/changed-by":"mallory",
	"attribution.alaudadevops.io/migrated-by":"mallory"}}}`

// record is the creator record of an object.
func record(object client.Object) map[string]string {
	found := map[string]string{}
	for key, value := range object.GetAnnotations() {
		if name, ok := strings.CutPrefix(key, "attribution.alaudadevops.io/"); ok {
			found[name] = value
		}
	}
	return found
}

// createdBy is the record of an object whose content is still its creator's.
func createdBy(user string) map[string]string {
	return map[string]string{"created-by": user, "changed-by": user}
}

func foreign(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// run is a PipelineRun or TaskRun.
func run(kind, namespace, name string) *unstructured.Unstructured {
	u := foreign("tekton.dev/v1", kind, namespace, name)
	u.Object["spec"] = map[string]any{"params": []any{}}
	return u
}

// plain has no spec.
func plain(namespace, name string) *unstructured.Unstructured {
	u := foreign("approval.alaudadevops.io/v1alpha1", "Plain", namespace, name)
	u.Object["data"] = map[string]any{"key": "value"}
	return u
}

// pod stays unscheduled: no scheduler runs.
func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/main"}},
		},
	}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}, Annotations: forged()},
		Spec:       pod("", "").Spec,
	}
}

func deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, Template: template()},
	}
}

func job(namespace, name string) *batchv1.Job {
	once := template()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       batchv1.JobSpec{Suspend: ptr.To(true), Template: once},
	}
}

func checkRequest(namespace, name string) *approvalv1alpha1.ResourceCheckRequest {
	return &approvalv1alpha1.ResourceCheckRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ResourceCheckRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Name: "any", Namespace: namespace},
			Reason:    "because",
		},
	}
}

// kinds has an object of every kind that the shipped selection names and a tenant may create.
func kinds(namespace, name string) map[string]client.Object {
	d, j := deployment(namespace, name, 0), job(namespace, name)
	meta := d.ObjectMeta
	connector := foreign("connectors.alaudadevops.io/v1alpha1", "Connector", namespace, name)
	connector.Object["spec"] = map[string]any{"connectorClassName": "any", "address": "https://tool.example.com"}
	plan := foreign("appstudio.redhat.com/v1alpha1", "ReleasePlan", namespace, name)
	plan.Object["spec"] = map[string]any{"application": "shop"}
	return map[string]client.Object{
		"pod":        pod(namespace, name),
		"deployment": d,
		"replicaset": &appsv1.ReplicaSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: meta,
			Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(0)), Selector: d.Spec.Selector, Template: template()},
		},
		"statefulset": &appsv1.StatefulSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: meta,
			Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(0)), Selector: d.Spec.Selector, Template: template()},
		},
		"daemonset": &appsv1.DaemonSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: meta,
			Spec: appsv1.DaemonSetSpec{Selector: d.Spec.Selector, Template: template()},
		},
		"job": j,
		"cronjob": &batchv1.CronJob{
			TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}, ObjectMeta: meta,
			Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", Suspend: ptr.To(true), JobTemplate: batchv1.JobTemplateSpec{Spec: j.Spec}},
		},
		"pipelinerun": run("PipelineRun", namespace, name),
		"taskrun":     run("TaskRun", namespace, name),
		"customrun":   foreign("tekton.dev/v1beta1", "CustomRun", namespace, name),
		"releaseplan": plan,
		"connector":   connector,
		"request":     checkRequest(namespace, name),
		"plain":       plain(namespace, name),
	}
}

// names gives objects short valid names.
func names() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("o-%d", n)
	}
}
