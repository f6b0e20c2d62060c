package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/env"
)

func TestAPodUsesTheConnectorUnderItsRunsApproval(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	developer := plane.as(t, "developer")
	job, pods := s.job(developer, "deploy", 2)
	first, second := s.proxyToken(&pods[0]), s.proxyToken(&pods[1])
	s.refused(first, "PUT", "/app", approvalv1alpha1.ReasonNoRequest)

	request := s.mustAsk(s.inPod(&pods[0]))
	assert.Equal(t, job.UID, request.Spec.Context.Resource.UID, "the context is the job, not the pod")
	assert.Equal(t, pods[0].UID, request.Spec.Context.Pod.UID)
	s.approve(request, "owners", 1)
	s.allowed(first, "PUT", "/app")
	s.allowed(second, "PUT", "/app")

	_, others := s.job(developer, "another", 1)
	s.refused(s.proxyToken(&others[0]), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)

	s.deleteJob(job)
	s.reaches(request, approvalv1alpha1.ReasonContextEnded)
	_, recreated := s.job(developer, "deploy", 1)
	s.refused(s.proxyToken(&recreated[0]), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	s.refused(first, "PUT", "/app", approvalv1alpha1.ReasonUnauthenticated)
}

// deleteJob deletes a job with its pods at once, as no kubelet is there to confirm.
func (s *stage) deleteJob(job *batchv1.Job) {
	s.Helper()
	require.NoError(s, s.admin.Delete(s.ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.eventually("the job and its pods are gone", func() error {
		return s.admin.DeleteAllOf(s.ctx, &corev1.Pod{}, client.InNamespace(s.team), client.GracePeriodSeconds(0),
			client.MatchingLabels{"batch.kubernetes.io/controller-uid": string(job.UID)})
	})
	s.eventually("the job is gone", func() error {
		err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(job), &batchv1.Job{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return assert.AnError
	})
}

func tektonObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: kind})
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func ownedBy(owner client.Object) []metav1.OwnerReference {
	gvk := owner.GetObjectKind().GroupVersionKind()
	return []metav1.OwnerReference{{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true),
	}}
}

// pipelineRun starts a run with the tasks build and push as the developer. The real Tekton makes the rest; the pods run
// until they are told how to end.
func (s *stage) pipelineRun(name string) *unstructured.Unstructured {
	s.Helper()
	return s.pipelineRunOf(plane.impersonating(s.T, "developer@example.com", "developers", "system:masters"), name)
}

// pipelineRunOf is pipelineRun as somebody.
func (s *stage) pipelineRunOf(as client.Client, name string) *unstructured.Unstructured {
	s.Helper()
	step := map[string]any{"name": "main", "image": "main", "command": []any{"true"}}
	task := func(name string) any {
		return map[string]any{"name": name, "retries": int64(1), "taskSpec": map[string]any{"steps": []any{step}}}
	}
	run := tektonObject("PipelineRun", s.team, name, map[string]any{
		"pipelineSpec":    map[string]any{"tasks": []any{task("build"), task("push")}},
		"taskRunTemplate": map[string]any{"serviceAccountName": "pipeline"},
	})
	run.SetAnnotations(map[string]string{env.PodHold: "true"})
	s.eventually("the API server takes PipelineRuns", func() error { return as.Create(s.ctx, run) })
	return run
}

// taskRun is what Tekton made.
func (s *stage) taskRun(name string) *unstructured.Unstructured {
	s.Helper()
	task := tektonObject("TaskRun", s.team, name, nil)
	s.eventually("Tekton makes TaskRun "+name, func() error {
		return plane.as(s.T, "admin").Get(s.ctx, client.ObjectKeyFromObject(task), task)
	})
	return task
}

// taskPod is what Tekton made, once it is bound to a node.
func (s *stage) taskPod(name string) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: name}}
	s.eventually("Tekton's pod "+name+" runs", func() error {
		if err := plane.as(s.T, "admin").Get(s.ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("its phase is %s", pod.Status.Phase)
		}
		return nil
	})
	return pod
}

// ends tells a pod how to end.
func (s *stage) ends(pod *corev1.Pod, phase corev1.PodPhase) {
	s.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, env.PodFinish, phase))
	require.NoError(s, plane.as(s.T, "admin").Patch(s.ctx, pod.DeepCopy(), patch))
}

// forgeTaskRun makes what looks like a part of the run.
func (s *stage) forgeTaskRun(as client.Client, name string, owner client.Object) *unstructured.Unstructured {
	s.Helper()
	task := tektonObject("TaskRun", s.team, name, map[string]any{"serviceAccountName": "pipeline", "taskRef": map[string]any{"name": "push"}})
	task.SetOwnerReferences(ownedBy(owner))
	require.NoError(s, as.Create(s.ctx, task))
	return task
}

func (s *stage) forgePod(as client.Client, name string, owner client.Object) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: name, OwnerReferences: ownedBy(owner)},
		Spec:       corev1.PodSpec{ServiceAccountName: "pipeline", Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
	require.NoError(s, as.Create(s.ctx, pod))
	return pod
}

func TestTasksAndRetriesOfOnePipelineRunShareOneRequest(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))

	run := s.pipelineRun("release-1")
	push := s.taskRun("release-1-push")
	first := s.taskPod("release-1-push-pod")
	s.ends(first, corev1.PodFailed)
	pods := []*corev1.Pod{s.taskPod("release-1-build-pod"), s.taskPod("release-1-push-pod-retry1")}
	var request *approvalv1alpha1.ResourceCheckRequest
	for i, pod := range pods {
		asked, err := s.ask(s.inPod(pod))
		if i == 0 {
			require.NoError(t, err)
			request = asked
			assert.Equal(t, run.GetUID(), request.Spec.Context.Resource.UID)
			continue
		}
		require.True(t, apierrors.IsAlreadyExists(err), "the second pod of a run is told of the first one's request: %v", err)
		assert.Contains(t, err.Error(), request.Name)
	}
	s.approve(request, "owners", 1)
	for _, pod := range pods {
		s.allowed(s.proxyToken(pod), "PUT", "/app")
	}

	t.Run("a second run does not", func(t *testing.T) {
		s.pipelineRun("release-2")
		s.refused(s.proxyToken(s.taskPod("release-2-push-pod")), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	})
	intruder := plane.impersonating(t, "intruder@example.com", "developers", "system:masters")
	t.Run("a forged TaskRun does not", func(t *testing.T) {
		forged := s.forgeTaskRun(intruder, "release-1-forged", run)
		s.refused(s.proxyToken(s.forgePod(intruder, "release-1-forged-pod", forged)), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	})
	t.Run("a forged pod does not", func(t *testing.T) {
		forged := s.forgePod(intruder, "release-1-push-pod-forged", push)
		s.refused(s.proxyToken(forged), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	})
	t.Run("a re-pointed owner does not", func(t *testing.T) {
		s.pipelineRun("release-3")
		pod := s.taskPod("release-3-push-pod")
		s.eventually("the intruder re-points the pod", func() error {
			if err := intruder.Get(s.ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			pod.OwnerReferences = ownedBy(push)
			return intruder.Update(s.ctx, pod)
		})
		s.refused(s.proxyToken(pod), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	})
}
