package ldap

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	ldapv3 "github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
	"github.com/AlaudaDevops/countersign/test/env/pki"
	"github.com/AlaudaDevops/countersign/test/env/slapd"
)

// listener serves raw connections over TLS, and keeps what it is told inside and outside of it.
type listener struct {
	address         string
	inside, outside atomic.Int64
}

// startTLSDone agrees to begin TLS (RFC 4511 section 4.14.2).
var startTLSDone = message(1, element(0x78, "\x0a\x01\x00", "\x04\x00", "\x04\x00"))

func listenTLS(t *testing.T, pair pki.KeyPair, startTLS bool) *listener {
	t.Helper()
	certificate, err := pair.TLS()
	require.NoError(t, err)
	l := &listener{}
	l.address = serveRaw(t, func(c net.Conn) {
		if startTLS {
			n, _ := c.Read(make([]byte, 4096))
			l.outside.Add(int64(n))
			_, _ = io.WriteString(c, startTLSDone)
		}
		secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}})
		n, _ := secure.Read(make([]byte, 4096))
		l.inside.Add(int64(n))
	})
	return l
}

// startTLSRequest is how long the request to begin TLS is, which is all that may be said in the open.
var startTLSRequest = int64(len(message(1, element(0x77, element(0x80, "1.3.6.1.4.1.1466.20037")))))

func TestS16_OnlyAServerThatIsTrustedIsToldThePassword(t *testing.T) {
	ca, err := pki.NewCA("ours")
	require.NoError(t, err)
	other, err := pki.NewCA("another")
	require.NoError(t, err)
	issued := func(issue func(...string) (pki.KeyPair, error), name string) pki.KeyPair {
		pair, err := issue(name)
		require.NoError(t, err)
		return pair
	}
	for name, test := range map[string]struct {
		pair   pki.KeyPair
		change func(*Config)
		want   string // empty where it is trusted
	}{
		"trusted":                 {issued(ca.IssueServer, "127.0.0.1"), func(*Config) {}, ""},
		"wrong CA":                {issued(other.IssueServer, "127.0.0.1"), func(*Config) {}, "unknown authority"},
		"the host's CAs":          {issued(ca.IssueServer, "127.0.0.1"), func(c *Config) { c.CAFile = "" }, "unknown authority"},
		"wrong host":              {issued(ca.IssueServer, "127.0.0.2"), func(*Config) {}, "not 127.0.0.1"},
		"another name, expected":  {issued(ca.IssueServer, "ldap.example.org"), func(c *Config) { c.ServerName = "ldap.example.org" }, ""},
		"another name than set":   {issued(ca.IssueServer, "127.0.0.1"), func(c *Config) { c.ServerName = "ldap.example.org" }, "ldap.example.org"},
		"expired":                 {issued(ca.IssueExpiredServer, "127.0.0.1"), func(*Config) {}, "expired"},
		"expired, of another too": {issued(other.IssueExpiredServer, "127.0.0.1"), func(*Config) {}, "failed to verify"},
	} {
		for _, startTLS := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", ldaps", true: ", StartTLS"}[startTLS], func(t *testing.T) {
				l := listenTLS(t, test.pair, startTLS)
				c := Config{
					URL: l.address, StartTLS: startTLS, CAFile: secretFile(t, string(ca.CertPEM())), BaseDN: "dc=x", UserAttribute: "uid",
					BindDN: "cn=reader,dc=x", PasswordFile: secretFile(t, rawPassword),
				}
				if !startTLS {
					c.URL = strings.Replace(c.URL, "ldap://", "ldaps://", 1)
				}
				test.change(&c)
				_, err := newClient(t, c).Lookup(t.Context(), "jane")
				require.NotErrorIs(t, err, directory.ErrUnknown)
				if startTLS {
					assert.Equal(t, startTLSRequest, l.outside.Load(), "only the wish to begin TLS is said in the open")
				}
				if test.want == "" {
					assert.NotContains(t, err.Error(), "trusted connection")
					assert.Positive(t, l.inside.Load())
					return
				}
				assertNoAnswer(t, err, "there is no trusted connection to the directory")
				assert.ErrorContains(t, err, test.want)
				assert.Zero(t, l.inside.Load())
			})
		}
	}
}

