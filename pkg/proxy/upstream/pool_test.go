package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

func TestCredentials(t *testing.T) {
	tests := map[string]struct {
		kind    corev1.SecretType
		data    map[string]string
		want    map[string][]string
		wantErr string
	}{
		"basic":             {kind: corev1.SecretTypeBasicAuth, data: map[string]string{"username": "robot", "password": "pw\n"}, want: map[string][]string{"Authorization": {"Basic cm9ib3Q6cHc="}}},
		"basic without one": {kind: corev1.SecretTypeBasicAuth, data: map[string]string{"username": "robot"}, wantErr: "key password"},
		"colon in the user": {kind: corev1.SecretTypeBasicAuth, data: map[string]string{"username": "a:b", "password": "pw"}, wantErr: "colon"},
		"token":             {kind: connectorsv1alpha1.SecretTypeBearerToken, data: map[string]string{"token": "abc\r\n"}, want: map[string][]string{"Authorization": {"Bearer abc"}}},
		"no token":          {kind: connectorsv1alpha1.SecretTypeBearerToken, data: map[string]string{"password": "abc"}, wantErr: "key token"},
		"two-line token":    {kind: connectorsv1alpha1.SecretTypeBearerToken, data: map[string]string{"token": "a\nb"}, wantErr: "key token"},
		"headers":           {kind: connectorsv1alpha1.SecretTypeHeaders, data: map[string]string{"private-token": "abc", "X-Org": "1"}, want: map[string][]string{"Private-Token": {"abc"}, "X-Org": {"1"}}},
		"framing header":    {kind: connectorsv1alpha1.SecretTypeHeaders, data: map[string]string{"transfer-encoding": "chunked"}, wantErr: "transfer-encoding"},
		"no header's name":  {kind: connectorsv1alpha1.SecretTypeHeaders, data: map[string]string{"a b": "1"}, wantErr: "a b"},
		"header injection":  {kind: connectorsv1alpha1.SecretTypeHeaders, data: map[string]string{"X-A": "1\r\nX-B: 2"}, wantErr: "X-A"},
		"no headers":        {kind: connectorsv1alpha1.SecretTypeHeaders, wantErr: "no header"},
		"other type":        {kind: corev1.SecretTypeOpaque, data: map[string]string{"token": "abc"}, wantErr: "type"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.secrets.set("login", test.kind, test.data)
			tool, err := f.pool.Tool(t.Context(), connector("any", "http://127.0.0.1", withLogin("login")))
			if test.wantErr != "" {
				assert.ErrorContains(t, err, test.wantErr)
				for _, value := range test.data {
					assert.NotContains(t, err.Error(), "pw"+value, "values stay secret")
				}
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, map[string][]string(headersOf(tool.credential)))
			for _, printed := range []string{fmt.Sprintf("%v", *tool.credential), fmt.Sprintf("%#v", *tool.credential)} {
				assert.Equal(t, "(credential hidden)", printed)
			}
		})
	}
}

func TestTheToolSeesOurCredential(t *testing.T) {
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	defer tool.Close()
	f := newFixture()
	f.secrets.set("login", connectorsv1alpha1.SecretTypeBearerToken, map[string]string{"token": "abc"})
	got, err := f.pool.Tool(t.Context(), connector("any", tool.URL, withLogin("login")))
	require.NoError(t, err)
	res, err := do(t, got, operation.Read, "GET", "/a")
	require.NoError(t, err)
	assert.Equal(t, "Bearer abc", body(t, res))
}

func TestSecretsAreReadAgainInTime(t *testing.T) {
	f := newFixture()
	c := connector("any", "http://127.0.0.1", withLogin("login"))
	f.secrets.set("login", connectorsv1alpha1.SecretTypeBearerToken, map[string]string{"token": "one"})
	tool, err := f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "Bearer one", headersOf(tool.credential).Get("Authorization"))

	f.secrets.set("login", connectorsv1alpha1.SecretTypeBearerToken, map[string]string{"token": "two"})
	f.clock.Step(44 * time.Second)
	again, err := f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	assert.Same(t, tool, again)
	assert.Equal(t, 1, f.secrets.count())

	f.clock.Step(time.Second + time.Millisecond)
	_, err = f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		ahead, err := f.pool.Tool(context.Background(), c)
		return err == nil && headersOf(ahead.credential).Get("Authorization") == "Bearer two"
	}, 5*time.Second, time.Millisecond, "read ahead of the end")

	f.secrets.set("login", connectorsv1alpha1.SecretTypeBearerToken, map[string]string{"token": "three"})
	f.clock.Step(MaxSecretTTL)
	late, err := f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "Bearer three", headersOf(late.credential).Get("Authorization"), "never used beyond its time")
	assert.Same(t, tool.transport, late.transport, "connections are kept")
}

