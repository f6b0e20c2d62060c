package issuer

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/AlaudaDevops/countersign/test/env/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// running is an issuer that serves, and a client that trusts it.
type running struct {
	*Issuer
	client *http.Client
}

func start(t *testing.T) running {
	t.Helper()
	keys, err := OpenKeys(filepath.Join(t.TempDir(), "keys.pem"))
	require.NoError(t, err)
	ca, err := pki.NewCA("test")
	require.NoError(t, err)
	pair, err := ca.IssueServer("127.0.0.1")
	require.NoError(t, err)
	cert, err := pair.TLS()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	issuer := New("https://"+listener.Addr().String(), keys, clocktesting.NewFakePassiveClock(now))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- issuer.Serve(ctx, listener, cert) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	t.Cleanup(transport.CloseIdleConnections)
	return running{Issuer: issuer, client: &http.Client{Transport: transport}}
}

func (r running) get(t *testing.T, url string, into any) {
	t.Helper()
	response, err := r.client.Get(url)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.NewDecoder(response.Body).Decode(into))
}

// verify goes the way of a relying party: discovery, key set, signature, then the claims.
func (r running) verify(t *testing.T, token string, options ...jwt.ParserOption) (jwt.MapClaims, error) {
	t.Helper()
	var doc discovery
	r.get(t, r.URL()+discoveryPath, &doc)
	require.Equal(t, r.URL(), doc.Issuer)
	var set struct{ Keys []jwk }
	r.get(t, doc.KeysURL, &set)

	claims := jwt.MapClaims{}
	options = append(options, jwt.WithValidMethods(doc.Algorithms), jwt.WithTimeFunc(func() time.Time { return now }))
	_, err := jwt.ParseWithClaims(token, claims, func(parsed *jwt.Token) (any, error) {
		for _, one := range set.Keys {
			if one.KeyID == parsed.Header["kid"] {
				return one.rsa(t), nil
			}
		}
		return nil, fmt.Errorf("unknown key %v", parsed.Header["kid"])
	}, options...)
	return claims, err
}

func (k jwk) rsa(t *testing.T) *rsa.PublicKey {
	t.Helper()
	modulus, err := base64.RawURLEncoding.DecodeString(k.Modulus)
	require.NoError(t, err)
	exponent, err := base64.RawURLEncoding.DecodeString(k.Exponent)
	require.NoError(t, err)
	return &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: int(new(big.Int).SetBytes(exponent).Int64())}
}

func TestMint(t *testing.T) {
	issuer := start(t)
	person := Claims{Subject: "1", Email: "alice@example.com", Name: "Alice", Groups: []string{"owners"}, Audience: []string{"countersign"}}
	cases := map[string]struct {
		change  func(*Claims)
		wantErr error
		want    map[string]any
	}{
		"all claims": {
			want: map[string]any{
				"iss": issuer.URL(), "sub": "1", "email": "alice@example.com", "email_verified": true, "name": "Alice",
				"groups": []any{"owners"}, "aud": []any{"countersign"},
				"iat": float64(now.Unix()), "nbf": float64(now.Unix()), "exp": float64(now.Add(DefaultTTL).Unix()),
			},
		},
		"own lifetime": {
			change: func(c *Claims) { c.TTL = time.Minute },
			want:   map[string]any{"exp": float64(now.Add(time.Minute).Unix())},
		},
		"expired": {
			change:  func(c *Claims) { c.TTL = -time.Minute },
			wantErr: jwt.ErrTokenExpired,
		},
		"not yet valid": {
			change:  func(c *Claims) { c.Override = map[string]any{"nbf": now.Add(time.Hour).Unix()} },
			wantErr: jwt.ErrTokenNotValidYet,
		},
		"an overridden and a removed claim": {
			change: func(c *Claims) { c.Override = map[string]any{"email_verified": false, "groups": nil} },
			want:   map[string]any{"email_verified": false, "groups": nil},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claims := person
			if tc.change != nil {
				tc.change(&claims)
			}
			token, err := issuer.Mint(claims)
			require.NoError(t, err)
			got, err := issuer.verify(t, token)
			require.ErrorIs(t, err, tc.wantErr)
			for claim, want := range tc.want {
				assert.Equal(t, want, got[claim], claim)
			}
			assert.NotEmpty(t, got["jti"])
		})
	}
}

func TestMintRefusesNoAudience(t *testing.T) {
	_, err := start(t).Mint(Claims{Subject: "1"})
	assert.ErrorContains(t, err, "needs an audience")
}

func TestMintGivesEachTokenItsOwnID(t *testing.T) {
	issuer := start(t)
	claims := Claims{Subject: "1", Audience: []string{"countersign"}}
	ids := map[any]bool{}
	for range 3 {
		token, err := issuer.Mint(claims)
		require.NoError(t, err)
		got, err := issuer.verify(t, token)
		require.NoError(t, err)
		ids[got["jti"]] = true
	}
	assert.Len(t, ids, 3)
}

func TestRotate(t *testing.T) {
	issuer := start(t)
	claims := Claims{Subject: "1", Audience: []string{"countersign"}}
	first, err := issuer.Mint(claims)
	require.NoError(t, err)

	require.NoError(t, issuer.Rotate(1))
	second, err := issuer.Mint(claims)
	require.NoError(t, err)
	_, err = issuer.verify(t, first)
	assert.NoError(t, err, "a kept key still verifies")
	_, err = issuer.verify(t, second)
	assert.NoError(t, err)

	require.NoError(t, issuer.Rotate(1))
	_, err = issuer.verify(t, first)
	assert.Error(t, err, "only one earlier key is kept")
	_, err = issuer.verify(t, second)
	assert.NoError(t, err)

	require.NoError(t, issuer.Rotate(0))
	_, err = issuer.verify(t, second)
	assert.Error(t, err)
}

func TestKeysAreSharedThroughTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.pem")
	one, err := OpenKeys(path)
	require.NoError(t, err)
	other, err := OpenKeys(path)
	require.NoError(t, err)
	require.NoError(t, other.Rotate(1))

	fromOne, err := one.load()
	require.NoError(t, err)
	fromOther, err := other.load()
	require.NoError(t, err)
	require.Len(t, fromOne, 2)
	assert.Equal(t, fromOther[0].id, fromOne[0].id)

	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestOpenKeysRefusesGarbage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.pem")
	require.NoError(t, os.WriteFile(path, []byte("nothing"), 0o600))
	_, err := OpenKeys(path)
	assert.ErrorContains(t, err, "holds no key")
}
