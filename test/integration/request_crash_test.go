package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
)

// nameOfCheck is the name that the controller is going to use for the first check of a request.
func (p *place) nameOfCheck(r *approvalv1alpha1.ResourceCheckRequest, rule *approvalv1alpha1.ResourceCheckRule) string {
	asking := fmt.Sprintf("|%d|%s", p.connector.Generation, fingerprint.UseText(r.Spec.Use))
	return fingerprint.CheckName(keyOf(r), rule.Name, string(rule.UID), rule.Generation, asking)
}

func TestS6_ACheckThatSomebodyElseMadeIsNeverAdopted(t *testing.T) {
	controllers, p := newRequests(t), newPlace(t)
	rule := p.rule("push")
	r := p.request("ask")
	// Even a cluster administrator's, with the right label and an approval.
	squatter := approvalRequest(p.owners, p.nameOfCheck(r, rule))
	squatter.Labels = map[string]string{approvalv1alpha1.LabelRequestUID: string(r.UID)}
	require.NoError(t, p.admin.Create(t.Context(), squatter))
	squatter.Status.State = duckv1alpha1.CheckApproved
	require.NoError(t, p.admin.Status().Update(t.Context(), squatter))

	controllers.start()
	r = ready(t, r, approvalv1alpha1.ReasonError)
	assert.Empty(t, r.Status.RequestRefs)
	assert.Contains(t, r.Status.Results[0].Message, squatter.Name)
	assert.Contains(t, r.Status.Results[0].Message, `was made by "kubernetes-admin"`)
	assert.Equal(t, squatter.UID, reread(t, squatter).UID, "nor is it deleted")

	require.NoError(t, p.admin.Delete(t.Context(), squatter))
	r = when(t, r, approvalv1alpha1.ReasonChecksPending, refs(1))
	assert.NotEqual(t, squatter.UID, p.checkOf(r, "push").UID)
}

func TestS15_ACheckMadeBeforeACrashIsMadeAnew(t *testing.T) {
	controllers, p := newRequests(t), newPlace(t)
	rule := p.rule("push")
	r := p.request("ask")
	leftover := approvalRequest(p.owners, p.nameOfCheck(r, rule))
	leftover.Labels = map[string]string{approvalv1alpha1.LabelRequestUID: string(r.UID)}
	require.NoError(t, p.controller.Create(t.Context(), leftover))

	controllers.start()
	r = when(t, r, approvalv1alpha1.ReasonChecksPending, refs(1))
	check := p.checkOf(r, "push")
	assert.NotEqual(t, leftover.UID, check.UID)
	assert.Equal(t, leftover.Name, check.Name)
	assert.Len(t, p.allChecks(), 1)
}

func TestS15_AnswersGivenWhileTheControllerWasAwayCount(t *testing.T) {
	controllers, p := startRequests(t), newPlace(t)
	p.rule("push")
	p.rule("also")
	r := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(2))
	controllers.halt()
	p.answer(p.checkOf(r, "push"), duckv1alpha1.CheckApproved)
	p.answer(p.checkOf(r, "also"), duckv1alpha1.CheckApproved)
	controllers.start()
	granted := ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
	assert.Equal(t, r.Status.RequestRefs, granted.Status.RequestRefs)
	assert.Len(t, p.allChecks(), 2, "nothing is asked twice")
}

func TestS15_ARestartChangesNothing(t *testing.T) {
	controllers, p := startRequests(t), newPlace(t)
	p.rule("push")
	pendingOne := ready(t, p.request("pending"), approvalv1alpha1.ReasonChecksPending)
	grantedOne := ready(t, p.request("granted", func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Context.Subject.Name = "other" }), approvalv1alpha1.ReasonChecksPending)
	p.answer(p.checkOf(grantedOne, "push"), duckv1alpha1.CheckApproved)
	grantedOne = ready(t, grantedOne, approvalv1alpha1.ReasonAllChecksApproved)
	controllers.halt()

	controllers.start()
	// What a restarted controller does with a later request comes after its first look at the earlier ones.
	later := ready(t, p.request("later", func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Context.Subject.Name = "third" }), approvalv1alpha1.ReasonChecksPending)
	assert.NotEmpty(t, later.Status.RequestRefs)
	assert.Equal(t, pendingOne.ResourceVersion, reread(t, pendingOne).ResourceVersion)
	assert.Equal(t, grantedOne.ResourceVersion, reread(t, grantedOne).ResourceVersion)
}

