package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// tenant lets the intruder do everything in the team's namespace, and gives him a Role there that names our verbs.
func (s *stage) tenant() client.Client {
	s.Helper()
	everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	s.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "tenant"}, Rules: everything})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "tenant"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "intruder@example.com"}, account(s.team, "default")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
	})
	return plane.as(s.T, "intruder")
}

const approvedStatus = `{"status":{"validity":{"notBefore":"2020-01-01T00:00:00Z","notAfter":"2040-01-01T00:00:00Z"}}}`

// attack is one attempt of a tenant for whom request is open; check is what it waits for.
type attack func(s *stage, as client.Client, request *approvalv1alpha1.ResourceCheckRequest, check *approvalv1alpha1.CheckReference) error

// createAs makes an object of the tenant's namespace.
func createAs(build func(s *stage, request *approvalv1alpha1.ResourceCheckRequest, check *approvalv1alpha1.CheckReference) client.Object) attack {
	return func(s *stage, as client.Client, request *approvalv1alpha1.ResourceCheckRequest, check *approvalv1alpha1.CheckReference) error {
		obj := build(s, request, check)
		obj.SetNamespace(s.team)
		obj.SetGenerateName("attack-")
		return as.Create(s.ctx, obj)
	}
}

func patchAs(patch string, status bool) attack {
	return func(s *stage, as client.Client, request *approvalv1alpha1.ResourceCheckRequest, _ *approvalv1alpha1.CheckReference) error {
		raw := client.RawPatch(types.MergePatchType, []byte(patch))
		if status {
			return as.Status().Patch(s.ctx, request.DeepCopy(), raw)
		}
		return as.Patch(s.ctx, request.DeepCopy(), raw)
	}
}

func applyAs(patch string) attack {
	return func(s *stage, as client.Client, request *approvalv1alpha1.ResourceCheckRequest, _ *approvalv1alpha1.CheckReference) error {
		u := &unstructured.Unstructured{}
		require.NoError(s, u.UnmarshalJSON([]byte(patch)))
		u.SetGroupVersionKind(approvalv1alpha1.GroupVersion.WithKind("ResourceCheckRequest"))
		u.SetNamespace(request.Namespace)
		u.SetName(request.Name)
		return as.Status().Apply(s.ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("mine"), client.ForceOwnership)
	}
}

