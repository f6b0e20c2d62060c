package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

func body(t testing.TB, res *http.Response) string {
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(b)
}

func registryTool(t testing.TB, f *fixture, address string, change ...func(*connectorsv1alpha1.ConnectorSpec)) *Tool {
	f.secrets.set("login", corev1.SecretTypeBasicAuth, map[string]string{"username": "robot", "password": "pw"})
	tool, err := f.pool.Tool(t.Context(), connector("oci", address, append(change, withLogin("login"))...))
	require.NoError(t, err)
	return tool
}

func TestTokensAreExchangedPerRepository(t *testing.T) {
	reg, server := startRegistry(t)
	f := newFixture()
	tool := registryTool(t, f, server.URL)

	for range 2 {
		res, err := do(t, tool, operation.Read, "GET", "/v2/team/app/manifests/1")
		require.NoError(t, err)
		assert.Equal(t, "[repository:team/app:pull]", body(t, res))
	}
	_, err := do(t, tool, operation.Write, "POST", "/v2/team/app/blobs/uploads/")
	require.NoError(t, err)
	_, err = do(t, tool, operation.Read, "GET", "/v2/")
	require.NoError(t, err)
	assert.Equal(t, []string{
		"robot:pw [repository:team/app:pull]", "robot:pw [repository:team/app:pull,push]", "robot:pw []",
	}, reg.logins)
	assert.Equal(t, 1, reg.pings)
}

func TestAMountNeedsBothRepositories(t *testing.T) {
	path, err := operation.Parse("/v2/app/blobs/uploads/")
	require.NoError(t, err)
	ops, err := operation.NewClassifier("oci").Classify(operation.Request{Method: "POST", Path: path, RawQuery: "mount=sha256:ab&from=base"})
	require.NoError(t, err)
	assert.Equal(t, []string{"repository:app:pull,push", "repository:base:pull"}, scopesOf(ops))
}

func TestTokensAreRenewed(t *testing.T) {
	reg, server := startRegistry(t)
	f := newFixture()
	tool := registryTool(t, f, server.URL)
	get := func() *http.Response {
		res, err := do(t, tool, operation.Read, "GET", "/v2/app/tags/list")
		require.NoError(t, err)
		return res
	}
	get()
	f.clock.Step(289 * time.Second)
	get()
	assert.Len(t, reg.logins, 1)
	f.clock.Step(time.Second)
	get()
	assert.Len(t, reg.logins, 2, "before the token ends")

	clear(reg.issued)
	assert.Equal(t, http.StatusOK, get().StatusCode, "a token that is refused is replaced")
	assert.Len(t, reg.logins, 3)
}

func TestABodyIsNotSentTwice(t *testing.T) {
	reg, server := startRegistry(t)
	tool := registryTool(t, newFixture(), server.URL)
	put := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/v2/app/manifests/1", strings.NewReader("{}"))
		require.NoError(t, err)
		res, err := tool.Trip("", operations(t, operation.Write, "PUT", "/v2/app/manifests/1")).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res
	}
	assert.Equal(t, http.StatusOK, put().StatusCode)
	clear(reg.issued)
	assert.Equal(t, http.StatusUnauthorized, put().StatusCode)
	assert.Equal(t, http.StatusOK, put().StatusCode, "the next one has a new token")
}

