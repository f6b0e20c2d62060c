package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// oneSentence sees that a refusal says what happened, and holds nothing of the token.
func oneSentence(t testing.TB, got outcome, token string) {
	t.Helper()
	fields := problem(t, got)
	assert.NotEmpty(t, fields["detail"])
	assert.NotContains(t, fields["detail"], "\n")
	if token != "" {
		assert.NotContains(t, got.body, token)
	}
}

// forged is a token that says what the developer's says, with another signature or none.
func forged(t testing.TB, header string) string {
	t.Helper()
	parts := strings.Split(plane.token(t, "developer"), ".")
	require.Len(t, parts, 3)
	if header != "" {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + parts[1] + "."
	}
	return parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
}

func TestTokensThatProveNobodyAreRefused(t *testing.T) {
	s := newStage(t)
	_, pods := s.job(plane.as(t, "developer"), "deploy", 1)
	for what, token := range map[string]string{
		"no token":              "",
		"garbage":               "garbage",
		"three words":           "a.b.c",
		"an absurdly long one":  strings.Repeat("a", 20000),
		"an expired one":        plane.mint(t, "developer", "--ttl", "-1h"),
		"a changed signature":   forged(t, ""),
		"an algorithm of none":  forged(t, `{"alg":"none"}`),
		"for another audience":  s.podToken(&pods[0], "somebody-else"),
		"for the API server":    s.podToken(&pods[0], ""),
		"of no issuer we trust": "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2V4YW1wbGUuY29tIiwic3ViIjoieCJ9.AAAA",
	} {
		t.Run(what, func(t *testing.T) {
			got := s.use(token, http.MethodGet, "/app")
			assert.Equal(t, http.StatusUnauthorized, got.status, got.body)
			assert.Equal(t, approvalv1alpha1.ReasonUnauthenticated, got.reason)
			oneSentence(t, got, token)
		})
	}
	assert.Zero(t, s.reached.Load())
	s.allowed(s.proxyToken(&pods[0]), "GET", "/app")
}

func TestATokenLastsAsLongAsItSays(t *testing.T) {
	s := newStage(t)
	short := plane.mint(t, "developer", "--ttl", "15s")
	s.allowed(plane.token(t, "developer"), "GET", "/app")
	require.Equal(t, http.StatusOK, s.use(short, http.MethodGet, "/app").status)
	got := s.refused(short, "GET", "/app", approvalv1alpha1.ReasonUnauthenticated)
	oneSentence(t, got, short)
	assert.Contains(t, got.body, "expired")
}

// call is one strange HTTP call; raw is its path as it is sent.
func (s *stage) call(t testing.TB, raw string, headers map[string]string) outcome {
	t.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPut, plane.values["PROXY_URL"], http.NoBody)
	require.NoError(t, err)
	req.URL.Opaque = raw
	req.Header.Set("Authorization", "Bearer "+plane.token(t, "developer"))
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := httpClient(t).Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return outcome{status: res.StatusCode, reason: res.Header.Get("Countersign-Reason"), body: string(body)}
}

func TestCallsThatCannotBeJudgedAreRefused(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	s.approve(s.mustAsk(plane.as(t, "developer")), "owners", 1)
	s.allowed(plane.token(t, "developer"), "PUT", "/app")
	reached := s.reached.Load()
	base := "/namespaces/" + s.prod + "/connectors/" + connectorName
	for what, test := range map[string]struct {
		path    string
		headers map[string]string
		status  int
	}{
		"dot segments":            {base + "/a/../b", nil, http.StatusBadRequest},
		"encoded dot segments":    {base + "/a/%2e%2e/b", nil, http.StatusBadRequest},
		"an empty segment":        {base + "/a//b", nil, http.StatusBadRequest},
		"a backslash":             {base + "/a%5cb", nil, http.StatusBadRequest},
		"a control character":     {base + "/a%00b", nil, http.StatusBadRequest},
		"a method in a header":    {base + "/app", map[string]string{"X-HTTP-Method-Override": "DELETE"}, http.StatusBadRequest},
		"somebody else's name":    {base + "/app", map[string]string{"Impersonate-User": "admin"}, http.StatusBadRequest},
		"no such connector":       {"/namespaces/" + s.prod + "/connectors/none/app", nil, http.StatusNotFound},
		"no such namespace":       {"/namespaces/none/connectors/tool/app", nil, http.StatusNotFound},
		"a write to the proxy":    {"/", nil, http.StatusBadRequest},
		"no such extension":       {base + "/-ext/none/app", nil, http.StatusNotFound},
		"more headers than known": {base + "/app", map[string]string{"X-Long": strings.Repeat("a", 2<<20)}, http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(what, func(t *testing.T) {
			got := s.call(t, test.path, test.headers)
			assert.Equal(t, test.status, got.status, got.body)
			if got.status != http.StatusRequestHeaderFieldsTooLarge {
				oneSentence(t, got, plane.token(t, "developer"))
			}
		})
	}
	assert.Equal(t, reached, s.reached.Load(), "none of them reaches the tool")
	s.allowed(plane.token(t, "developer"), "PUT", "/app")
}

func TestAToolThatFailsIsNamed(t *testing.T) {
	s := newStage(t)
	const secret = "not-for-callers"
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: "login"}, Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{corev1.BasicAuthUsernameKey: "bot", corev1.BasicAuthPasswordKey: secret},
	})
	for name, test := range map[string]struct {
		address, reason string
		status          int
	}{
		"unreachable": {"http://127.0.0.1:1", approvalv1alpha1.ReasonToolUnreachable, http.StatusBadGateway},
		"unknown":     {"http://tool.invalid", approvalv1alpha1.ReasonToolUnreachable, http.StatusBadGateway},
		"strange-tls": {plane.values["REGISTRY_URL"], approvalv1alpha1.ReasonToolUnreachable, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			connector := s.connector(name)
			connector.Spec.Address = test.address
			connector.Spec.Auth = &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "login"}}
			s.create(connector)
			var got outcome
			s.eventually("the connector "+name+" says "+test.reason, func() error {
				if got = s.useOf(name, plane.token(t, "developer"), "GET", "/app"); got.reason != test.reason {
					return fmt.Errorf("it says %+v", got)
				}
				return nil
			})
			assert.Equal(t, test.status, got.status)
			oneSentence(t, got, plane.token(t, "developer"))
			assert.NotContains(t, got.body, secret)
		})
	}
	s.allowed(plane.token(t, "developer"), "GET", "/app")
}

// quietLogs sees that nothing panicked and that no person's token was logged, whatever the tests threw at it.
func quietLogs() error {
	tokens, err := filepath.Glob(filepath.Join(plane.dir, "tokens", "*"))
	if err != nil {
		return err
	}
	forbidden := []string{"panic"}
	for _, file := range tokens {
		token, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		forbidden = append(forbidden, strings.TrimSpace(string(token)))
	}
	for _, name := range []string{"controller.log", "proxy.log", "access.log"} {
		log, err := os.ReadFile(filepath.Join(plane.dir, "logs", name))
		if err != nil {
			return err
		}
		for _, word := range forbidden {
			if at := strings.Index(string(log), word); at >= 0 && word == "panic" {
				return fmt.Errorf("%s: %s", name, log[at:min(len(log), at+2000)])
			} else if at >= 0 {
				return fmt.Errorf("%s holds a person's token", name)
			}
		}
	}
	return nil
}
