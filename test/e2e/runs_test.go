package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
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

const tektonController = "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller"

// tekton installs Tekton's own CRDs and returns a client with the identity of its controller.
func (s *stage) tekton() client.Client {
	s.Helper()
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tektoncd/pipeline").Output()
	require.NoError(s, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(output)), "config", "300-crds", "*.yaml"))
	require.NoError(s, err)
	require.NotEmpty(s, files, "Tekton's CRDs are in its module")
	for _, file := range files {
		s.applyCRD(file)
	}
	return plane.impersonating(s.T, tektonController, "system:serviceaccounts", "system:masters", "system:authenticated")
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

// pipelineRun starts a run as the developer; taskRun and pod are made by Tekton's identity.
func (s *stage) pipelineRun(name string) *unstructured.Unstructured {
	s.Helper()
	run := tektonObject("PipelineRun", s.team, name, map[string]any{
		"pipelineRef": map[string]any{"name": "release"}, "taskRunTemplate": map[string]any{"serviceAccountName": "pipeline"},
	})
	developer := plane.impersonating(s.T, "developer@example.com", "developers", "system:masters")
	s.eventually("the API server takes PipelineRuns", func() error { return developer.Create(s.ctx, run) })
	return run
}

func (s *stage) taskRun(as client.Client, name string, owner client.Object) *unstructured.Unstructured {
	s.Helper()
	task := tektonObject("TaskRun", s.team, name, map[string]any{"serviceAccountName": "pipeline", "taskRef": map[string]any{"name": "push"}})
	task.SetOwnerReferences(ownedBy(owner))
	s.eventually("the API server takes TaskRuns", func() error { return as.Create(s.ctx, task) })
	return task
}

func (s *stage) pod(as client.Client, name string, owner client.Object) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: name},
		Spec:       corev1.PodSpec{ServiceAccountName: "pipeline", Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
	if owner != nil {
		pod.OwnerReferences = ownedBy(owner)
	}
	require.NoError(s, as.Create(s.ctx, pod))
	return pod
}

func TestTasksAndRetriesOfOnePipelineRunShareOneRequest(t *testing.T) {
	s := newStage(t)
	tekton := s.tekton()
	s.rule("owners", "ApprovalRequest", people(1))

	run := s.pipelineRun("release-1")
	build := s.taskRun(tekton, "release-1-build", run)
	push := s.taskRun(tekton, "release-1-push", run)
	pods := []*corev1.Pod{
		s.pod(tekton, "release-1-build-pod", build), s.pod(tekton, "release-1-push-pod", push), s.pod(tekton, "release-1-push-pod-retry1", push),
	}
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
		another := s.pipelineRun("release-2")
		pod := s.pod(tekton, "release-2-push-pod", s.taskRun(tekton, "release-2-push", another))
		s.refused(s.proxyToken(pod), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	})
	intruder := plane.impersonating(t, "intruder@example.com", "developers", "system:masters")
	t.Run("a forged TaskRun does not", func(t *testing.T) {
		forged := s.taskRun(intruder, "release-1-forged", run)
		s.refused(s.proxyToken(s.pod(tekton, "release-1-forged-pod", forged)), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	})
	t.Run("a forged pod does not", func(t *testing.T) {
		forged := s.pod(intruder, "release-1-push-pod-forged", push)
		s.refused(s.proxyToken(forged), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	})
	t.Run("a re-pointed owner does not", func(t *testing.T) {
		another := s.pipelineRun("release-3")
		task := s.taskRun(tekton, "release-3-push", another)
		pod := s.pod(tekton, "release-3-push-pod", task)
		task.SetOwnerReferences(ownedBy(run))
		require.NoError(t, intruder.Update(context.Background(), task))
		pod.OwnerReferences = ownedBy(push)
		require.NoError(t, intruder.Update(context.Background(), pod))
		s.refused(s.proxyToken(pod), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	})
}