func TestABasicRegistryGetsTheCredentialItself(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "robot" || password != "pw" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	res, err := do(t, registryTool(t, newFixture(), server.URL+"/base"), operation.Read, "GET", "/v2/app/tags/list")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

func TestS12_OnlyListedTokenServicesSeeTheCredential(t *testing.T) {
	reg, server := startRegistry(t)
	var asked []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer other.Close()
	// The registry client refuses token services at private addresses other than the registry's; a name is none.
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	reg.realm = elsewhere + "/token"

	for name, listed := range map[string]string{"nothing listed": `[]`, "other path": `"` + elsewhere + `/other"`, "other host": `["https://auth.example/token"]`} {
		_, err := do(t, registryTool(t, newFixture(), server.URL, withRealms(listed)), operation.Read, "GET", "/v2/app/tags/list")
		assert.Equal(t, "ToolRefused", Explain(err).Reason, name)
		assert.ErrorContains(t, err, "does not list", name)
		assert.Empty(t, asked, name)
	}
	_, err := do(t, registryTool(t, newFixture(), server.URL, withRealms(`["https://auth.example/token", "`+reg.realm+`"]`)), operation.Read, "GET", "/v2/app/tags/list")
	assert.ErrorContains(t, err, "does not take the connector's credentials")
	assert.Equal(t, []string{"/token"}, asked)
}

func TestS12_NoRedirectIsFollowed(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL+"/v2/", http.StatusTemporaryRedirect))
	defer server.Close()
	_, err := do(t, registryTool(t, newFixture(), server.URL), operation.Read, "GET", "/v2/app/tags/list")
	assert.ErrorContains(t, err, "redirect")

	plain, err := newFixture().pool.Tool(t.Context(), connector("any", server.URL))
	require.NoError(t, err)
	res, err := do(t, plain, operation.Read, "GET", "/a")
	require.NoError(t, err)
	assert.Equal(t, http.StatusTemporaryRedirect, res.StatusCode)
	assert.Zero(t, asked)
}

func TestS11_TheTokenServiceIsNotPassedOn(t *testing.T) {
	_, server := startRegistry(t)
	tool := registryTool(t, newFixture(), server.URL)
	for _, path := range []string{"/token", "/token/", "/%74oken"} {
		_, err := do(t, tool, operation.Read, "GET", path)
		assert.ErrorContains(t, err, "not passed on", path)
	}

	f := newFixture()
	f.secrets.set("login", connectorsv1alpha1.SecretTypeBearerToken, map[string]string{"token": "abc"})
	harbor, err := f.pool.Tool(t.Context(), connector("harbor", server.URL+"/h", withLogin("login")))
	require.NoError(t, err)
	_, err = do(t, harbor, operation.Read, "GET", "/service/token")
	assert.ErrorContains(t, err, "not passed on")
}

func TestS11_WordsOfATokenServiceStayInside(t *testing.T) {
	for name, answer := range map[string]string{"no token": `{"refresh_token": "s3cret"}`, "garbage": `s3cret`} {
		server := httptest.NewServer(nil)
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/token" {
				_, _ = fmt.Fprint(w, answer)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+server.URL+`/token"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
		_, err := do(t, registryTool(t, newFixture(), server.URL), operation.Read, "GET", "/v2/app/tags/list")
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), "s3cret", name)
		server.Close()
	}
	assert.Equal(t, hidden, fmt.Sprint(token{value: []string{"Bearer x"}}))
	assert.Equal(t, hidden, fmt.Sprintf("%#v", token{value: []string{"Bearer x"}}))
}

func TestScopes(t *testing.T) {
	tests := map[string]struct {
		class  operation.Class
		method string
		path   string
		want   string
	}{
		"pull":                   {operation.Read, "GET", "/v2/team/app/manifests/1", "repository:team/app:pull"},
		"upload":                 {operation.Write, "PATCH", "/v2/team/app/blobs/uploads/id", "repository:team/app:pull,push"},
		"upload begins":          {operation.Write, "POST", "/v2/team/app/blobs/uploads/", "repository:team/app:pull,push"},
		"delete":                 {operation.Write, "DELETE", "/v2/app/manifests/sha256:ab", "repository:app:pull,delete"},
		"tag called like a word": {operation.Read, "GET", "/v2/app/manifests/blobs", "repository:app:pull"},
		"name called like one":   {operation.Read, "GET", "/v2/tags/blobs/tags/list", "repository:tags/blobs:pull"},
		"catalogue":              {operation.Read, "GET", "/v2/_catalog", "registry:catalog:*"},
		"ping":                   {operation.Read, "GET", "/v2/", ""},
		"not the registry":       {operation.Read, "GET", "/api/v2.0/projects", ""},
		"nothing known":          {operation.Write, "GET", "/v2/app/other", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, scopeOf(operations(t, test.class, test.method, test.path)[0]))
		})
	}
}
