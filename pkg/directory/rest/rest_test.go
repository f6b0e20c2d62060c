package rest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
	"github.com/AlaudaDevops/countersign/test/env/pki"
	"github.com/AlaudaDevops/countersign/test/env/resttest"
)

const clientSecret = "s3cret+/%"

// world is a service with a token endpoint at /token.
type world struct {
	address string
	tokens  *resttest.Tokens
	clock   *testingclock.FakePassiveClock
	login   *ClientCredentials
	service *Service
}

func newWorld(t *testing.T, handler http.Handler) *world {
	t.Helper()
	w := &world{
		tokens: &resttest.Tokens{ClientID: "the client", Secret: clientSecret, Lifetime: 300},
		clock:  testingclock.NewFakePassiveClock(time.Now()),
	}
	mux := http.NewServeMux()
	mux.Handle("/token", w.tokens)
	mux.Handle("/", handler)
	var caFile string
	w.address, caFile = resttest.Serve(t, mux)
	client, err := NewHTTP(caFile)
	require.NoError(t, err)
	w.login = NewClientCredentials(ClientCredentials{
		HTTP: client, ClientID: "the client", SecretFile: resttest.File(t, clientSecret+"\n"), Scopes: []string{"read", "more"}, Clock: w.clock,
		Endpoint: func(context.Context) (string, error) { return w.address + "/token", nil },
	})
	w.service = &Service{HTTP: client, Login: w.login, Accept: "application/json", Clock: w.clock}
	return w
}

func (w *world) get(ctx context.Context, path string) (string, error) {
	var text string
	err := w.service.Get(ctx, w.address+path, &text)
	return text, err
}

// guarded answers whoever has a valid token.
func guarded(t *testing.T) *world {
	t.Helper()
	var w *world
	w = newWorld(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if w.tokens.Allow(out, r) {
			_, _ = io.WriteString(out, `"hello"`)
		}
	}))
	return w
}

// saying answers everybody with the same.
func saying(t *testing.T, status int, header http.Header, body string) *world {
	t.Helper()
	return newWorld(t, http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			out.Header()[name] = values
		}
		out.WriteHeader(status)
		_, _ = io.WriteString(out, body)
	}))
}

func TestTokensAreKeptUntilShortlyBeforeTheirEnd(t *testing.T) {
	for name, test := range map[string]struct{ lifetime, kept, gone int }{
		"long":        {300, 265, 271},
		"short":       {10, 7, 9},
		"unspecified": {0, 59, 61},
	} {
		t.Run(name, func(t *testing.T) {
			w := guarded(t)
			w.tokens.Lifetime = test.lifetime
			begin := w.clock.Now()
			for _, step := range []struct{ after, issued int }{{0, 1}, {test.kept, 1}, {test.gone, 2}} {
				w.clock.SetTime(begin.Add(time.Duration(step.after) * time.Second))
				text, err := w.get(t.Context(), "/")
				require.NoError(t, err)
				assert.Equal(t, "hello", text)
				assert.Equal(t, step.issued, w.tokens.Issued(), "after %d s", step.after)
			}
			assert.Equal(t, []string{"read", "more"}, w.tokens.Scopes())
		})
	}
}

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	w := guarded(t)
	for want := 1; want < 4; want++ {
		_, err := w.get(t.Context(), "/")
		require.NoError(t, err)
		assert.Equal(t, want, w.tokens.Issued())
		w.tokens.Revoke()
	}

	asked := 0
	never := newWorld(t, http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		asked++
		out.WriteHeader(http.StatusUnauthorized)
	}))
	never.service.Hints = map[int]string{http.StatusUnauthorized: "do this"}
	_, err := never.get(t.Context(), "/")
	assertUnavailable(t, err, "the directory answered 401 Unauthorized: do this", source.MendRetry)
	assert.Equal(t, 2, asked)
}

func TestManyAtOnceFetchOneToken(t *testing.T) {
	w := guarded(t)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := w.get(t.Context(), "/")
			assert.NoError(t, err)
		})
	}
	group.Wait()
	assert.Equal(t, 1, w.tokens.Issued())
}