func TestS15_OpenChecksOfAnEndedRequestAreSweptAtStart(t *testing.T) {
	controllers, p := startRequests(t), newPlace(t)
	p.rule("push")
	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending)
	check := p.checkOf(r, "push")
	controllers.halt()
	// The crash came between the write that ended the request and the one that closes its check.
	ended := reread(t, r)
	ended.Status.Ended = &approvalv1alpha1.Ended{At: ended.CreationTimestamp, Reason: approvalv1alpha1.ReasonExpired}
	require.NoError(t, p.controller.Status().Update(t.Context(), ended))
	controllers.start()
	p.cancelled(check)
}

func TestS15_OpenChecksOfARequestDeletedMeanwhileAreSweptAtStart(t *testing.T) {
	controllers, p := startRequests(t), newPlace(t)
	p.rule("push")
	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending)
	check := p.checkOf(r, "push")
	controllers.halt()
	require.NoError(t, p.admin.Delete(t.Context(), r))
	controllers.start()
	p.cancelled(check)
}

func TestS9_ACheckOfAKindThatIsNoLongerRegisteredDoesNotCount(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("sign", signedBy)
	r := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(1))
	p.sign(r, "Signed")
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
	kind := &approvalv1alpha1.CheckKind{}
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Name: "signature.request.example.com"}, kind))
	require.NoError(t, p.admin.Delete(t.Context(), kind))
	t.Cleanup(func() { assert.NoError(t, cluster.Apply(context.Background(), cluster.Admin(), signatureKind)) })
	closed := ready(t, r, approvalv1alpha1.ReasonError)
	assert.Contains(t, closed.Status.Results[0].Message, "is not registered")
	assert.Nil(t, closed.Status.Ended)

	// Answers of the time before cannot be told from those that somebody wrote while nothing guarded the kind's statuses.
	require.NoError(t, cluster.Apply(t.Context(), cluster.Admin(), signatureKind))
	closed = when(t, r, approvalv1alpha1.ReasonError, func(r *approvalv1alpha1.ResourceCheckRequest) bool {
		return strings.Contains(r.Status.Results[0].Message, "registered anew")
	})
	require.NoError(t, p.admin.Delete(t.Context(), p.signature(closed)))
	again := when(t, r, approvalv1alpha1.ReasonChecksPending, refs(1))
	p.sign(again, "Signed")
	ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
}

// signature is the request's foreign check.
func (p *place) signature(r *approvalv1alpha1.ResourceCheckRequest) *unstructured.Unstructured {
	p.t.Helper()
	check := foreign("request.example.com/v1", "Signature", r.Status.RequestRefs[0].Namespace, r.Status.RequestRefs[0].ObjectName)
	require.NoError(p.t, p.admin.Get(p.t.Context(), client.ObjectKeyFromObject(check), check))
	return check
}

// sign answers the request's foreign check.
func (p *place) sign(r *approvalv1alpha1.ResourceCheckRequest, phase string) {
	p.t.Helper()
	check := p.signature(r)
	check.Object["status"] = map[string]any{"phase": phase}
	require.NoError(p.t, p.admin.Status().Update(p.t.Context(), check))
}

func TestS7_AForeignCheckIsAnsweredByItsAnswerFieldsAlone(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("sign", signedBy)
	r := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(1))
	check := foreign("request.example.com/v1", "Signature", p.owners, r.Status.RequestRefs[0].ObjectName)
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKeyFromObject(check), check))
	spec := check.Object["spec"].(map[string]any)
	assert.Equal(t, "for dev", spec["text"])
	assert.Equal(t, string(r.UID), check.GetLabels()[approvalv1alpha1.LabelRequestUID])

	// A signer signs in the spec, as ApprovalTasks are answered.
	signer := tenant(t, p.owners)
	require.NoError(t, signer.Patch(t.Context(), check, mergePatch(`{"spec":{"signers":[{"name":"olga","signature":"yes"}]}}`)))
	p.sign(r, "Signed")
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)

	require.NoError(t, signer.Patch(t.Context(), check, mergePatch(`{"spec":{"signers":[{"name":"mallory","signature":"yes"}]}}`)))
	tampered := ready(t, r, approvalv1alpha1.ReasonError)
	assert.Contains(t, tampered.Status.Results[0].Message, "was changed after it was made")
	require.NoError(t, signer.Patch(t.Context(), check, mergePatch(`{"spec":{"signers":[{"name":"olga","signature":"yes"}]}}`)))
	ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
}

