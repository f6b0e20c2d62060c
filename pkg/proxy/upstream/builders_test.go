package upstream

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/login"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// secrets is a namespace's Secrets; it counts how often they are read.
type secrets struct {
	mu    sync.Mutex
	held  map[string]*corev1.Secret
	reads int
	err   error
}

func (s *secrets) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return nil, s.err
	}
	if secret, ok := s.held[namespace+"/"+name]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func (s *secrets) set(name string, kind corev1.SecretType, data map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]*corev1.Secret{}
	}
	secret := &corev1.Secret{Type: kind, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	s.held["prod/"+name] = secret
}

func (s *secrets) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *secrets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

type fixture struct {
	clock   *clocktesting.FakeClock
	secrets *secrets
	pool    *Pool
}

func newFixture(change ...func(*Options)) *fixture {
	options := DefaultOptions()
	for _, c := range change {
		c(&options)
	}
	f := &fixture{clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), secrets: &secrets{}}
	f.pool = NewPool(f.clock, f.secrets, options)
	return f
}

func connector(class, address string, change ...func(*connectorsv1alpha1.ConnectorSpec)) *Connector {
	c := &Connector{Namespace: "prod", Name: "tool", UID: "uid", Generation: 1,
		Spec: &connectorsv1alpha1.ConnectorSpec{ConnectorClassName: class, Address: address}}
	for _, ch := range change {
		ch(c.Spec)
	}
	return c
}

func withLogin(name string) func(*connectorsv1alpha1.ConnectorSpec) {
	return func(s *connectorsv1alpha1.ConnectorSpec) {
		s.Auth = &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: name}}
	}
}

func withCA(name string) func(*connectorsv1alpha1.ConnectorSpec) {
	return func(s *connectorsv1alpha1.ConnectorSpec) {
		s.CACertSecretRef = &connectorsv1alpha1.SecretReference{Name: name}
	}
}

func withRealms(json string) func(*connectorsv1alpha1.ConnectorSpec) {
	return func(s *connectorsv1alpha1.ConnectorSpec) {
		s.Params = append(s.Params, connectorsv1alpha1.ConnectorParam{Name: connectorsv1alpha1.ParamTokenRealms, Value: &apiextensionsv1.JSON{Raw: []byte(json)}})
	}
}

func caOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func operations(t testing.TB, class operation.Class, method, path string) []operation.Operation {
	p, err := operation.Parse(path)
	require.NoError(t, err)
	return []operation.Operation{{Class: class, Method: method, Path: p}}
}

// do sends one request through a tool.
func do(t testing.TB, tool *Tool, class operation.Class, method, path string) (*http.Response, error) {
	base, ok := tool.Target("")
	require.True(t, ok)
	req, err := http.NewRequestWithContext(t.Context(), method, base.String()+path, nil)
	require.NoError(t, err)
	res, err := tool.Trip("", operations(t, class, method, path)).RoundTrip(req)
	if err == nil {
		t.Cleanup(func() { _ = res.Body.Close() })
	}
	return res, err
}

// registry is one with a token service: it takes only tokens that were made for the scopes the request needs.
type registry struct {
	mu     sync.Mutex
	realm  string
	issued map[string]string // token to scope
	serial int
	logins []string // "user:password scope" as the token service saw them
	pings  int
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case req.URL.Path == "/token":
		user, password, _ := req.BasicAuth()
		scope := req.URL.Query()["scope"]
		r.logins = append(r.logins, fmt.Sprintf("%s:%s %v", user, password, scope))
		r.serial++
		token := fmt.Sprintf("token-%d", r.serial)
		r.issued[token] = fmt.Sprint(scope)
		_, _ = fmt.Fprintf(w, `{"token": %q, "expires_in": 300}`, token)
	case r.issued[bearer(req)] == "":
		if req.URL.Path == "/v2/" {
			r.pings++
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="reg"`, r.realm))
		w.WriteHeader(http.StatusUnauthorized)
	default:
		_, _ = fmt.Fprint(w, r.issued[bearer(req)])
	}
}

func bearer(req *http.Request) string {
	const scheme = "Bearer "
	if v := req.Header.Get("Authorization"); len(v) > len(scheme) {
		return v[len(scheme):]
	}
	return ""
}

func startRegistry(t testing.TB) (*registry, *httptest.Server) {
	r := &registry{issued: map[string]string{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.realm = s.URL + "/token"
	return r, s
}

// headersOf is what a credential sets.
func headersOf(c *login.Credential) http.Header {
	h := http.Header{}
	c.Apply(h)
	return h
}
