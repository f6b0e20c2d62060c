package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	ourAudience    = "countersign"
	clusterIssuer  = "https://kubernetes.default.svc.cluster.local"
	peopleAudience = "cli"
)

// epoch is the time of every fake clock at the beginning.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Keys are made once; making one takes longer than a whole test.
var (
	rsaOne = sync.OnceValue(func() *rsa.PrivateKey { return mustRSA(2048) })
	rsaTwo = sync.OnceValue(func() *rsa.PrivateKey { return mustRSA(2048) })
	ecOne  = sync.OnceValue(func() *ecdsa.PrivateKey { return mustEC(elliptic.P256()) })
	ec384  = sync.OnceValue(func() *ecdsa.PrivateKey { return mustEC(elliptic.P384()) })
)

func mustRSA(bits int) *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return k
}

func mustEC(curve elliptic.Curve) *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
}

// published is one entry of a key set.
type published map[string]string

func publish(kid string, private crypto.Signer) published {
	b64 := base64.RawURLEncoding.EncodeToString
	switch k := private.Public().(type) {
	case *rsa.PublicKey:
		return published{"kty": "RSA", "kid": kid, "use": "sig", "n": b64(k.N.Bytes()), "e": b64([]byte{1, 0, 1})}
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		half := (len(point) - 1) / 2
		return published{"kty": "EC", "kid": kid, "crv": k.Params().Name, "x": b64(point[1 : 1+half]), "y": b64(point[1+half:])}
	}
	panic("unknown key")
}

func (p published) with(name, value string) published {
	p[name] = value
	return p
}

// fakeIssuer serves discovery and keys; what it serves can change while it runs.
type fakeIssuer struct {
	*httptest.Server
	mu     sync.Mutex
	keys   any
	status int
	name   string // the issuer that its discovery document names; its URL by default
	reads  atomic.Int32
	// held, if set, is received from before keys are served.
	held chan struct{}
}

func newFakeIssuer(t testing.TB, keys ...published) *fakeIssuer {
	t.Helper()
	f := &fakeIssuer{status: http.StatusOK}
	f.set(keys...)
	mux := http.NewServeMux()
	mux.HandleFunc(discoveryPath, f.discovery)
	mux.HandleFunc(keysPath, f.jwks)
	f.Server = httptest.NewTLSServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeIssuer) set(keys ...published) {
	f.setDocument(map[string]any{"keys": append([]published{}, keys...)})
}

func (f *fakeIssuer) setDocument(document any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = document
}

func (f *fakeIssuer) answer(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

func (f *fakeIssuer) discovery(w http.ResponseWriter, _ *http.Request) {
	name := f.name
	if name == "" {
		name = f.URL
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": f.URL + keysPath})
}

func (f *fakeIssuer) jwks(w http.ResponseWriter, _ *http.Request) {
	f.reads.Add(1)
	if f.held != nil {
		<-f.held
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w.WriteHeader(f.status)
	if text, ok := f.keys.(string); ok {
		_, _ = w.Write([]byte(text))
		return
	}
	_ = json.NewEncoder(w).Encode(f.keys)
}

func (f *fakeIssuer) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}))
}

func (f *fakeIssuer) cluster() Cluster {
	return Cluster{Issuers: []string{clusterIssuer}, Audiences: []string{ourAudience}, Address: f.URL, Client: f.Client()}
}

// mint is a token under construction.
type mint struct {
	method jwt.SigningMethod
	key    any
	header map[string]any
	claims map[string]any
}

// makeServiceAccountToken is a good token of the cluster, bound to a pod.
func makeServiceAccountToken() *mint {
	return &mint{
		method: jwt.SigningMethodRS256, key: rsaOne(), header: map[string]any{"kid": "one"},
		claims: map[string]any{
			"iss": clusterIssuer, "aud": []string{ourAudience}, "sub": "system:serviceaccount:prod:builder", "jti": "jti-1",
			"iat": epoch.Unix(), "nbf": epoch.Unix(), "exp": epoch.Add(time.Hour).Unix(),
			"kubernetes.io": map[string]any{
				"namespace":      "prod",
				"serviceaccount": map[string]any{"name": "builder", "uid": "sa-uid"},
				"pod":            map[string]any{"name": "builder-1", "uid": "pod-uid"},
				"node":           map[string]any{"name": "node-1", "uid": "node-uid"},
			},
		},
	}
}