func TestRequest_AnOpenForeignCheckIsDeletedWhenTheRequestEnds(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("sign", signedBy)
	r := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(1))
	check := foreign("request.example.com/v1", "Signature", p.owners, r.Status.RequestRefs[0].ObjectName)
	revoked := reread(t, r)
	revoked.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: "not needed", By: "dev"}
	require.NoError(t, p.admin.Update(t.Context(), revoked))
	ready(t, r, approvalv1alpha1.ReasonRevoked)
	eventually(t, func(ctx context.Context) error {
		if err := p.admin.Get(ctx, client.ObjectKeyFromObject(check), check); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the check is still there: %w", err)
		}
		return nil
	})
}

func TestRequest_AnOwnerRevokesAForeignCheck(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("sign", signedBy)
	r := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(1))
	p.sign(r, "Signed")
	r = ready(t, r, approvalv1alpha1.ReasonAllChecksApproved)
	ref := r.Status.RequestRefs[0]
	answer := func(name string, asOwner bool) *approvalv1alpha1.ApprovalResponse {
		a := &approvalv1alpha1.ApprovalResponse{Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.ObjectName, UID: ref.UID},
			Decision:   approvalv1alpha1.DecisionRevoke, Comment: "stop", AsOwner: asOwner,
			Responder: &approvalv1alpha1.Identity{Username: "boss"},
		}}
		a.Namespace, a.Name = p.owners, name
		return a
	}
	require.NoError(t, p.admin.Create(t.Context(), answer("by-anybody", false)))
	require.NoError(t, p.admin.Create(t.Context(), answer("by-an-owner", true)))
	ended := ready(t, r, approvalv1alpha1.ReasonRevoked).Status.Ended
	assert.Contains(t, ended.Message, `revoked by "boss" (asserted): "stop"`)
	require.NotNil(t, ended.HoldUntil)
	assert.WithinDuration(t, r.Status.Validity.NotAfter.Time, ended.HoldUntil.Time, time.Second)
}

const doorKind = `
apiVersion: approval.alaudadevops.io/v1alpha1
kind: CheckKind
metadata: {name: door.late.example.com}
spec: {apiVersion: late.example.com/v1, kind: Door}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: test-doors
  labels: {approval.alaudadevops.io/aggregate-to-checks: "true"}
rules:
  - {apiGroups: [late.example.com], resources: [doors], verbs: [create, delete, get, list, watch]}
`

const doorCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: doors.late.example.com}
spec:
  group: late.example.com
  names: {kind: Door, plural: doors, singular: door}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func TestRequest_AKindInstalledLaterIsPickedUp(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	require.NoError(t, cluster.Apply(t.Context(), cluster.Admin(), doorKind))
	t.Cleanup(func() {
		for _, gone := range []client.Object{
			foreign("approval.alaudadevops.io/v1alpha1", "CheckKind", "", "door.late.example.com"),
			foreign("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "doors.late.example.com"),
			foreign("rbac.authorization.k8s.io/v1", "ClusterRole", "", "test-doors"),
		} {
			assert.NoError(t, client.IgnoreNotFound(p.admin.Delete(context.Background(), gone)))
		}
	})
	p.rule("door", func(rule *approvalv1alpha1.ResourceCheckRule) {
		rule.Spec.CheckTemplate = approvalv1alpha1.CheckTemplate{APIVersion: "late.example.com/v1", Kind: "Door"}
	})
	r := ready(t, p.request("ask"), approvalv1alpha1.ReasonError)
	eventually(t, func(ctx context.Context) error {
		if message := reread(t, r).Status.Results[0].Message; !strings.Contains(message, approvalv1alpha1.ReasonNotInstalled) {
			return fmt.Errorf("the request says: %s", message)
		}
		return nil
	})
	require.NoError(t, cluster.Apply(t.Context(), cluster.Admin(), doorCRD))
	when(t, r, approvalv1alpha1.ReasonChecksPending, refs(1))
}

// registryOf compiles a stored CheckKind, to compute what the controller computes.
func registryOf(t testing.TB, p *place, name string) *checks.Kind {
	t.Helper()
	stored := &approvalv1alpha1.CheckKind{}
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Name: name}, stored))
	kind, err := checks.Compile(stored)
	require.NoError(t, err)
	return kind
}

func TestRequest_TheDigestIsOfWhatTheServerStored(t *testing.T) {
	startRequests(t)
	p := newPlace(t)
	p.rule("push")
	r := when(t, p.request("ask"), approvalv1alpha1.ReasonChecksPending, refs(1))
	live := foreign("approval.alaudadevops.io/v1alpha1", "ApprovalRequest", p.owners, r.Status.RequestRefs[0].ObjectName)
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKeyFromObject(live), live))
	kind := registryOf(t, p, "approvalrequest.approval.alaudadevops.io")
	assert.Equal(t, r.Status.RequestRefs[0].SpecDigest, kind.SpecDigest(live))
}
