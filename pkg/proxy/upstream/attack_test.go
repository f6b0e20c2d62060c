package upstream

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

func withExtension(name, address string) func(*connectorsv1alpha1.ConnectorSpec) {
	return func(s *connectorsv1alpha1.ConnectorSpec) {
		s.AddressExtensions = append(s.AddressExtensions, connectorsv1alpha1.AddressExtension{Name: name, Address: address})
	}
}

func TestS11_NoExtensionLeadsToATokenService(t *testing.T) {
	reg, server := startRegistry(t)
	auth := "https://auth.example"
	f := newFixture()
	f.secrets.set("robot", "kubernetes.io/basic-auth", map[string]string{"username": "robot", "password": "pw"})
	harbor, err := f.pool.Tool(t.Context(), connector("harbor", server.URL, withLogin("robot"), withExtension("same", server.URL)))
	require.NoError(t, err)
	tests := map[string]struct {
		tool      *Tool
		extension string
		url       string
	}{
		"own realm":     {registryTool(t, newFixture(), server.URL, withExtension("same", server.URL)), "same", server.URL + "/token?scope=repository:app:pull,push"},
		"listed realm":  {registryTool(t, newFixture(), server.URL, withExtension("auth", auth), withRealms(`"`+auth+`/token"`)), "auth", auth + "/token?scope=x"},
		"with a slash":  {registryTool(t, newFixture(), server.URL, withExtension("auth", auth), withRealms(`"`+auth+`/token"`)), "auth", auth + "/token/"},
		"slash in list": {registryTool(t, newFixture(), server.URL, withExtension("auth", auth), withRealms(`"`+auth+`/token/"`)), "auth", auth + "/token"},
		"harbor's own":  {harbor, "same", server.URL + "/service/token"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
			require.NoError(t, err)
			res, err := test.tool.Trip(test.extension, operations(t, operation.Read, "GET", "/token")).RoundTrip(req)
			if err == nil {
				_ = res.Body.Close()
			}
			assert.ErrorContains(t, err, "not passed on")
		})
	}
	assert.Empty(t, reg.logins)
}

func TestS12_NoNameWidensTheScopeOfAToken(t *testing.T) {
	for _, path := range []string{
		"/v2/x:pull%20repository:prod/app:pull,push%20repository:y/blobs/sha256:ab",
		"/v2/app:pull,push/manifests/1", "/v2/a%20b/tags/list", "/v2/a,b/tags/list", "/v2/registry:catalog:*/tags/list", "/v2/a*/tags/list",
	} {
		assert.Empty(t, scopesOf(operations(t, operation.Read, "GET", path)), path)
	}
	assert.Equal(t, []string{"repository:team/app_1.x-y:pull"}, scopesOf(operations(t, operation.Read, "GET", "/v2/team/app_1.x-y/tags/list")))
}
