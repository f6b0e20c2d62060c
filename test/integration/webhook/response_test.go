package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// check makes an ApprovalRequest as the controller would, asked by alice; group owners and user dave may answer.
func (w *world) check(edits ...func(*approvalv1alpha1.ApprovalRequest)) *approvalv1alpha1.ApprovalRequest {
	w.t.Helper()
	request := w.request()
	w.create(w.person("alice"), request)
	check := &approvalv1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "check", Labels: map[string]string{approvalv1alpha1.LabelRequestUID: string(request.UID)}},
		Spec: approvalv1alpha1.ApprovalRequestSpec{
			Policies: []approvalv1alpha1.ApprovalPolicy{{Name: "owners", NumberOfApprovalsRequired: 2, Approvers: []approvalv1alpha1.Approver{
				{Type: approvalv1alpha1.ApproverGroup, Name: "owners"}, {Type: approvalv1alpha1.ApproverUser, Name: w.name("dave")},
				{Type: approvalv1alpha1.ApproverUser, Name: w.name("alice")},
			}}},
			Request: &approvalv1alpha1.CheckRequest{
				Ref:    approvalv1alpha1.RequestReference{Namespace: w.namespace, Name: request.Name, UID: request.UID},
				Object: request.Spec.ObjectRef, Subject: *request.Spec.Context.Subject, RequestedBy: *request.Spec.RequestedBy,
				Rule: approvalv1alpha1.RuleSnapshot{Name: "push", UID: "rule", Generation: 1, Spec: w.rule("push").Spec},
			},
		},
	}
	for _, edit := range edits {
		edit(check)
	}
	w.create(w.admin, check)
	return check
}

func (w *world) answer(name string, decision approvalv1alpha1.ApprovalDecision, edits ...func(*approvalv1alpha1.ApprovalResponse)) *approvalv1alpha1.ApprovalResponse {
	r := &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       approvalv1alpha1.ApprovalResponseSpec{RequestRef: approvalv1alpha1.CheckTarget{Name: "check"}, Decision: decision},
	}
	if decision != approvalv1alpha1.DecisionApprove {
		r.Spec.Comment = "wrong image"
	}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func (w *world) setState(check *approvalv1alpha1.ApprovalRequest, state duckv1alpha1.CheckState) {
	w.t.Helper()
	stored := reread(w, check)
	stored.Status.State = state
	require.NoError(w.t, w.admin.Status().Update(w.t.Context(), stored))
}

const approve = approvalv1alpha1.DecisionApprove

func TestS1_ResponderIsCaptured(t *testing.T) {
	w := newWorld(t)
	check := w.check()
	r := w.answer("answer", approve, func(r *approvalv1alpha1.ApprovalResponse) {
		r.Spec.Responder = &approvalv1alpha1.Identity{Username: "somebody", Groups: []string{"owners"}}
		r.Spec.AsOwner = true
		r.Finalizers = []string{"example.com/keep"}
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "dead", UID: "dead"}}
	})
	w.create(w.person("bob", "owners", "developers"), r)
	assert.Equal(t, w.name("bob"), r.Spec.Responder.Username)
	assert.Equal(t, []string{"owners"}, r.Spec.Responder.Groups)
	assert.False(t, r.Spec.AsOwner)
	assert.Equal(t, check.UID, r.Spec.RequestRef.UID)
	assert.Empty(t, r.Finalizers)
	require.Len(t, r.OwnerReferences, 1)
	assert.Equal(t, check.UID, r.OwnerReferences[0].UID)
}

func TestS7_WhoMayNotAnswer(t *testing.T) {
	w := newWorld(t)
	check := w.check()
	dave := w.person("dave")
	refused(t, w.person("alice").Create(t.Context(), w.answer("own", approve)), "part of this request")
	refused(t, w.person("eve").Create(t.Context(), w.answer("eve", approve)), "not among the approvers")
	refused(t, w.tenant("mallory").Create(t.Context(), w.answer("mallory", approve)), "not among the approvers")
	refused(t, dave.Create(t.Context(), w.answer("wrong", approve, func(r *approvalv1alpha1.ApprovalResponse) { r.Spec.RequestRef.UID = "other" })), "spec.requestRef.uid")
	refused(t, dave.Create(t.Context(), w.answer("none", approve, func(r *approvalv1alpha1.ApprovalResponse) { r.Spec.RequestRef.Name = "none" })), "there is no ApprovalRequest")

	w.create(dave, w.answer("first", approve))
	refused(t, dave.Create(t.Context(), w.answer("second", approvalv1alpha1.DecisionReject)), "you have answered already")

	w.setState(check, duckv1alpha1.CheckApproved)
	refused(t, w.person("bob", "owners").Create(t.Context(), w.answer("late", approve)), "approved already")
}

func TestS7_AskersMayNotAnswer(t *testing.T) {
	w := newWorld(t)
	check := w.check()
	w.setStatus(&approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: check.Spec.Request.Ref.Name}},
		func(s *approvalv1alpha1.ResourceCheckRequestStatus) { s.Askers = []string{w.name("dave")} })
	refused(t, w.person("dave").Create(t.Context(), w.answer("answer", approve)), "part of this request")
}

