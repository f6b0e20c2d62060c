package pki

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	require.NotNil(t, block)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert
}

func TestIssueServer(t *testing.T) {
	ca, err := NewCA("test")
	require.NoError(t, err)
	other, err := NewCA("test")
	require.NoError(t, err)
	pair, err := ca.IssueServer("hook.prod.svc", "127.0.0.1")
	require.NoError(t, err)
	cert := parse(t, pair.CertPEM)

	cases := map[string]struct {
		roots   *x509.CertPool
		name    string
		wantErr bool
	}{
		"a DNS name":                         {roots: ca.Pool(), name: "hook.prod.svc"},
		"an IP address":                      {roots: ca.Pool(), name: "127.0.0.1"},
		"a name it was not issued for":       {roots: ca.Pool(), name: "hook.dev.svc", wantErr: true},
		"another authority of the same name": {roots: other.Pool(), name: "hook.prod.svc", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := cert.Verify(x509.VerifyOptions{Roots: tc.roots, DNSName: tc.name})
			assert.Equal(t, tc.wantErr, err != nil, "%v", err)
		})
	}

	expired, err := ca.IssueExpiredServer("hook.prod.svc")
	require.NoError(t, err)
	_, err = parse(t, expired.CertPEM).Verify(x509.VerifyOptions{Roots: ca.Pool(), DNSName: "hook.prod.svc"})
	require.ErrorContains(t, err, "expired")

	_, err = ca.IssueServer()
	assert.ErrorContains(t, err, "needs a name")
}

func TestIssueClient(t *testing.T) {
	ca, err := NewCA("test")
	require.NoError(t, err)
	pair, err := ca.IssueClient("alice", "owners", "devs")
	require.NoError(t, err)
	cert := parse(t, pair.CertPEM)

	assert.Equal(t, "alice", cert.Subject.CommonName)
	assert.ElementsMatch(t, []string{"owners", "devs"}, cert.Subject.Organization)
	_, err = cert.Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	assert.NoError(t, err)
	_, err = cert.Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	assert.Error(t, err, "a client certificate must not serve")
}

func TestLoadOrCreate(t *testing.T) {
	dir := t.TempDir()
	created, err := LoadOrCreate(dir, "ca")
	require.NoError(t, err)
	loaded, err := LoadOrCreate(dir, "ca")
	require.NoError(t, err)
	assert.Equal(t, created.CertPEM(), loaded.CertPEM())

	pair, err := loaded.IssueServer("localhost")
	require.NoError(t, err)
	_, err = parse(t, pair.CertPEM).Verify(x509.VerifyOptions{Roots: created.Pool()})
	assert.NoError(t, err)

	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.Remove(filepath.Join(dir, "ca.key")))
	_, err = LoadOrCreate(dir, "ca")
	assert.ErrorContains(t, err, "delete both of its files")
}

func TestKeyPairHidesItsKey(t *testing.T) {
	ca, err := NewCA("test")
	require.NoError(t, err)
	for _, format := range []string{"%s", "%v", "%+v", "%#v"} {
		assert.NotContains(t, fmt.Sprintf(format, ca.pair), "PRIVATE")
	}
}
