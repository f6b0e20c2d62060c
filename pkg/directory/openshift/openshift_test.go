package openshift

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// prefix is what a look-up's path must begin with.
const prefix = "/apis/user.openshift.io/v1/users/"

// server speaks for an API server with OpenShift's users, over TLS. A stand-in by CRD cannot: its names are DNS names,
// while those of OpenShift are any path segment.
type server struct {
	*httptest.Server
	asked  []string
	answer http.HandlerFunc
}

func newServer(t *testing.T, answer http.HandlerFunc) *server {
	s := &server{answer: answer}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked = append(s.asked, r.URL.EscapedPath())
		w.Header().Set("Content-Type", "application/json")
		s.answer(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that refuse the certificate
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) client(t *testing.T, config Config) *Client {
	t.Helper()
	c := rest.TLSClientConfig{CAData: pemOf(s.Certificate())}
	dyn, err := dynamic.NewForConfig(&rest.Config{Host: s.URL, TLSClientConfig: c})
	require.NoError(t, err)
	client, err := New(config, dyn)
	require.NoError(t, err)
	return client
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func users200(edit func(user map[string]any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, prefix)
		user := map[string]any{
			"apiVersion": "user.openshift.io/v1", "kind": "User",
			"metadata": map[string]any{"name": name, "uid": "uid of " + name},
			"fullName": "Full Name", "identities": []any{"ldap:" + name}, "groups": nil,
		}
		edit(user)
		_ = json.NewEncoder(w).Encode(user)
	}
}

func asIs(map[string]any) {}

func status(code int32, reason metav1.StatusReason, edit func(*metav1.Status)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s := metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
			Details: &metav1.StatusDetails{Group: users.Group, Kind: users.Resource},
		}
		edit(&s)
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(s)
	}
}

