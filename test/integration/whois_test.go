package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/AlaudaDevops/countersign/pkg/cli"
)

// Who people are is told to those alone who hold the right everywhere.
func TestWhois_NeedsARightThatNoTenantHas(t *testing.T) {
	p := newProxied(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, cluster.CA().CertPEM(), 0o600))
	whois := func(who *person, names ...string) int {
		return who.run(append([]string{"whois", "--proxy-url", "https://" + p.address, "--proxy-ca", ca}, names...)...)
	}

	const clerk, mallory = "clerk@example.com", "whois-tenant@example.com"
	bindClusterRole(t, "", clerk, "countersign-whois")
	require.NoError(t, p.admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.asking, Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}))
	require.NoError(t, p.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.asking, Name: "everything"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "everything"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: mallory}},
	}))

	known, account := "wanda@example.com", "system:serviceaccount:"+systemNamespace+":countersign-proxy"
	t.Run("with it", func(t *testing.T) {
		who := personAt(t, clerk)
		assert.Equal(t, cli.ExitNotFound, whois(who, known, account, "left@example.com"), who.err.String())
		assert.Contains(t, who.out.String(), "Wanda W.       wanda@example.com   directory entry\n")
		assert.Contains(t, who.out.String(), "serviceaccount "+systemNamespace+"/countersign-proxy\n")
		assert.Contains(t, who.out.String(), "unknown; the directory: ")
	})
	t.Run("as tenant", func(t *testing.T) {
		who := personAt(t, mallory)
		assert.Equal(t, cli.ExitError, whois(who, known))
		assert.Contains(t, who.out.String(), "the proxy refuses: you may not ask who people are")
		assert.NotContains(t, who.out.String(), "Wanda")
		assert.Equal(t, http.StatusForbidden, p.send(p.person(mallory), http.MethodPost, "/-/whois", `{"names": ["wanda@example.com"]}`).status)
	})
}