// A tenant who is administrator of his own namespace, with `*` on everything, and who may ask for a connector of another.
func TestS5_ATenantWithEveryRightAtHomeDecidesNothing(t *testing.T) {
	tests := map[string]struct {
		attack attack
		want   string
	}{
		"patches the status of his request":        {patchAs(approvedStatus, true), "written by the approval controller alone"},
		"applies the status under another manager": {applyAs(`{"apiVersion":"approval.alaudadevops.io/v1alpha1","kind":"ResourceCheckRequest",` + approvedStatus[1:]), "written by the approval controller alone"},
		"becomes another subject":                  {patchAs(`{"spec":{"context":{"subject":{"name":"owner1@example.com"}}}}`, false), "cannot be changed"},
		"becomes a request of somebody else":       {patchAs(`{"spec":{"requestedBy":{"username":"owner1@example.com"}}}`, false), "cannot be changed"},
		"widens the use":                           {patchAs(`{"spec":{"use":{"operations":["Read","Write"]}}}`, false), "cannot be changed"},
		"revokes in the name of another":           {patchAs(`{"spec":{"reason":"other words","revoked":{"reason":"x","by":"owner1@example.com"}}}`, false), "cannot be changed"},
		"marks the request as a check":             {patchAs(`{"metadata":{"labels":{"approval.alaudadevops.io/request-uid":"x"}}}`, false), "leave the label out"},
		"makes a check at home": {createAs(func(*stage, *approvalv1alpha1.ResourceCheckRequest, *approvalv1alpha1.CheckReference) client.Object {
			return &approvalv1alpha1.ApprovalRequest{Spec: approvalv1alpha1.ApprovalRequestSpec{Policies: []approvalv1alpha1.ApprovalPolicy{{
				Name: "mine", NumberOfApprovalsRequired: 1,
				Approvers: []approvalv1alpha1.Approver{{Type: approvalv1alpha1.ApproverUser, Name: "intruder@example.com"}},
			}}}}
		}), "checks are made by the approval controller"},
		"labels an object of another kind as a check of his request": {createAs(func(_ *stage, request *approvalv1alpha1.ResourceCheckRequest, _ *approvalv1alpha1.CheckReference) client.Object {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{approvalv1alpha1.LabelRequestUID: string(request.UID)}}}
		}), "leave the label out"},
		"answers from home": {createAs(func(_ *stage, _ *approvalv1alpha1.ResourceCheckRequest, check *approvalv1alpha1.CheckReference) client.Object {
			return &approvalv1alpha1.ApprovalResponse{Spec: approvalv1alpha1.ApprovalResponseSpec{
				RequestRef: approvalv1alpha1.CheckTarget{Name: check.ObjectName, UID: check.UID}, Decision: approvalv1alpha1.DecisionApprove,
			}}
		}), "there is no approvalrequest"},
		"answers where the check is": {func(s *stage, as client.Client, _ *approvalv1alpha1.ResourceCheckRequest, check *approvalv1alpha1.CheckReference) error {
			return as.Create(s.ctx, &approvalv1alpha1.ApprovalResponse{
				ObjectMeta: metav1.ObjectMeta{Namespace: check.Namespace, Name: "attack"},
				Spec: approvalv1alpha1.ApprovalResponseSpec{
					RequestRef: approvalv1alpha1.CheckTarget{Name: check.ObjectName}, Decision: approvalv1alpha1.DecisionApprove,
					Responder: &approvalv1alpha1.Identity{Username: "owner1@example.com", Groups: []string{"prod-owners"}},
				},
			})
		}, "cannot create resource"},
		"rules over a connector elsewhere": {createAs(func(s *stage, _ *approvalv1alpha1.ResourceCheckRequest, _ *approvalv1alpha1.CheckReference) client.Object {
			return s.newRule("", "ApprovalRequest", people(1), func(r *approvalv1alpha1.ResourceCheckRule) { r.Spec.ObjectRef.Namespace = s.prod })
		}), "write the rule where the object is"},
		"lends himself a secret of another namespace": {createAs(func(s *stage, _ *approvalv1alpha1.ResourceCheckRequest, _ *approvalv1alpha1.CheckReference) client.Object {
			c := s.connector("")
			c.Spec.Auth = &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "login", Namespace: s.prod}}
			return c
		}), "own namespace only"},
		"mints a token for the proxy": {func(s *stage, as client.Client, _ *approvalv1alpha1.ResourceCheckRequest, _ *approvalv1alpha1.CheckReference) error {
			return as.SubResource("token").Create(s.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "pipeline"}},
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"x", plane.values["PROXY_AUDIENCE"]}}})
		}, "minted by nodes alone"},
		"acts as his service account in a pod that it is not in": {func(s *stage, _ client.Client, _ *approvalv1alpha1.ResourceCheckRequest, _ *approvalv1alpha1.CheckReference) error {
			_, pods := s.job(s.admin, "somebodys", 1)
			config := plane.config(s.T, "intruder")
			config.Impersonate = rest.ImpersonationConfig{
				UserName: "system:serviceaccount:" + s.team + ":pipeline",
				Extra:    map[string][]string{"authentication.kubernetes.io/pod-name": {pods[0].Name}, "authentication.kubernetes.io/pod-uid": {string(pods[0].UID)}},
			}
			// Looking kinds up would be refused first, without a sentence.
			forged, err := client.New(config, client.Options{Scheme: plane.scheme, Mapper: s.admin.RESTMapper()})
			require.NoError(s, err)
			_, err = s.ask(forged)
			return err
		}, "cannot impersonate"},
		"acts as his service account without a pod": {func(s *stage, _ client.Client, _ *approvalv1alpha1.ResourceCheckRequest, _ *approvalv1alpha1.CheckReference) error {
			config := plane.config(s.T, "intruder")
			config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + s.team + ":pipeline"}
			_, err := s.ask(plane.client(s.T, config))
			return err
		}, "belongs to no pod"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			intruder := s.tenant()
			s.rule("owners", "ApprovalRequest", people(1))
			request := s.mustAsk(intruder)
			check := s.asks(request, "owners")
			refusedBy(t, tc.attack(s, intruder, request, check), tc.want)
			s.refused(plane.token(t, "intruder"), "PUT", "/app", approvalv1alpha1.ReasonChecksPending)
			assert.Equal(t, request.Spec, s.fetch(request).Spec)
		})
	}
}