// A password follows no sign that the server puts up in the open: an answer that comes before TLS, or with its begin.
func TestS16_NothingIsBelievedThatWasSaidBeforeTLS(t *testing.T) {
	forged := bindResult(0, "") + message(2, found("uid", "jane")) + message(2, searchDone(0, ""))
	for name, text := range map[string]string{
		"instead of TLS":      bindResult(0, ""),
		"with TLS":            startTLSDone + forged,
		"plaintext after TLS": startTLSDone + strings.ReplaceAll(forged, "\x02\x01\x01", "\x02\x01\x02"),
	} {
		t.Run(name, func(t *testing.T) {
			person, err := newClient(t, Config{
				URL: answering(t, text), StartTLS: true, CAFile: shared.CAFile, BaseDN: "dc=x", UserAttribute: "uid",
			}).Lookup(t.Context(), "jane")
			assert.Nil(t, person)
			require.Error(t, err)
			require.NotErrorIs(t, err, directory.ErrUnknown)
		})
	}
}

// stranger is a server to which others refer, and must not be reached.
func stranger(t *testing.T) (address string, reached *atomic.Int32) {
	t.Helper()
	reached = &atomic.Int32{}
	return serveRaw(t, func(c net.Conn) {
		reached.Add(1)
		converse(c, []string{bindResult(0, ""), message(2, found("uid", "jane")) + message(2, searchDone(0, ""))})
	}), reached
}

func TestS16_ReferralsAreNotFollowed(t *testing.T) {
	address, reached := stranger(t)
	referral := "\x0a\x01\x0a\x04\x00\x04\x00" + element(0xa3, element(0x04, address+"/dc=x"))
	for name, test := range map[string]struct {
		answers []string
		want    string
	}{
		"of the login":  {[]string{message(1, element(0x61, referral))}, "refers to another server"},
		"of the search": {[]string{bindResult(0, ""), message(2, element(0x65, referral))}, "refers to another server"},
		"after a person": {
			[]string{bindResult(0, ""), message(2, found("uid", "jane")) + message(2, element(0x65, referral))}, "refers to another server",
		},
		"of a part, where nobody else is": {
			[]string{bindResult(0, ""), message(2, element(0x73, element(0x04, address+"/dc=x"))) + message(2, searchDone(0, "")), message(3, searchDone(0, ""))},
			"shows nobody at all",
		},
	} {
		t.Run(name, func(t *testing.T) {
			person, err := rawClient(t, answering(t, test.answers...)).Lookup(t.Context(), "jane")
			assert.Nil(t, person)
			assertMend(t, err, test.want)
		})
	}
	assert.Zero(t, reached.Load())
}

func TestS16_ReferralsOfSlapdAreNotFollowed(t *testing.T) {
	address, reached := stranger(t)
	server := startServer(t, janeAmongOthers()+strings.Join([]string{"dn: ou=elsewhere," + slapd.BaseDN, "objectClass: referral",
		"objectClass: extensibleObject", "ou: elsewhere", "ref: " + address + "/" + slapd.PeopleDN, "\n"}, "\n"))
	_, err := newClient(t, configFor(server)).Lookup(t.Context(), "jane")
	require.NoError(t, err, "beside a referral")
	_, err = newClient(t, configFor(server)).Lookup(t.Context(), "nobody")
	require.Equal(t, source.ErrAbsent, err, "who is elsewhere is not below the base")

	c := configFor(server)
	c.BaseDN = "ou=elsewhere," + slapd.BaseDN
	_, err = newClient(t, c).Lookup(t.Context(), "jane")
	assertMend(t, err, "the directory refers to another server ("+ldapv3.LDAPResultCodeMap[ldapv3.LDAPResultReferral])
	assert.Zero(t, reached.Load())
}
