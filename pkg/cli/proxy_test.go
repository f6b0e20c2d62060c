package cli

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// fakeProxy answers every question with what the test says, and keeps what it was asked.
type fakeProxy struct {
	server *httptest.Server
	mu     sync.Mutex
	asked  []*http.Request
}

func startProxy(t *testing.T, answer func(query map[string][]string) (int, any)) *fakeProxy {
	t.Helper()
	f := &fakeProxy{}
	f.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.asked = append(f.asked, r)
		f.mu.Unlock()
		code, body := answer(r.URL.Query())
		w.WriteHeader(code)
		assert.NoError(t, json.NewEncoder(w).Encode(body))
	}))
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeProxy) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

// config publishes the proxy in the cluster.
func (f *fakeProxy) config(b *bench) {
	b.config.BearerToken = "secret-token"
	b.objects = append(b.objects, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "countersign"},
		Data:       map[string]string{"proxyURL": f.server.URL, "ca": string(f.ca())},
	})
}

func (f *fakeProxy) tokens() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var tokens []string
	for _, r := range f.asked {
		tokens = append(tokens, r.Header.Get("Authorization"))
	}
	return tokens
}

func TestExplain(t *testing.T) {
	waiting := []duckv1alpha1.CheckWaiting{{Kind: "Group", Name: "prod-owners", Missing: 2}}
	tests := map[string]struct {
		verdict verdict
		code    int
		out     string
	}{
		"allowed": {verdict{Verdict: "allow", Reason: "AllChecksApproved", Detail: "the request is allowed until 2026", Request: "team-a/rcr-1"}, ExitDone,
			"Verdict:      allowed (AllChecksApproved)\nWhy:          the request is allowed until 2026\nRequest:      team-a/rcr-1\n"},
		"pending": {verdict{Verdict: "deny", Reason: "ChecksPending", Request: "team-a/rcr-1", WaitingFor: waiting, SeenAs: "dev"}, ExitPending,
			"Verdict:      pending (ChecksPending)\nRequest:      team-a/rcr-1\nWaiting for:  group prod-owners: 2 more\nSeen as:      dev\n" +
				"Next:         kubectl countersign wait team-a/rcr-1\n"},
		"no request": {verdict{Verdict: "deny", Reason: "NoRequest", Operations: []string{"PUT /v2/app (Write)"}, Rules: []verdictRule{{Name: "push", Generation: 3}},
			Ask: "kubectl countersign request connector/x"}, ExitDenied,
			"Verdict:      denied (NoRequest)\nDoes:         PUT /v2/app (Write)\nRules:        push, generation 3\nNext:         kubectl countersign request connector/x\n"},
		"unknown":    {verdict{Verdict: "deny", Status: 404, Reason: "ConnectorUnknown"}, ExitNotFound, "Verdict:      denied (ConnectorUnknown)\n"},
		"not ready":  {verdict{Verdict: "deny", Status: 503, Reason: "Stale"}, ExitError, "Verdict:      cannot be decided (Stale)\n"},
		"no verdict": {verdict{Status: 401, Reason: "Unauthenticated"}, ExitError, "Verdict:      cannot be decided (Unauthenticated)\n"},
		"status is no yes": {verdict{Status: 200, Reason: "NotPermitted", Detail: "a\x1b[2J"}, ExitDenied,
			"Verdict:      denied (NotPermitted)\nWhy:          a\\x1b[2J\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			proxy := startProxy(t, func(map[string][]string) (int, any) { return 200, tt.verdict })
			b := makeBench(t)
			proxy.config(b)
			assert.Equal(t, tt.code, b.run("explain", "connector/prod-harbor", "-n", "prod"))
			assert.Equal(t, tt.out, b.out.String())
			assert.Empty(t, b.err.String())
		})
	}
}

func TestExplainAsks(t *testing.T) {
	proxy := startProxy(t, func(map[string][]string) (int, any) {
		return 200, verdict{Verdict: "allow", Reason: "NoApplicableRule"}
	})
	b := makeBench(t)
	proxy.config(b)
	require.Equal(t, ExitDone, b.run("explain", "conn/prod-harbor", "-n", "prod", "--method", "put", "--path", "/v2/a b?c=d",
		"--for-user", "dev", "--for-group", "g1,g2", "-o", "json"), b.err.String())
	assert.JSONEq(t, `{"verdict":"allow","reason":"NoApplicableRule"}`, b.out.String())
	r := proxy.asked[0]
	assert.Equal(t, "/-/explain", r.URL.Path)
	assert.Equal(t, map[string][]string{
		"namespace": {"prod"}, "connector": {"prod-harbor"}, "method": {"PUT"}, "path": {"/v2/a b?c=d"}, "user": {"dev"}, "groups": {"g1", "g2"},
	}, map[string][]string(r.URL.Query()))
	assert.Equal(t, "Bearer secret-token", r.Header.Get("Authorization"))
	assert.Empty(t, r.Header.Get("Impersonate-User"))
}

