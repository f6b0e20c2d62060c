package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func TestS10_TokensForTheProxyAreMintedByNodesAndHoldersOfMint(t *testing.T) {
	namespace := cluster.Namespace(t)
	somebody := tenant(t, namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builder"}}
	require.NoError(t, somebody.Create(t.Context(), account))
	ask := func(ctx context.Context, c client.Client, audiences ...string) error {
		return c.SubResource("token").Create(ctx, account.DeepCopy(), &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}})
	}
	for name, audiences := range map[string][]string{
		"alone": {"countersign-proxy"}, "among others": {"https://vault.example.com", "countersign-proxy"}, "twice": {"countersign-proxy", "countersign-proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			refusedByPolicy(t, ask(t.Context(), somebody, audiences...), "mount it into a pod as a projected serviceAccountToken volume")
		})
	}
	assert.NoError(t, ask(t.Context(), somebody), "the API server's own audience")
	assert.NoError(t, ask(t.Context(), somebody, "https://vault.example.com"))

	node := impersonate(t, "node-reader", "system:nodes")
	bindRoleNamed(t, namespace, "node", "node-reader")
	assert.NoError(t, ask(t.Context(), node, "countersign-proxy"), "a node mints for its pods; NodeRestriction says for which")

	minter := "minter-of-" + namespace
	bindRoleNamed(t, namespace, "minter", minter)
	admin := as(t, cluster.Admin())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "mint-" + namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{approvalv1alpha1.AuthorityGroup}, Resources: []string{approvalv1alpha1.ResourceTokens}, Verbs: []string{approvalv1alpha1.VerbMint}},
	}}
	require.NoError(t, admin.Create(t.Context(), role))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), role)) })
	refusedByPolicy(t, ask(t.Context(), as(t, cluster.Config(minter)), "countersign-proxy"), "the verb mint")
	bindClusterRole(t, "", minter, role.Name)
	eventually(t, func(ctx context.Context) error {
		return ask(ctx, as(t, cluster.Config(minter)), "countersign-proxy")
	})
}
