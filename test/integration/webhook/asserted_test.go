package webhook

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

const forge = "sesame"

// token acts as a person with a token of his own.
func (w *world) token(name string, groups ...string) client.Client {
	w.t.Helper()
	w.person(name)
	config, err := cluster.Person(w.name(name), groups...)
	require.NoError(w.t, err)
	return as(w.t, config)
}

// impersonator may act as any user, and sends a credential id if one is given.
func (w *world) impersonator(name, user, credential string, resources ...string) client.Client {
	w.t.Helper()
	w.person(user)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "impersonator-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: append(resources, "uids"), Verbs: []string{"impersonate"}},
	}}
	w.create(w.admin, role)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "impersonator-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: w.name(name)}},
	}
	w.create(w.admin, binding)
	w.t.Cleanup(func() {
		for _, object := range []client.Object{role, binding} {
			assert.NoError(w.t, w.admin.Delete(context.Background(), object))
		}
	})
	config, err := cluster.Person(w.name(name))
	require.NoError(w.t, err)
	config.Impersonate = rest.ImpersonationConfig{UserName: w.name(user)}
	if credential != "" {
		config.Impersonate.Extra = map[string][]string{approvalv1alpha1.ExtraCredentialID: {credential}}
	}
	impersonator, err := client.New(config, client.Options{Scheme: scheme, Mapper: w.admin.RESTMapper()})
	require.NoError(w.t, err)
	return impersonator
}

func TestAssertedIsWhoeverBringsNoCredentialOfHisOwn(t *testing.T) {
	tests := map[string]struct {
		client func(w *world) client.Client
		want   bool
	}{
		"a token": {client: func(w *world) client.Client { return w.token("dave") }},
		// This API server gives certificates a credential id too (X509SHA256=).
		"a client certificate": {client: func(w *world) client.Client { return w.person("dave") }},
		"impersonated":         {client: func(w *world) client.Client { return w.impersonator("mallory", "dave", "") }, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.check()
			by := tt.client(w)
			request, answer := w.request(), w.answer("answer", approve)
			w.create(by, request)
			w.create(by, answer)
			assert.Equal(t, w.name("dave"), request.Spec.RequestedBy.Username)
			assert.Equal(t, tt.want, request.Spec.RequestedBy.Asserted())
			assert.Equal(t, w.name("dave"), answer.Spec.Responder.Username)
			assert.Equal(t, tt.want, answer.Spec.Responder.Asserted())
		})
	}
}

func TestS7_RulesRefuseAssertedAnswers(t *testing.T) {
	w := newWorld(t)
	w.check(func(c *approvalv1alpha1.ApprovalRequest) {
		c.Spec.AssertedAnswers = approvalv1alpha1.AssertedAnswersForbid
	})
	refused(t, w.impersonator("mallory", "dave", "").Create(t.Context(), w.answer("asserted", approve)), "log in with a token of your own")
	refused(t, w.impersonator("mallory", "dave", "").Create(t.Context(), w.answer("asserted", approvalv1alpha1.DecisionReject)), "log in with a token of your own")
	w.create(w.token("dave"), w.answer("own", approve))
}

// A credential id is forged only with a right of its own.
func TestS7_CredentialIDsAreNotForged(t *testing.T) {
	w := newWorld(t)
	w.check(func(c *approvalv1alpha1.ApprovalRequest) {
		c.Spec.AssertedAnswers = approvalv1alpha1.AssertedAnswersForbid
	})
	err := w.impersonator("mallory", "dave", forge).Create(t.Context(), w.answer("forged", approve))
	assert.True(t, apierrors.IsForbidden(err))
	assert.ErrorContains(t, err, "cannot impersonate")

	t.Run("whoever has it can, which is why no shipped role conveys it", func(t *testing.T) {
		w := newWorld(t)
		w.check(func(c *approvalv1alpha1.ApprovalRequest) {
			c.Spec.AssertedAnswers = approvalv1alpha1.AssertedAnswersForbid
		})
		answer := w.answer("forged", approve)
		w.create(w.impersonator("root", "dave", forge, "userextras/"+approvalv1alpha1.ExtraCredentialID), answer)
		assert.Equal(t, approvalv1alpha1.ExtraValue{forge}, answer.Spec.Responder.Extra[approvalv1alpha1.ExtraCredentialID])
	})
}
