package creator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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

// decider is who may make checks and kinds of checks, and write the statuses that are guarded.
const decider = "decider"

// makers are who makes the objects of kinds(): alice those that tenants may make, and the decider the others.
func (p *plane) makers(t *testing.T) (of func(object client.Object) (string, client.Client)) {
	t.Helper()
	alice, decides := p.user(t, "alice"), clientOf(t, p.acting(decider, "system:masters"))
	return func(object client.Object) (string, client.Client) {
		switch object.GetObjectKind().GroupVersionKind().Kind {
		case "ApprovalRequest", "AttributionCheck", "CheckKind", "ScriptCheck", "TimeWindowCheck":
			return decider, decides
		default:
			return "alice", alice
		}
	}
}

// kinds has an object of every kind that the shipped selection names, by the kind in small letters.
func kinds(namespace, name string) map[string]client.Object {
	all := map[string]client.Object{}
	for _, object := range slices.Concat(workloads(namespace, name), ours(namespace, name)) {
		all[strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind)] = object
	}
	return all
}

// workloads are the kinds of others.
func workloads(namespace, name string) []client.Object {
	d, j := deployment(namespace, name, 0), job(namespace, name)
	meta, once := d.ObjectMeta, template()
	return []client.Object{
		d, j, pod(namespace, name),
		run("PipelineRun", namespace, name), run("TaskRun", namespace, name), foreign("tekton.dev/v1beta1", "CustomRun", namespace, name),
		&corev1.ReplicationController{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"}, ObjectMeta: meta,
			Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To(int32(0)), Selector: d.Spec.Selector.MatchLabels, Template: &once},
		},
		&appsv1.ReplicaSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: meta,
			Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(0)), Selector: d.Spec.Selector, Template: template()},
		},
		&appsv1.StatefulSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: meta,
			Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(0)), Selector: d.Spec.Selector, Template: template()},
		},
		&appsv1.DaemonSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: meta,
			Spec: appsv1.DaemonSetSpec{Selector: d.Spec.Selector, Template: template()},
		},
		&batchv1.CronJob{
			TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}, ObjectMeta: meta,
			Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", Suspend: ptr.To(true), JobTemplate: batchv1.JobTemplateSpec{Spec: j.Spec}},
		},
	}
}

// ours are the kinds of config/crd, and one without a spec. A CheckKind is of no namespace.
func ours(namespace, name string) []client.Object {
	connector := map[string]any{"apiVersion": "connectors.alaudadevops.io/v1alpha1", "kind": "Connector", "name": "any"}
	approvers := []any{map[string]any{"type": "User", "name": "olga"}}
	all := []client.Object{checkRequest(namespace, name), plain(namespace, name)}
	for kind, spec := range map[string]map[string]any{
		"approval.alaudadevops.io/v1alpha1 ApprovalRequest": {
			"policies": []any{map[string]any{"name": "owners", "approvers": approvers, "numberOfApprovalsRequired": int64(1)}},
		},
		"approval.alaudadevops.io/v1alpha1 ApprovalResponse":  {"decision": "Approve", "requestRef": map[string]any{"name": "any"}},
		"approval.alaudadevops.io/v1alpha1 AttributionCheck":  {},
		"approval.alaudadevops.io/v1alpha1 CheckKind":         {"apiVersion": name + "." + namespace + ".example.com/v1", "kind": "SignOff"},
		"approval.alaudadevops.io/v1alpha1 ResourceCheckRule": {"objectRef": connector, "checkTemplate": map[string]any{"apiVersion": "approval.alaudadevops.io/v1alpha1", "kind": "ScriptCheck"}},
		"approval.alaudadevops.io/v1alpha1 ScriptCheck":       {"expression": "true"},
		"approval.alaudadevops.io/v1alpha1 TimeWindowCheck":   {"windows": []any{map[string]any{"from": "09:00", "to": "17:00"}}},
		"connectors.alaudadevops.io/v1alpha1 Connector":       {"connectorClassName": "any", "address": "https://tool.example.com"},
		"appstudio.redhat.com/v1alpha1 Release":               {"releasePlan": "any", "snapshot": "any"},
		"appstudio.redhat.com/v1alpha1 ReleasePlan":           {"application": "shop"},
		"appstudio.redhat.com/v1alpha1 ReleasePlanAdmission":  {"applications": []any{"shop"}, "origin": namespace},
		"appstudio.redhat.com/v1alpha1 ReleaseServiceConfig":  {},
		"appstudio.redhat.com/v1alpha1 ReleaseStrategy":       {},
	} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		object := foreign(apiVersion, kind, namespace, name)
		if kind == "CheckKind" {
			object = foreign(apiVersion, kind, "", "signoff."+name+"."+namespace+".example.com")
		}
		object.Object["spec"] = spec
		all = append(all, object)
	}
	return all
}

// names gives objects short valid names.
func names() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("o-%d", n)
	}
}
