package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// podsOf waits for the pods with these labels.
func (s *stage) podsOf(labels map[string]string) []corev1.Pod {
	s.Helper()
	var list corev1.PodList
	s.eventually("there are pods", func() error {
		if err := s.admin.List(s.ctx, &list, client.InNamespace(s.team), client.MatchingLabels(labels)); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("there are none")
		}
		return nil
	})
	return list.Items
}

func template(labels map[string]string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy: restart, ServiceAccountName: "pipeline", Containers: []corev1.Container{{Name: "main", Image: "main"}},
		},
	}
}

// An approver starts something and then cuts the way that leads from its pods to himself.
func TestS7_WhoCutsTheWayToHimselfMayNotAnswer(t *testing.T) {
	labels := map[string]string{"app": "own"}
	job := func() client.Object {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: batchv1.JobSpec{Template: template(labels, corev1.RestartPolicyNever)}}
	}
	deployment := func() client.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels, corev1.RestartPolicyAlways),
		}}
	}
	orphan := func(s *stage, as client.Client, owner client.Object) {
		require.NoError(s, as.Delete(s.ctx, owner, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		s.eventually("the owner is gone", func() error {
			if err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(owner), owner); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("it is there: %w", err)
			}
			return nil
		})
	}
	tests := map[string]struct {
		owner func() client.Object
		cut   func(s *stage, as client.Client, owner client.Object)
	}{
		"a job is deleted and its pod kept":             {owner: job, cut: orphan},
		"a deployment is deleted and its replicas kept": {owner: deployment, cut: orphan},
		"the pod's owner reference is taken off by a patch": {owner: job, cut: func(s *stage, as client.Client, _ client.Object) {
			pod := s.podsOf(labels)[0]
			require.NoError(s, as.Patch(s.ctx, &pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.bind(s.team, "admin", group("prod-owners"))
			s.rule("owners", "ApprovalRequest", people(1))
			owner1 := plane.as(t, "owner1")
			owner := tc.owner()
			owner.SetNamespace(s.team)
			require.NoError(t, owner1.Create(s.ctx, owner))
			s.podsOf(labels)
			tc.cut(s, owner1, owner)

			pod := s.podsOf(labels)[0]
			request := s.mustAsk(s.inPod(&pod))
			refusedBy(t, s.answer("owner1", request, "owners", approvalv1alpha1.DecisionApprove), "creator")
		})
	}
}

// Whoever may edit a rule's labels and no more has garbage collection delete the rule.
func TestS5_WhoMayNotDeleteARuleCannotHaveItCollected(t *testing.T) {
	s := newStage(t)
	rule := s.rule("owners", "ApprovalRequest", people(1))
	s.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: "clerk"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"resourcecheckrules"}, Verbs: []string{"get", "patch", "update"},
	}}})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: "clerk"}, Subjects: []rbacv1.Subject{group("clerks")},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "clerk"},
	})
	clerk, owner := plane.impersonating(t, "clerk", "clerks"), plane.as(t, "admin")
	dead := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"none"}]}}`))
	refusedBy(t, clerk.Patch(s.ctx, rule.DeepCopy(), dead), "metadata.ownerReferences", "delete")
	require.NoError(t, clerk.Patch(s.ctx, rule.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"a"}}}`))))
	require.NoError(t, owner.Patch(s.ctx, rule.DeepCopy(), dead), "who may delete the rule may")
}
