package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// deleted is an error while the object is still there.
func deleted(ctx context.Context, c client.Client, object client.Object) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s is still there", object.GetName()), err)
}

func TestS2_ARequestCanOnlyBeRevoked(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody, controller := tenant(t, namespace), controllerClient(t)
	full := checkRequest(namespace, "full")
	full.Spec.Use = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationWrite}}
	full.Spec.Context.Token = &approvalv1alpha1.TokenReference{JTI: "1"}
	bare := checkRequest(namespace, "bare")
	require.NoError(t, somebody.Create(t.Context(), full))
	require.NoError(t, somebody.Create(t.Context(), bare))
	const words = "can only be revoked"
	tests := map[string]struct {
		object *approvalv1alpha1.ResourceCheckRequest
		patch  string
	}{
		"object":              {full, `{"spec":{"objectRef":{"name":"other"}}}`},
		"object's uid":        {full, `{"spec":{"objectRef":{"uid":"1"}}}`},
		"reason":              {full, `{"spec":{"reason":"another"}}`},
		"reason removed":      {full, `{"spec":{"reason":null}}`},
		"use changed":         {full, `{"spec":{"use":{"operations":["Read"]}}}`},
		"use removed":         {full, `{"spec":{"use":null}}`},
		"use appears":         {bare, `{"spec":{"use":{"operations":["Read"]}}}`},
		"token removed":       {full, `{"spec":{"context":{"token":null}}}`},
		"context removed":     {full, `{"spec":{"context":null}}`},
		"context appears":     {bare, `{"spec":{"context":{"subject":{"kind":"User","name":"olga"}}}}`},
		"requestedBy appears": {bare, `{"spec":{"requestedBy":{"username":"olga"}}}`},
		"timeRange appears":   {bare, `{"spec":{"timeRange":{"duration":"2h"}}}`},
		"revoked and more":    {full, `{"spec":{"revoked":{"reason":"no"},"timeRange":{"duration":"2h"}}}`},
		"revoked and less":    {full, `{"spec":{"revoked":{"reason":"no"},"use":null}}`},
		"spec removed":        {full, `{"spec":null}`},
	}
	for _, who := range []client.Client{somebody, as(t, cluster.Admin())} {
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				err := who.Patch(t.Context(), tc.object.DeepCopy(), mergePatch(tc.patch))
				require.Error(t, err)
				if name != "spec removed" { // that is refused by the schema before
					refusedByPolicy(t, err, words)
				}
				assert.Equal(t, tc.object.Spec, reread(t, tc.object).Spec)
			})
		}
	}
	require.NoError(t, somebody.Patch(t.Context(), bare, mergePatch(`{"metadata":{"labels":{"theirs":"kept"}}}`)))
	require.NoError(t, somebody.Patch(t.Context(), full, mergePatch(`{"spec":{"revoked":{"reason":"no longer needed"}}}`)))
	for name, patch := range map[string]string{
		"reworded": `{"spec":{"revoked":{"reason":"another"}}}`, "taken back": `{"spec":{"revoked":null}}`, "signed by another": `{"spec":{"revoked":{"by":"olga"}}}`,
	} {
		t.Run("revocation "+name, func(t *testing.T) {
			refusedByPolicy(t, somebody.Patch(t.Context(), full.DeepCopy(), mergePatch(patch)), words)
		})
	}
	assert.NoError(t, controller.Status().Patch(t.Context(), full, mergePatch(`{"status":{"observedGeneration":2}}`)), "statuses are not held up")
}

