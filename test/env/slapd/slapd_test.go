package slapd

import (
	"net/url"
	"testing"

	"github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func start(t *testing.T, entries string) *Server {
	t.Helper()
	s, err := Start(t.Context(), t.TempDir(), entries)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Stop()) })
	return s
}

func search(t *testing.T, s *Server, filter string) ([]*ldap.Entry, error) {
	t.Helper()
	connection, err := ldap.DialURL(s.URL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	require.NoError(t, connection.Bind(s.BindDN, s.Password))
	result, err := connection.Search(ldap.NewSearchRequest(s.BaseDN, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, filter, nil, nil))
	require.NoError(t, err)
	return result.Entries, nil
}

func TestServesItsEntriesOverStopAndRestart(t *testing.T) {
	s := start(t, "dn: uid=jane,"+PeopleDN+"\nobjectClass: inetOrgPerson\nuid: jane\ncn: Jane\nsn: Doe\nuserPassword: secret\n")
	found, err := search(t, s, "(uid=jane)")
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, "Jane", found[0].GetAttributeValue("cn"))
	assert.Empty(t, found[0].GetAttributeValue("userPassword"), "the reader may not read passwords")

	require.NoError(t, s.Stop())
	_, err = search(t, s, "(uid=jane)")
	require.Error(t, err, "a stopped server refuses connections")
	require.Error(t, s.Pause())

	require.NoError(t, s.Restart(t.Context()))
	found, err = search(t, s, "(uid=jane)")
	require.NoError(t, err)
	assert.Len(t, found, 1)
	require.Error(t, s.Restart(t.Context()), "it runs already")
}

func TestPausedServerAnswersWhenItIsResumed(t *testing.T) {
	s := start(t, "")
	require.NoError(t, s.Pause())
	assert.True(t, listens(t.Context(), s.URL), "the kernel accepts")
	require.NoError(t, s.Resume())
	_, err := search(t, s, "(uid=nobody)")
	require.NoError(t, err)
	require.NoError(t, s.Pause())
	require.NoError(t, s.Stop(), "a paused server can be stopped")
}

func TestEveryAddressIsOnLoopback(t *testing.T) {
	s := start(t, "")
	for _, address := range []string{s.URL, s.LDAPSURL} {
		parsed, err := url.Parse(address)
		require.NoError(t, err)
		assert.Equal(t, loopback, parsed.Hostname())
	}
}

func TestBadEntriesAreRefusedWithAReason(t *testing.T) {
	_, err := Start(t.Context(), t.TempDir(), "dn: uid=jane,"+PeopleDN+"\nobjectClass: unheardOf\n")
	require.ErrorContains(t, err, "slapadd does not take the entries")
}

func TestMissingPackageIsNamed(t *testing.T) {
	_, err := find("slapd-that-nobody-has")
	require.ErrorContains(t, err, "install the Debian package slapd")
}