func TestProxyIsFound(t *testing.T) {
	proxy := startProxy(t, func(map[string][]string) (int, any) {
		return 200, verdict{Verdict: "allow", Reason: "NoApplicableRule"}
	})
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, proxy.ca(), 0o600))
	explain := []string{"explain", "connector/x"}

	t.Run("by flags", func(t *testing.T) {
		assert.Equal(t, ExitDone, makeBench(t).run(append(explain, "--proxy-url", proxy.server.URL+"/", "--proxy-ca", ca)...))
	})
	t.Run("by environment", func(t *testing.T) {
		b := makeBench(t)
		t.Setenv("PROXY_URL", proxy.server.URL)
		t.Setenv("PROXY_CA", ca)
		assert.Equal(t, ExitDone, b.run(explain...), b.err.String())
	})
	t.Run("not at all", func(t *testing.T) {
		b := makeBench(t)
		assert.Equal(t, ExitError, b.run(explain...))
		assert.Contains(t, b.err.String(), "it is not known where the Countersign proxy is")
	})
	t.Run("of another CA", func(t *testing.T) {
		b := makeBench(t)
		assert.Equal(t, ExitError, b.run(append(explain, "--proxy-url", proxy.server.URL)...))
		assert.Contains(t, b.err.String(), "cannot be reached: tls: failed to verify certificate")
	})
	t.Run("not by plain http", func(t *testing.T) {
		b := makeBench(t)
		assert.Equal(t, ExitError, b.run(append(explain, "--proxy-url", "http://127.0.0.1:1")...))
		assert.Contains(t, b.err.String(), "your token is not sent any other way")
	})
	t.Run("not without a token", func(t *testing.T) {
		b := makeBench(t)
		proxy.config(b)
		b.config.BearerToken = ""
		assert.Equal(t, ExitError, b.run(explain...))
		assert.Contains(t, b.err.String(), "your kubeconfig has no token")
	})
	t.Run("not as somebody else", func(t *testing.T) {
		b := makeBench(t)
		assert.Equal(t, ExitUsage, b.run(append(explain, "--as", "owner1")...))
	})
}

func TestProxyRedirectIsNotFollowed(t *testing.T) {
	other := startProxy(t, func(map[string][]string) (int, any) { return 200, verdict{Verdict: "allow", Reason: "x"} })
	redirecting := httptest.NewTLSServer(http.RedirectHandler(other.server.URL, http.StatusFound))
	t.Cleanup(redirecting.Close)
	b := makeBench(t)
	(&fakeProxy{server: redirecting}).config(b)
	assert.Equal(t, ExitError, b.run("explain", "connector/x"))
	assert.Contains(t, b.err.String(), "and not in JSON")
	assert.Empty(t, other.tokens(), "the token stays with the proxy")
}

func TestCurrentJTI(t *testing.T) {
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"jti":"id-7"}`))
	tests := map[string]struct {
		token string
		code  int
		want  string
	}{
		"jwt":      {"e30." + payload + ".sig", ExitDone, ""},
		"opaque":   {"abc", ExitError, "your token has no jti"},
		"no jti":   {"e30.e30.sig", ExitError, "your token has no jti"},
		"no token": {"", ExitError, "your kubeconfig has no token"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t)
			b.config.BearerToken = tt.token
			require.Equal(t, tt.code, b.run("request", "connector/x", "--token-jti", "current"))
			assert.Contains(t, b.err.String(), tt.want)
			if tt.token != "" {
				assert.NotContains(t, b.err.String()+b.out.String(), tt.token)
			}
			if tt.code == ExitDone {
				assert.Equal(t, &approvalv1alpha1.TokenReference{JTI: "id-7"}, asked(t, b).Spec.Context.Token)
			}
		})
	}
}

func TestVerdictCodesCoverTheReasons(t *testing.T) {
	assert.True(t, slices.Contains([]int{ExitPending}, (&verdict{Reason: approvalv1alpha1.ReasonOriginPending}).code()))
	assert.Equal(t, ExitDenied, (&verdict{Reason: "SomethingNew"}).code(), "what is not known is a no")
}