func TestS7_ChecksAndAnswersCannotBeReworded(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody, controller := tenant(t, namespace), controllerClient(t)
	check := approvalRequest(namespace, "check")
	require.NoError(t, controller.Create(t.Context(), check))
	answer := answerTo(check, "answer")
	require.NoError(t, somebody.Create(t.Context(), answer))
	for name, tc := range map[string]struct {
		object client.Object
		patch  string
	}{
		"fewer approvers":   {check, `{"spec":{"policies":[{"name":"owners","numberOfApprovalsRequired":1,"approvers":[{"type":"User","name":"mallory"}]}]}}`},
		"self approval":     {check, `{"spec":{"selfApproval":"Allow"}}`},
		"text appears":      {check, `{"spec":{"description":"harmless"}}`},
		"question appears":  {check, `{"spec":{"request":{"person":"olga"}}}`},
		"other decision":    {answer, `{"spec":{"decision":"Reject","comment":"no"}}`},
		"comment appears":   {answer, `{"spec":{"comment":"no"}}`},
		"responder appears": {answer, `{"spec":{"responder":{"username":"olga"}}}`},
		"other check":       {answer, `{"spec":{"requestRef":{"name":"other"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			before := reread(t, tc.object)
			err := as(t, cluster.Admin()).Patch(t.Context(), tc.object.DeepCopyObject().(client.Object), mergePatch(tc.patch))
			assert.Truef(t, apierrors.IsInvalid(err), "%v", err)
			assert.Equal(t, before, reread(t, tc.object))
		})
	}
}

func TestS2_OwnersAndFinalizersAreTheServers(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody, controller := tenant(t, namespace), controllerClient(t)
	dead := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "dead", UID: "44444444-4444-4444-4444-444444444444"}}
	check := approvalRequest(namespace, "check")
	require.NoError(t, controller.Create(t.Context(), check))

	t.Run("emptied on a request", func(t *testing.T) {
		request := checkRequest(namespace, "request")
		request.OwnerReferences, request.Finalizers = dead, []string{"example.com/hold", "foregroundDeletion"}
		require.NoError(t, somebody.Create(t.Context(), request))
		assert.Empty(t, request.OwnerReferences)
		assert.Empty(t, request.Finalizers)
	})
	t.Run("an answer is owned by its check alone", func(t *testing.T) {
		answer := answerTo(check, "dead")
		answer.OwnerReferences = dead
		refusedByPolicy(t, somebody.Create(t.Context(), answer), "owned by the check that it answers")
		answer = answerTo(check, "owned")
		answer.Finalizers = []string{"example.com/hold"}
		answer.OwnerReferences = []metav1.OwnerReference{{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "ApprovalRequest", Name: check.Name, UID: check.UID}}
		require.NoError(t, somebody.Create(t.Context(), answer))
		assert.Len(t, answer.OwnerReferences, 1)
		assert.Empty(t, answer.Finalizers)
	})
	t.Run("put back on update", func(t *testing.T) {
		answer := &approvalv1alpha1.ApprovalResponse{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owned"}}
		request := &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "request"}}
		for _, object := range []client.Object{request, answer, check} {
			kind := kindOf(t, object)
			before := reread(t, foreign(kind.GroupVersion().String(), kind.Kind, namespace, object.GetName()))
			changed := before.DeepCopy()
			changed.SetOwnerReferences(dead)
			changed.SetFinalizers([]string{"example.com/hold"})
			changed.SetLabels(map[string]string{"touched": "yes"})
			require.NoError(t, as(t, cluster.Admin()).Update(t.Context(), changed))
			after := reread(t, before)
			assert.Equalf(t, before.GetOwnerReferences(), after.GetOwnerReferences(), "%T", object)
			assert.Emptyf(t, after.GetFinalizers(), "%T", object)
			assert.Equalf(t, "yes", after.GetLabels()["touched"], "%T", object)
		}
	})
	t.Run("many finalizers are not looked through", func(t *testing.T) {
		request := &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "request"}}
		changed := reread(t, request)
		for i := range 20000 {
			changed.Finalizers = append(changed.Finalizers, fmt.Sprintf("example.com/f%d", i))
		}
		require.NoError(t, somebody.Update(t.Context(), changed))
		assert.Empty(t, reread(t, request).Finalizers)
	})
}

func TestS5_EvidenceIsDeletedByCollectorsOnly(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody, controller := tenant(t, namespace), controllerOfInspections(t)
	check := approvalRequest(namespace, "check")
	require.NoError(t, controller.Create(t.Context(), check))
	answer := answerTo(check, "answer")
	answer.OwnerReferences = []metav1.OwnerReference{{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "ApprovalRequest", Name: check.Name, UID: check.UID}}
	require.NoError(t, somebody.Create(t.Context(), answer))
	labelled := inspection(namespace, "check")
	require.NoError(t, controller.Create(t.Context(), labelled))
	decided := map[string]*approvalv1alpha1.ResourceCheckRequest{}
	for name, status := range map[string]string{
		"ended":      `{"status":{"ended":{"at":"2026-01-01T00:00:00Z","reason":"Expired"}}}`,
		"granted":    `{"status":{"validity":{"notBefore":"2026-01-01T00:00:00Z","notAfter":"2026-01-02T00:00:00Z"}}}`,
		"rejected":   `{"status":{"results":[{"name":"a","uid":"1","generation":1,"state":"pending"},{"name":"b","uid":"2","generation":1,"state":"rejected"}]}}`,
		"asked anew": `{"status":{"superseded":[{"name":"a","uid":"1","generation":1,"state":"approved","reason":"RulesChanged","at":"2026-01-01T00:00:00Z"}],"results":[{"name":"a","uid":"1","generation":2,"state":"pending"}]}}`,
	} {
		request := checkRequest(namespace, "r-"+hashOf(name))
		require.NoError(t, somebody.Create(t.Context(), request))
		require.NoError(t, controller.Status().Patch(t.Context(), request, mergePatch(status)))
		decided[name] = request
	}
	const words = "kept as evidence"
	objects := map[string]client.Object{"check": check, "answer": answer, "foreign check": labelled}
	for name, request := range decided {
		objects["request "+name] = request
	}
	for name, object := range objects {
		t.Run(name, func(t *testing.T) {
			refusedByPolicy(t, somebody.Delete(t.Context(), object.DeepCopyObject().(client.Object)), words)
			refusedByPolicy(t, somebody.Delete(t.Context(), object.DeepCopyObject().(client.Object), client.PropagationPolicy(metav1.DeletePropagationForeground)), words)
			refusedByPolicy(t, somebody.DeleteAllOf(t.Context(), object.DeepCopyObject().(client.Object), client.InNamespace(namespace)), words)
			assert.Nil(t, reread(t, object).GetDeletionTimestamp())
		})
	}
	t.Run("an undecided request may go", func(t *testing.T) {
		for name, status := range map[string]string{"new": "", "pending": `{"status":{"results":[{"name":"a","uid":"1","generation":1,"state":"pending"}]}}`} {
			request := checkRequest(namespace, name)
			require.NoError(t, somebody.Create(t.Context(), request))
			if status != "" {
				require.NoError(t, controller.Status().Patch(t.Context(), request, mergePatch(status)))
			}
			assert.NoError(t, somebody.Delete(t.Context(), request), name)
		}
	})
	t.Run("purge deletes, and the garbage collector follows", func(t *testing.T) {
		for _, object := range []client.Object{decided["ended"], labelled, check} {
			require.NoError(t, controller.Delete(t.Context(), object))
		}
		admin := as(t, cluster.Admin())
		eventually(t, func(ctx context.Context) error { return deleted(ctx, admin, answer) })
	})
}

// Foreground deletion puts a finalizer on the owner, which the garbage collector has to take off.
func TestS5_ForegroundDeletionByACollectorEnds(t *testing.T) {
	namespace := cluster.Namespace(t)
	controller := controllerClient(t)
	check := approvalRequest(namespace, "check")
	require.NoError(t, controller.Create(t.Context(), check))
	answer := answerTo(check, "answer")
	answer.OwnerReferences = []metav1.OwnerReference{{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "ApprovalRequest", Name: check.Name, UID: check.UID}}
	require.NoError(t, as(t, cluster.Admin()).Create(t.Context(), answer))
	require.NoError(t, controller.Delete(t.Context(), check, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	admin := as(t, cluster.Admin())
	for _, object := range []client.Object{answer, check} {
		eventually(t, func(ctx context.Context) error { return deleted(ctx, admin, object) })
	}
}

func TestS5_ANamespaceWithEvidenceCanBeDeleted(t *testing.T) {
	controller, admin := controllerOfInspections(t), as(t, cluster.Admin())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "going-"}}
	require.NoError(t, admin.Create(t.Context(), namespace))
	check := approvalRequest(namespace.Name, "check")
	labelled := inspection(namespace.Name, "check")
	request := checkRequest(namespace.Name, "request")
	for _, object := range []client.Object{check, labelled} {
		require.NoError(t, controller.Create(t.Context(), object))
	}
	require.NoError(t, admin.Create(t.Context(), request))
	require.NoError(t, controller.Status().Patch(t.Context(), request, mergePatch(`{"status":{"ended":{"at":"2026-01-01T00:00:00Z","reason":"Expired"}}}`)))
	require.NoError(t, admin.Delete(t.Context(), namespace))
	eventually(t, func(ctx context.Context) error { return deleted(ctx, admin, namespace) })
}