func TestWaitingForATokenObeysTheContext(t *testing.T) {
	w := guarded(t)
	require.NoError(t, w.login.enter(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.get(ctx, "/")
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, w.login.Refused(ctx, "any"))
	w.login.leave()
}

func TestFileTokens(t *testing.T) {
	path := resttest.File(t, "abc\n")
	token, err := File(path).Token(t.Context())
	require.NoError(t, err)
	assert.Equal(t, source.Secret("abc"), token)
	assert.False(t, File(path).Refused(t.Context(), token))
	_, err = File(path + "-absent").Token(t.Context())
	assertUnavailable(t, err, "bearerTokenFile: a secret cannot be read", source.MendRetry)
}

func assertUnavailable(t *testing.T, err error, want string, retry time.Duration) {
	t.Helper()
	var unavailable *directory.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	assert.Contains(t, unavailable.Why, want)
	assert.Equal(t, retry, unavailable.RetryAfter)
	assert.NotContains(t, unavailable.Why, clientSecret)
}

func TestTokenEndpointsThatDoNotWork(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
		retry  time.Duration
	}{
		"wrong secret":       {401, `{"error":"invalid_client","error_description":"` + clientSecret + `"}`, "answered 401 Unauthorized (invalid_client): correct clientID", source.MendRetry},
		"wrong scope":        {400, `{"error":"invalid_scope"}`, "answered 400 Bad Request (invalid_scope)", source.MendRetry},
		"secret as the code": {400, `{"error":"` + clientSecret + `"}`, "answered 400 Bad Request: correct", source.MendRetry},
		"error with 200":     {200, `{"error":"invalid_grant"}`, "answered 200 OK (invalid_grant)", source.MendRetry},
		"too many":           {429, ``, "answered 429 Too Many Requests", 7 * time.Second},
		"down":               {503, clientSecret, "answered 503 Service Unavailable", 7 * time.Second},
		"no JSON":            {200, `<` + clientSecret, "is no access token", 0},
		"no token":           {200, `{}`, "is no access token", 0},
		"another type":       {200, `{"access_token":"` + clientSecret + `","token_type":"mac"}`, "another type than Bearer", source.MendRetry},
		"redirect":           {302, ``, "redirects to another host", source.MendRetry},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{"Content-Type": {"application/json"}, "Retry-After": {"7"}, "Location": {"https://elsewhere.example.org/"}}
			w := saying(t, test.status, header, test.body)
			w.login.Endpoint = func(context.Context) (string, error) { return w.address + "/other", nil }
			_, err := w.get(t.Context(), "/")
			assertUnavailable(t, err, test.want, test.retry)
		})
	}
	w := guarded(t)
	w.login.Endpoint = func(context.Context) (string, error) { return "https://127.0.0.1:1/token", nil }
	_, err := w.get(t.Context(), "/")
	assertUnavailable(t, err, "the directory cannot be reached", 0)
	w.login.SecretFile += "-absent"
	_, err = w.get(t.Context(), "/")
	assertUnavailable(t, err, "clientSecretFile: a secret cannot be read", source.MendRetry)
}

func TestStatusCodes(t *testing.T) {
	future := func(c *testingclock.FakePassiveClock) string {
		return c.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
	}
	for name, test := range map[string]struct {
		status int
		after  string
		want   string
		retry  time.Duration
	}{
		"hinted":                   {403, "", "the directory answered 403 Forbidden (detail): do that", source.MendRetry},
		"server error":             {500, "", "the directory answered 500 Internal Server Error (detail)", 0},
		"no content":               {204, "", "the directory answered 204 No Content", 0},
		"unheard of":               {599, "", "the directory answered 599", 0},
		"too many":                 {429, "", "429", source.MendRetry},
		"too many, seconds":        {429, "120", "429", 2 * time.Minute},
		"too many, now":            {429, "0", "429", time.Second},
		"too many, for ever":       {429, "99999999", "429", maxRetryAfter},
		"too many, nonsense":       {429, "soon", "429", source.MendRetry},
		"too many, in the past":    {429, "Sun, 06 Nov 1994 08:49:37 GMT", "429", time.Second},
		"maintenance":              {503, "5", "503", 5 * time.Second},
		"maintenance, until later": {503, "future", "503", 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			w := saying(t, test.status, header, "body with "+clientSecret)
			w.clock.SetTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
			if test.after == "future" {
				test.after = future(w.clock)
			}
			header.Set("Retry-After", test.after)
			w.service.Hints = map[int]string{403: "do that"}
			w.service.Detail = func([]byte) string { return " (detail)" }
			_, err := w.get(t.Context(), "/")
			var unavailable *directory.UnavailableError
			require.ErrorAs(t, err, &unavailable)
			assert.Equal(t, test.retry, unavailable.RetryAfter)
			assert.Contains(t, unavailable.Why, test.want)
		})
	}
}

func TestGarbageIsNoAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": "", "a page": "<html>", "another type": "5", "two values": `"a" "b"`, "half": `"a`, "no UTF-8": "\"\xff\"",
	} {
		_, err := saying(t, http.StatusOK, nil, body).get(t.Context(), "/")
		require.ErrorContains(t, err, "the directory's answer makes no sense", name)
	}
	_, err := saying(t, http.StatusOK, nil, `"`+strings.Repeat("x", maxAnswer)+`"`).get(t.Context(), "/")
	require.ErrorContains(t, err, "the directory's answer is longer than")
}

func TestRedirectsStayOnTheHost(t *testing.T) {
	reached := false
	other, _ := resttest.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	w := newWorld(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			http.Redirect(out, r, "/there", http.StatusFound)
		case "/there":
			_, _ = io.WriteString(out, `"hello"`)
		case "/away":
			http.Redirect(out, r, other+"/secret-path", http.StatusFound)
		case "/plain":
			http.Redirect(out, r, "http://"+r.Host+"/there", http.StatusFound)
		default:
			http.Redirect(out, r, "/loop", http.StatusTemporaryRedirect)
		}
	}))
	text, err := w.get(t.Context(), "/here")
	require.NoError(t, err)
	assert.Equal(t, "hello", text)
	for _, path := range []string{"/away", "/plain"} {
		_, err = w.get(t.Context(), path)
		assertUnavailable(t, err, "the directory redirects to another host", source.MendRetry)
		assert.NotContains(t, err.Error(), "secret-path")
	}
	_, err = w.get(t.Context(), "/loop")
	assertUnavailable(t, err, "redirects more than 3 times", source.MendRetry)
	assert.False(t, reached)
}

func TestUnreachableServices(t *testing.T) {
	w := guarded(t)
	other, err := pki.NewCA("another")
	require.NoError(t, err)
	wrong, err := NewHTTP(resttest.File(t, string(other.CertPEM())))
	require.NoError(t, err)
	w.service.HTTP, w.service.Login = wrong, nil
	_, err = w.get(t.Context(), "/users?name=jane")
	assertUnavailable(t, err, "the directory cannot be reached: tls: failed to verify certificate", 0)
	assert.NotContains(t, err.Error(), "jane")

	_, err = NewHTTP(resttest.File(t, "nothing"))
	require.ErrorContains(t, err, "holds no certificate")
}

func TestObeysTheContext(t *testing.T) {
	release := make(chan struct{})
	slow := newWorld(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = io.WriteString(out, `"hel`)
			out.(http.Flusher).Flush()
		}
		<-release
	}))
	defer close(release)
	for _, path := range []string{"/none", "/half"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := slow.get(ctx, path)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, path)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	w := guarded(t)
	_, err := w.get(t.Context(), "/")
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s %q", w.login, w.login, w.login, w.login.token, w.login.token), clientSecret)
}

func TestCheckURL(t *testing.T) {
	for address, want := range map[string]string{
		"https://host":          "",
		"https://host:8443/a/b": "",
		"http://host":           "set insecurePlaintext",
		"ftp://host":            "it must be https://",
		"":                      "must be an address",
		"https://":              "must be an address",
		"https://a:b@host":      "must be an address",
		"https://host/?q":       "must be an address",
		"https://host/#f":       "must be an address",
		"https://ho st":         "must be an address",
	} {
		err := CheckURL("url", address, false)
		if want == "" {
			require.NoError(t, err, address)
			continue
		}
		require.ErrorContains(t, err, want, address)
	}
	require.NoError(t, CheckURL("url", "http://host", true))
}

// What one person's entry or name does to the service must not keep it from others.
func TestS16_TroubleWithOneNameIsToldFromAnOutage(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		only   bool
	}{
		"a huge entry":        {200, `"` + strings.Repeat("x", maxAnswer) + `"`, true},
		"an odd entry":        {200, "\"\xff\"", true},
		"a name it dislikes":  {400, "", true},
		"a name too long":     {414, "", true},
		"a header too long":   {431, "", true},
		"wrong credentials":   {401, "", false},
		"no right":            {403, "", false},
		"too many requests":   {429, "", false},
		"the server is away":  {503, "", false},
		"the server is wrong": {500, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := saying(t, test.status, nil, test.body)
			w.service.Hints = map[int]string{400: "do this"}
			_, err := w.get(t.Context(), "/")
			var unavailable *directory.UnavailableError
			require.ErrorAs(t, err, &unavailable)
			assert.Equal(t, test.only, unavailable.OnlyThis)
		})
	}
}