func TestS7_SimultaneousAnswersAllSurvive(t *testing.T) {
	w := newWorld(t)
	w.check()
	var answering sync.WaitGroup
	for i := range 8 {
		owner := w.person(fmt.Sprint("owner-", i), "owners")
		answering.Go(func() { assert.NoError(t, owner.Create(t.Context(), w.answer(fmt.Sprint("answer-", i), approve))) })
	}
	answering.Wait()
	var list approvalv1alpha1.ApprovalResponseList
	require.NoError(t, w.admin.List(t.Context(), &list, client.InNamespace(w.namespace)))
	assert.Len(t, list.Items, 8)
}

func TestRevoke(t *testing.T) {
	const revoke = approvalv1alpha1.DecisionRevoke
	w := newWorld(t)
	check := w.check()
	dave, olga := w.person("dave"), w.person("olga")
	w.create(dave, w.answer("approve", approve))
	w.setState(check, duckv1alpha1.CheckApproved)

	refused(t, w.person("bob", "owners").Create(t.Context(), w.answer("bob", revoke)), "you have not approved this")
	own := w.answer("own", revoke)
	w.create(dave, own)
	assert.False(t, own.Spec.AsOwner)

	w.allow("olga", rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"resourcecheckrules"}, Verbs: []string{"revoke"}})
	asOwner := w.answer("owner", revoke)
	w.create(olga, asOwner)
	assert.True(t, asOwner.Spec.AsOwner)

}

func TestRevokeOfAForeignCheck(t *testing.T) {
	w := newWorld(t)
	w.allow("olga", rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"resourcecheckrules"}, Verbs: []string{"revoke"}})
	dave, olga := w.person("dave"), w.person("olga")
	foreign := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	foreign.SetGroupVersionKind(schema.GroupVersionKind{Group: "checks.example.com", Version: "v1", Kind: "SignOff"})
	foreign.SetNamespace(w.namespace)
	foreign.SetName("foreign")
	foreign.SetLabels(map[string]string{approvalv1alpha1.LabelRequestUID: "uid"})
	w.create(w.admin, foreign)
	other := w.answer("foreign", approvalv1alpha1.DecisionRevoke, func(r *approvalv1alpha1.ApprovalResponse) {
		r.Spec.RequestRef = approvalv1alpha1.CheckTarget{APIVersion: "checks.example.com/v1", Kind: "SignOff", Name: "foreign"}
	})
	refused(t, dave.Create(t.Context(), other.DeepCopy()), "Countersign may not read SignOff objects")

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "signoffs", Labels: map[string]string{"approval.alaudadevops.io/aggregate-to-checks": "true"}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"checks.example.com"}, Resources: []string{"signoffs"}, Verbs: []string{"get"}}}}
	w.create(w.admin, role)
	t.Cleanup(func() { assert.NoError(t, w.admin.Delete(context.Background(), role)) })
	eventually(t, func(ctx context.Context) error {
		if err := dave.Create(ctx, other.DeepCopy()); err == nil || !strings.Contains(err.Error(), "you have not approved this") {
			return fmt.Errorf("the role is not aggregated yet: %w", err)
		}
		return nil
	})
	w.create(olga, other)
	assert.Equal(t, foreign.GetUID(), other.OwnerReferences[0].UID)
	assert.True(t, other.Spec.AsOwner)
}

func TestS2_AnswersAreKept(t *testing.T) {
	w := newWorld(t)
	w.check()
	r := w.answer("answer", approve)
	w.create(w.person("dave"), r)
	stored := reread(w, r)
	tool := w.tenant("gitops")
	for name, strip := range map[string]func(*unstructured.Unstructured){
		"responder": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "responder") },
		"uid": func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "requestRef", "uid")
		},
		"owner": func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) },
		"dead owner": func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "dead", UID: "dead"}})
		},
		"finalizer": func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/keep"}) },
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(approvalv1alpha1.GroupVersion.WithKind("ApprovalResponse"))
			require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(r), u))
			strip(u)
			require.NoError(t, tool.Update(t.Context(), u))
			got := reread(w, r)
			assert.Equal(t, stored.Spec, got.Spec)
			assert.Equal(t, stored.OwnerReferences, got.OwnerReferences)
			assert.Empty(t, got.Finalizers)
		})
	}
	changed := reread(w, r)
	changed.Spec.Decision, changed.Spec.Comment = approvalv1alpha1.DecisionReject, "x"
	require.ErrorContains(t, tool.Update(t.Context(), changed), "cannot be changed")
}

func TestAnswersGoWithTheirCheck(t *testing.T) {
	w := newWorld(t)
	check := w.check()
	r := w.answer("answer", approve)
	w.create(w.person("dave"), r)
	require.NoError(t, w.admin.Delete(t.Context(), check))
	eventually(t, func(ctx context.Context) error {
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(r), &approvalv1alpha1.ApprovalResponse{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the answer is still there: %w", err)
		}
		return nil
	})
}