func plain(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func TestUserIsFoundByExactName(t *testing.T) {
	s := newServer(t, users200(asIs))
	c := s.client(t, Config{})
	for name, path := range map[string]string{
		"alice": "alice", "Alice@Example.com": "Alice@Example.com", "système": "syst%C3%A8me", "a b": "a%20b", "a?b#c": "a%3Fb%23c",
		"a&b=c": "a&b=c", "...": "...", "*)(uid=*": "%2A%29%28uid=%2A", "\u202eecila": "%E2%80%AEecila", "a\\b": "a%5Cb", "new\nline": "new%0Aline",
	} {
		t.Run(name, func(t *testing.T) {
			s.asked = nil
			got, err := c.Lookup(t.Context(), name)
			require.NoError(t, err)
			assert.Equal(t, &directory.Person{UID: "uid of " + name, DisplayName: "Full Name"}, got)
			require.Len(t, s.asked, 1)
			assert.Equal(t, prefix+path, strings.NewReplacer("*", "%2A", "(", "%28", ")", "%29").Replace(s.asked[0]))
		})
	}
}

func TestNamesThatNoUserHasAreNotAsked(t *testing.T) {
	s := newServer(t, users200(asIs))
	c := s.client(t, Config{})
	for _, name := range []string{"kube:admin", "system:serviceaccount:a:b", "~", ".", "..", "../groups/admins", "alice/../bob", "a/b", "/", "al%69ce", "%2e%2e"} {
		t.Run(name, func(t *testing.T) { unknown(t, c, name, "no User of OpenShift can have this name") })
	}
	assert.Empty(t, s.asked)
}

func unknown(t *testing.T, c *Client, name, why string) {
	t.Helper()
	person, err := c.Lookup(t.Context(), name)
	require.ErrorIs(t, err, directory.ErrUnknown)
	assert.EqualError(t, err, why)
	assert.Nil(t, person)
}

func TestWhoMayNotLogInIsUnknown(t *testing.T) {
	const noIdentity = "no identity provider stands behind the User, so nobody can log in as it"
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		why    string
	}{
		"absent": {status(404, metav1.StatusReasonNotFound, func(*metav1.Status) {}), "the directory knows no such person"},
		"being deleted": {users200(func(u map[string]any) {
			u["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}), "the User is being deleted"},
		"no identities":    {users200(func(u map[string]any) { u["identities"] = []any{} }), noIdentity},
		"null identities":  {users200(func(u map[string]any) { u["identities"] = nil }), noIdentity},
		"identities unset": {users200(func(u map[string]any) { delete(u, "identities") }), noIdentity},
	} {
		t.Run(name, func(t *testing.T) { unknown(t, newServer(t, test.answer).client(t, Config{}), "alice", test.why) })
	}
}

func TestIdentitiesMayBeLeftOut(t *testing.T) {
	s := newServer(t, users200(func(u map[string]any) { delete(u, "identities"); delete(u, "fullName") }))
	got, err := s.client(t, Config{AllowWithoutIdentities: true}).Lookup(t.Context(), "alice")
	require.NoError(t, err)
	assert.Equal(t, &directory.Person{UID: "uid of alice"}, got)
}

func TestS16_EverythingElseIsNoAnswer(t *testing.T) {
	const notThat = "something else than the User"
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		why    string
		after  time.Duration
	}{
		"API missing": {plain(404, "404 page not found\n"), "has no user.openshift.io/v1", mend},
		"forbidden":   {status(403, metav1.StatusReasonForbidden, func(*metav1.Status) {}), "directory-openshift", mend},
		"credentials": {status(401, metav1.StatusReasonUnauthorized, func(*metav1.Status) {}), "directory-openshift", mend},
		"busy":        {status(429, metav1.StatusReasonTooManyRequests, func(s *metav1.Status) { s.Details.RetryAfterSeconds = 7 }), "too busy", 7 * time.Second},
		"5xx":         {status(500, metav1.StatusReasonInternalError, func(s *metav1.Status) { s.Message = "etcd is away" }), "etcd is away", 0},
		"5xx page":    {plain(502, "<html>bad gateway</html>"), "did not say whether the User exists", 0},
		"garbage":     {plain(200, "\x00\x01garbage"), "did not say whether the User exists", 0},
		"empty":       {plain(200, ""), "did not say whether the User exists", 0},
		"cut off":     {plain(200, `{"apiVersion":"user.openshift.io/v1","kind":"User","metadata":{"na`), "did not say whether the User exists", 0},
		"another":     {users200(func(u map[string]any) { u["metadata"].(map[string]any)["name"] = "bob" }), notThat, 0},
		"nameless":    {users200(func(u map[string]any) { delete(u, "metadata") }), notThat, 0},
		"shape":       {users200(func(u map[string]any) { u["identities"] = "ldap:alice" }), notThat, 0},
		"other shape": {users200(func(u map[string]any) { u["fullName"] = 17 }), notThat, 0},
		"a list": {users200(func(u map[string]any) {
			clear(u)
			u["apiVersion"], u["kind"], u["items"] = "user.openshift.io/v1", "UserList", []any{}
		}), notThat, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, test.answer)
			noAnswer(t.Context(), t, s.client(t, Config{}), test.why, test.after, s.URL)
		})
	}
}

func noAnswer(ctx context.Context, t *testing.T, c *Client, why string, after time.Duration, secret string) {
	t.Helper()
	person, err := c.Lookup(ctx, "alice")
	require.Error(t, err)
	require.NotErrorIs(t, err, directory.ErrUnknown)
	assert.ErrorContains(t, err, why)
	assert.NotContains(t, err.Error(), secret)
	assert.Nil(t, person)
	var u *directory.UnavailableError
	if errors.As(err, &u) {
		assert.Equal(t, after, u.RetryAfter)
	} else {
		assert.Zero(t, after)
	}
}

func TestSlowAnswerIsNone(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	s := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
	})
	noAnswer(ctx, t, s.client(t, Config{}), "did not say", 0, s.URL)
}

func TestNobodyIsKnownByAStrangersCertificate(t *testing.T) {
	s := newServer(t, users200(asIs))
	dyn, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	require.NoError(t, err)
	c, err := New(Config{}, dyn)
	require.NoError(t, err)
	noAnswer(t.Context(), t, c, "certificate", 0, s.URL)
	assert.Empty(t, s.asked)
}

func TestUnreachableServerIsNoAnswer(t *testing.T) {
	s := newServer(t, users200(asIs))
	c := s.client(t, Config{})
	s.Close()
	noAnswer(t.Context(), t, c, "refused", 0, "127.0.0.1")
}

func TestClientIsNeeded(t *testing.T) {
	_, err := New(Config{}, nil)
	assert.ErrorContains(t, err, "no client")
}