// What was decided stays, however its requester tries to be rid of it.
func TestS5_ATenantKeepsWhatWasDecided(t *testing.T) {
	s := newStage(t)
	intruder := s.tenant()
	s.rule("owners", "ApprovalRequest", people(1))
	request := s.mustAsk(intruder)
	require.NoError(t, s.answer("owner1", request, "owners", approvalv1alpha1.DecisionReject))
	s.reaches(request, approvalv1alpha1.ReasonChecksRejected)

	const want = "kept as evidence"
	refusedBy(t, intruder.Delete(s.ctx, request.DeepCopy()), want)
	refusedBy(t, intruder.Delete(s.ctx, request.DeepCopy(), client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationForeground)), want)
	refusedBy(t, intruder.DeleteAllOf(s.ctx, &approvalv1alpha1.ResourceCheckRequest{}, client.InNamespace(s.team)), want)
	dead := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"none"}],"finalizers":["a.example.com/b"]}}`
	require.NoError(t, patchAs(dead, false)(s, intruder, request, nil), "what the client sends there has no effect")
	kept := s.fetch(request)
	assert.Empty(t, kept.OwnerReferences)
	assert.Empty(t, kept.Finalizers)
}

// What a client writes beside its wish has no effect or is refused.
func TestS1_AForgedRequestAsksForItsCallerOrNobody(t *testing.T) {
	tests := map[string]struct {
		forge func(*approvalv1alpha1.ResourceCheckRequest)
		// want is empty where the forgery has no effect.
		want string
	}{
		"requestedBy": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.RequestedBy = &approvalv1alpha1.Identity{Username: "owner1@example.com", Groups: []string{"prod-owners"}}
		}, ""},
		"creator record and labels": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Annotations = map[string]string{approvalv1alpha1.AnnotationCreatedBy: "owner1@example.com"}
			r.Labels = map[string]string{approvalv1alpha1.LabelFingerprint: "v1forged"}
		}, ""},
		"status": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.Unix(1, 0), NotAfter: metav1.Unix(4e9, 0)}
		}, ""},
		"subject":                   {subject(approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "owner1@example.com"}), "spec.context.subject.name"},
		"subject in another case":   {subject(approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "Developer@example.com"}), "spec.context.subject.name"},
		"subject in other letters":  {subject(approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "devеloper@example.com"}), "spec.context.subject.name"},
		"subject's uid":             {subject(approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "developer@example.com", UID: "forged"}), "spec.context.subject.uid"},
		"subject a service account": {subject(approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Name: "pipeline"}), "spec.context.subject"},
		"pod": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Context.Pod = &approvalv1alpha1.PodReference{Namespace: "x", Name: "x", UID: "x"}
		}, "spec.context.pod"},
		"object's uid":             {func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.ObjectRef.UID = "forged" }, "spec.objectRef.uid"},
		"the server's name":        {func(r *approvalv1alpha1.ResourceCheckRequest) { r.GenerateName, r.Name = "", "rcr-mine" }, "metadata.name"},
		"the server's prefix":      {func(r *approvalv1alpha1.ResourceCheckRequest) { r.GenerateName = "rcr-mine-" }, "metadata.name"},
		"the server's way to name": {func(r *approvalv1alpha1.ResourceCheckRequest) { r.Name = "mine" }, "the server would name"},
		"the kind in another case": {func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.ObjectRef.Kind = "connector" }, "does not exist"},
		"a use of nothing": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Use = &approvalv1alpha1.OperationSelector{HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{""}}}
		}, "spec.use.http"},
		"a use that reads two ways": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Use = &approvalv1alpha1.OperationSelector{HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{"/a%2Fb"}}}
		}, "spec.use.http"},
		"a revocation from the start": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: "x"}
		}, "spec.revoked"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.rule("owners", "ApprovalRequest", people(1))
			request, err := s.ask(plane.as(t, "developer"), tc.forge)
			if tc.want != "" {
				refusedBy(t, err, tc.want)
				s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
				return
			}
			require.NoError(t, err)
			stored := s.reaches(request, approvalv1alpha1.ReasonChecksPending)
			assert.Equal(t, "developer@example.com", stored.Spec.RequestedBy.Username)
			assert.Equal(t, "developer@example.com", stored.Annotations[approvalv1alpha1.AnnotationCreatedBy])
			assert.Equal(t, stored.Status.Fingerprint, stored.Labels[approvalv1alpha1.LabelFingerprint])
			s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonChecksPending)
			s.refused(plane.token(t, "owner1"), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
		})
	}
}

func subject(of approvalv1alpha1.Subject) func(*approvalv1alpha1.ResourceCheckRequest) {
	return func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Context.Subject = &of }
}
