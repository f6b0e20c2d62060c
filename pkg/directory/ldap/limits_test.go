package ldap

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ldapv3 "github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/test/env/slapd"
)

// refusals are the codes with which a server says that it does not answer now (RFC 4511 section 4.1.9).
var refusals = []byte{
	ldapv3.LDAPResultOperationsError, ldapv3.LDAPResultTimeLimitExceeded, ldapv3.LDAPResultSizeLimitExceeded, ldapv3.LDAPResultAdminLimitExceeded,
	ldapv3.LDAPResultBusy, ldapv3.LDAPResultUnavailable, ldapv3.LDAPResultUnwillingToPerform, ldapv3.LDAPResultLoopDetect, ldapv3.LDAPResultOther,
}

// restrained is a server whose configuration goes on with these lines of slapd.conf(5).
func restrained(t *testing.T, entries string, lines ...string) *slapd.Server {
	t.Helper()
	dir := t.TempDir()
	server, err := slapd.Start(t.Context(), dir, entries)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	require.NoError(t, server.Stop())
	file, err := os.OpenFile(filepath.Join(dir, "slapd.conf"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.NoError(t, server.Restart(t.Context()))
	return server
}

func janeAmongOthers() string {
	var l ldif
	l.add(slapd.PeopleDN, "jane")
	for _, name := range spellings("case", 9) {
		l.add(slapd.PeopleDN, name)
	}
	return l.String()
}

// assertNoAnswer holds for an outage whose sentence says what happened.
func assertNoAnswer(t *testing.T, err error, want string) {
	t.Helper()
	var unavailable *directory.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	require.NotErrorIs(t, err, directory.ErrUnknown)
	assert.Contains(t, unavailable.Why, want)
}

// The server's own limits, and a server that only passes questions on to one that is away.
func TestS16_RestrainedServersGiveNoAnswer(t *testing.T) {
	const away = "dc=away"
	for name, test := range map[string]struct {
		lines             []string
		base, asked, want string
	}{
		"searches are forbidden":   {[]string{"restrict search"}, slapd.BaseDN, "jane", "(Unwilling To Perform, code 53)"},
		"too much to look through": {[]string{"limits * size.unchecked=1"}, slapd.BaseDN, "case", "(Admin Limit Exceeded, code 11)"},
		"too many to show":         {[]string{"limits * size.prtotal=1"}, slapd.BaseDN, "case", "too many entries for one name"},
		"the one behind it is away": {
			[]string{"moduleload back_ldap", "database ldap", "suffix " + away, "uri ldap://127.0.0.1:1"}, away, "jane", "(Unavailable, code 52)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := configFor(restrained(t, janeAmongOthers(), test.lines...))
			c.BaseDN = test.base
			_, err := newClient(t, c).Lookup(t.Context(), test.asked)
			assertNoAnswer(t, err, test.want)
		})
	}
}

// slapd says every code at its own entry (slapo-retcode(5)).
func TestS16_ServersThatDoNotWantToAnswerSayNeitherYesNorNo(t *testing.T) {
	const parent = "ou=codes," + slapd.BaseDN
	lines := []string{"moduleload retcode", "overlay retcode", fmt.Sprintf("retcode-parent %q", parent)}
	for _, code := range refusals {
		lines = append(lines, fmt.Sprintf(`retcode-item "cn=code%d" %d`, code, code))
	}
	server := restrained(t, janeAmongOthers(), lines...)
	for _, code := range refusals {
		t.Run(fmt.Sprint("code ", code), func(t *testing.T) {
			c := configFor(server)
			c.BaseDN = fmt.Sprintf("cn=code%d,%s", code, parent)
			_, err := newClient(t, c).Lookup(t.Context(), "jane")
			assertNoAnswer(t, err, sentenceOf(code))
		})
	}
	_, err := newClient(t, configFor(server)).Lookup(t.Context(), "jane")
	require.NoError(t, err, "elsewhere the server works")
}

func sentenceOf(code byte) string {
	if code == ldapv3.LDAPResultSizeLimitExceeded {
		return "too many entries for one name"
	}
	return fmt.Sprintf("the directory did not do what it was asked for (%s, code %d)", ldapv3.LDAPResultCodeMap[uint16(code)], code)
}
