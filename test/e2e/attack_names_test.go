package e2e

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// replace deletes an object and makes another with its name and spec.
func (s *stage) replace(obj client.Object) {
	s.Helper()
	require.NoError(s, s.admin.Delete(s.ctx, obj))
	again := obj.DeepCopyObject().(client.Object)
	again.SetUID("")
	again.SetResourceVersion("")
	s.eventually("the name is free", func() error {
		err := s.admin.Create(s.ctx, again)
		if apierrors.IsAlreadyExists(err) {
			return err
		}
		require.NoError(s, err)
		return nil
	})
	require.NotEqual(s, obj.GetUID(), again.GetUID())
}

// podBeside waits for a pod of the job beside the one that is given.
func (s *stage) podBeside(job *batchv1.Job, old *corev1.Pod) *corev1.Pod {
	s.Helper()
	var found *corev1.Pod
	s.eventually("the job has another pod", func() error {
		pods := s.podsOf(map[string]string{"batch.kubernetes.io/controller-uid": string(job.UID)})
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.UID != old.UID && pod.DeletionTimestamp == nil })
		if i < 0 {
			return assert.AnError
		}
		found = &pods[i]
		return nil
	})
	return found
}

func TestS8_TheSameNameInheritsNothing(t *testing.T) {
	tests := map[string]struct {
		// replace returns the token of whoever has the names now.
		replace func(s *stage, job *batchv1.Job, pod *corev1.Pod) string
		reason  string
	}{
		"a rule": {func(s *stage, _ *batchv1.Job, pod *corev1.Pod) string {
			s.replace(s.fetchRule("owners"))
			return s.proxyToken(pod)
		}, approvalv1alpha1.ReasonRulesChanged},
		"a connector": {func(s *stage, _ *batchv1.Job, pod *corev1.Pod) string {
			s.replace(s.fetchConnector(connectorName))
			return s.proxyToken(pod)
		}, approvalv1alpha1.ReasonNoRequest},
		"a service account": {func(s *stage, job *batchv1.Job, pod *corev1.Pod) string {
			account := &corev1.ServiceAccount{}
			require.NoError(s, s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.team, Name: "pipeline"}, account))
			s.replace(account)
			require.NoError(s, s.admin.Delete(s.ctx, pod, client.GracePeriodSeconds(0)))
			return s.proxyToken(s.podBeside(job, pod))
		}, approvalv1alpha1.ReasonNoRequest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.rule("owners", "ApprovalRequest", people(1))
			job, pods := s.job(plane.as(t, "developer"), "deploy", 1)
			request := s.mustAsk(s.inPod(&pods[0]))
			s.approve(request, "owners", 1)
			s.allowed(s.proxyToken(&pods[0]), "PUT", "/app")

			s.refused(tc.replace(s, job, &pods[0]), "PUT", "/app", tc.reason)
		})
	}
}

func TestS7_OnePersonIsOneApprovalHoweverOftenHeAnswers(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(2))
	request := s.mustAsk(plane.as(t, "developer"))
	ref := s.asks(request, "owners")
	owner1 := plane.as(t, "owner1")

	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			_ = owner1.Create(s.ctx, &approvalv1alpha1.ApprovalResponse{
				ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, GenerateName: "answer-"},
				Spec: approvalv1alpha1.ApprovalResponseSpec{
					RequestRef: approvalv1alpha1.CheckTarget{Name: ref.ObjectName}, Decision: approvalv1alpha1.DecisionApprove,
				},
			})
		})
	}
	group.Wait()
	s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonChecksPending, "prod-owners")
	check := &approvalv1alpha1.ApprovalRequest{}
	s.eventually("one approval is counted", func() error {
		require.NoError(s, s.admin.Get(s.ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.ObjectName}, check))
		if len(check.Status.DecidedBy) != 1 || check.Status.Policies[0].Approvals != 1 || check.Status.Policies[0].Met {
			return assert.AnError
		}
		return nil
	})
	require.NoError(t, s.answer("owner2", request, "owners", approvalv1alpha1.DecisionApprove))
	s.allowed(plane.token(t, "developer"), "PUT", "/app")
}