func TestAReadingThatFails(t *testing.T) {
	f := newFixture()
	c := connector("any", "http://127.0.0.1", withLogin("login"))
	_, err := f.pool.Tool(t.Context(), c)
	assert.ErrorContains(t, err, "does not exist")
	assert.Equal(t, "NotReady", Explain(err).Reason)
	_, err = f.pool.Tool(t.Context(), c)
	assert.Error(t, err)
	assert.Equal(t, 1, f.secrets.count(), "a failure is remembered for a moment")

	f.clock.Step(failureTTL)
	f.secrets.set("login", connectorsv1alpha1.SecretTypeBearerToken, map[string]string{"token": "one"})
	_, err = f.pool.Tool(t.Context(), c)
	require.NoError(t, err)

	f.secrets.fail(errors.New("etcd is gone, password=pw"))
	f.clock.Step(MaxSecretTTL)
	_, err = f.pool.Tool(t.Context(), c)
	assert.EqualError(t, err, "a Secret of the connector cannot be read at the moment; try again shortly")
}

func TestAChangedConnectorHasNewConnections(t *testing.T) {
	f := newFixture()
	c := connector("any", "http://127.0.0.1")
	one, err := f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	c.Generation++
	two, err := f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	c.UID = "other"
	three, err := f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	assert.NotSame(t, one.transport, two.transport)
	assert.NotSame(t, two.transport, three.transport)
}

func TestSweep(t *testing.T) {
	f := newFixture()
	c := connector("any", "http://127.0.0.1")
	one, err := f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	f.pool.Sweep(func(string, string) bool { return true })
	again, err := f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	assert.Same(t, one, again)
	f.pool.Sweep(func(namespace, name string) bool { return namespace != "prod" || name != "tool" })
	again, err = f.pool.Tool(t.Context(), c)
	require.NoError(t, err)
	assert.NotSame(t, one, again)
}

func TestConnectorsThatCannotBeUsed(t *testing.T) {
	foreign := func(s *connectorsv1alpha1.ConnectorSpec) {
		withLogin("login")(s)
		s.Auth.SecretRef.Namespace = "other"
	}
	tests := map[string]struct {
		connector *Connector
		want      string
	}{
		"foreign namespace":      {connector("any", "http://127.0.0.1", foreign), "another namespace"},
		"no CA":                  {connector("any", "https://127.0.0.1", withCA("absent")), "does not exist"},
		"CA without certificate": {connector("any", "https://127.0.0.1", withCA("empty")), "no certificate"},
		"CA without key":         {connector("any", "https://127.0.0.1", withCA("keyless")), "ca.crt"},
		"user in the address":    {connector("any", "https://u:p@127.0.0.1"), "no plain http or https URL"},
		"other scheme":           {connector("any", "file:///etc/passwd"), "no plain http or https URL"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.secrets.set("empty", corev1.SecretTypeOpaque, map[string]string{"ca.crt": "x"})
			f.secrets.set("keyless", corev1.SecretTypeOpaque, map[string]string{"ca.pem": "x"})
			_, err := f.pool.Tool(t.Context(), test.connector)
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestTLSToTheTool(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	f := newFixture()
	f.secrets.set("ca", corev1.SecretTypeOpaque, map[string]string{"ca.crt": caOf(server)})

	trusted, err := f.pool.Tool(t.Context(), connector("any", server.URL, withCA("ca")))
	require.NoError(t, err)
	_, err = do(t, trusted, operation.Read, "GET", "/")
	require.NoError(t, err)

	other := connector("any", server.URL)
	other.Name = "other"
	untrusted, err := f.pool.Tool(t.Context(), other)
	require.NoError(t, err)
	_, err = do(t, untrusted, operation.Read, "GET", "/")
	assert.Equal(t, "ToolUnreachable", Explain(err).Reason)
	assert.Contains(t, Explain(err).Detail, "caCertSecretRef")
}

func TestErrorsOfTools(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	tests := map[string]struct {
		address        string
		change         func(*Options)
		reason, detail string
	}{
		"silent":         {silent.URL, func(o *Options) { o.HeaderTimeout = time.Millisecond }, "ToolTimeout", "did not answer in time"},
		"closed":         {closed.URL, func(*Options) {}, "ToolUnreachable", "nothing listens"},
		"denied network": {plain.URL, func(o *Options) { o.DeniedNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, "ToolUnreachable", "must not reach"},
		"no TLS":         {"https" + plain.URL[len("http"):], func(*Options) {}, "ToolUnreachable", "no TLS"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tool, err := newFixture(test.change).pool.Tool(t.Context(), connector("any", test.address))
			require.NoError(t, err)
			_, err = do(t, tool, operation.Read, "GET", "/")
			got := Explain(err)
			assert.Equal(t, test.reason, got.Reason)
			assert.Contains(t, got.Detail, test.detail)
			assert.NotContains(t, got.Detail, "127.0.0.1", "addresses stay inside")
		})
	}
}

func TestUnresolvableNames(t *testing.T) {
	tool, err := newFixture().pool.Tool(t.Context(), connector("any", "http://tool.invalid"))
	require.NoError(t, err)
	_, err = do(t, tool, operation.Read, "GET", "/")
	assert.Equal(t, "ToolUnreachable", Explain(err).Reason)
	assert.NotContains(t, Explain(err).Detail, "tool.invalid")
}

func BenchmarkTool(b *testing.B) {
	f := newFixture()
	c := connector("any", "http://127.0.0.1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.pool.Tool(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