// makePersonToken is a good token of an issuer of people.
func makePersonToken(issuer string) *mint {
	return &mint{
		method: jwt.SigningMethodRS256, key: rsaOne(), header: map[string]any{"kid": "one"},
		claims: map[string]any{
			"iss": issuer, "aud": peopleAudience, "sub": "42", "jti": "jti-2", "email": "ada@example.com", "email_verified": true,
			"groups": []string{"owners", "dev"}, "iat": epoch.Unix(), "exp": epoch.Add(time.Hour).Unix(),
		},
	}
}

func (m *mint) claim(name string, value any) *mint {
	m.claims[name] = value
	return m
}

func (m *mint) without(name string) *mint {
	delete(m.claims, name)
	return m
}

func (m *mint) head(name string, value any) *mint {
	m.header[name] = value
	return m
}

func (m *mint) signedWith(method jwt.SigningMethod, key any) *mint {
	m.method, m.key = method, key
	return m
}

// bound replaces what the token is bound to.
func (m *mint) bound(kind, name, uid string) *mint {
	bound := map[string]any{"namespace": "prod", "serviceaccount": map[string]any{"name": "builder", "uid": "sa-uid"}}
	if kind != "" {
		bound[kind] = map[string]any{"name": name, "uid": uid}
	}
	return m.claim("kubernetes.io", bound)
}

func (m *mint) sign() string {
	t := jwt.NewWithClaims(m.method, jwt.MapClaims(m.claims))
	for name, value := range m.header {
		t.Header[name] = value
	}
	signed, err := t.SignedString(m.key)
	if err != nil {
		panic(err)
	}
	return signed
}

// bench is a verifier with everything around it that a test turns.
type bench struct {
	*Verifier
	clock   *clocktesting.FakeClock
	cluster *fakeIssuer
	people  *fakeIssuer
}

const peopleMapping = `
  claimMappings:
    username: {claim: email, prefix: ""}
    groups: {claim: groups, prefix: ""}
    uid: {claim: sub}
`

func newBench(t testing.TB) *bench { return newBenchMapping(t, peopleMapping) }

// newBenchMapping takes what follows the issuer in the configuration of people.
func newBenchMapping(t testing.TB, mapping string) *bench {
	t.Helper()
	b := &bench{
		clock:   clocktesting.NewFakeClock(epoch),
		cluster: newFakeIssuer(t, publish("one", rsaOne()), publish("ec", ecOne())),
		people:  newFakeIssuer(t, publish("one", rsaOne())),
	}
	config, err := ParseConfig(configFor(b.people, mapping))
	require.NoError(t, err)
	b.Verifier, err = New(b.cluster.cluster(), config, Options{Clock: b.clock})
	require.NoError(t, err)
	return b
}

func configFor(f *fakeIssuer, mapping string) []byte {
	ca, err := json.Marshal(f.ca())
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [%s]
    certificateAuthority: %s%s`, f.URL, peopleAudience, ca, mapping)
}

// refused authenticates a token that must be refused and returns why.
func refused(t testing.TB, a Authenticator, token string) *Error {
	t.Helper()
	id, err := a.Authenticate(context.Background(), token)
	require.Nil(t, id)
	var e *Error
	require.ErrorAs(t, err, &e)
	if len(token) > 16 {
		require.NotContains(t, e.Detail, token)
	}
	return e
}

func accepted(t testing.TB, a Authenticator, token string) *Identity {
	t.Helper()
	id, err := a.Authenticate(context.Background(), token)
	require.NoError(t, err)
	return id
}
