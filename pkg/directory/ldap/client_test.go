package ldap

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
	"github.com/AlaudaDevops/countersign/test/env/pki"
	"github.com/AlaudaDevops/countersign/test/env/slapd"
)

func TestFindsAPerson(t *testing.T) {
	person, err := sharedWith(t, func(*Config) {}).Lookup(t.Context(), "jane")
	require.NoError(t, err)
	assert.Equal(t, &directory.Person{UID: "6d5e2c1a-0000-4000-8000-000000000001", DisplayName: "Jane Doe", Email: "Jane@example.org"}, person)
}

func TestFindsByEveryWayToTheServer(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"StartTLS":             func(*Config) {},
		"ldaps":                func(c *Config) { c.URL, c.StartTLS = shared.LDAPSURL, false },
		"another server name":  func(c *Config) { c.ServerName = "localhost" },
		"accepted plaintext":   func(c *Config) { c.StartTLS, c.InsecurePlaintext = false, true },
		"by mail":              func(c *Config) { c.UserAttribute, c.CaseInsensitive = "mail", true },
		"one level":            func(c *Config) { c.BaseDN, c.Scope = slapd.PeopleDN, ScopeOne },
		"another filter":       func(c *Config) { c.Filter = "(objectClass=inetOrgPerson)" },
		"attribute's spelling": func(c *Config) { c.UserAttribute = "UID" },
	} {
		t.Run(name, func(t *testing.T) {
			asked := "jane"
			client := sharedWith(t, change)
			if client.config.UserAttribute == "mail" {
				asked = "jane@example.org"
			}
			person, err := client.Lookup(t.Context(), asked)
			require.NoError(t, err)
			assert.Equal(t, "Jane Doe", person.DisplayName)
		})
	}
}

func TestFindsSpecialNames(t *testing.T) {
	client := sharedWith(t, func(*Config) {})
	for _, name := range specialNames {
		_, err := client.Lookup(t.Context(), name)
		require.NoErrorf(t, err, "%q", name)
	}
}

func TestNobodyHasAnInjectedFilter(t *testing.T) {
	client := sharedWith(t, func(c *Config) { c.Filter = "(objectClass=inetOrgPerson)" })
	for _, name := range []string{
		"*", "j*", "*)(uid=*", "jane)(objectClass=*", "jane)(|(uid=*))", "*))(|(uid=*", "\x00", "jane\x00", `\00`, `jane\00`, `\6aane`, "(", ")", "()", "&", "|", "!",
		" jane", "jane ", " ", "jane\n", "ｊａｎｅ", longName + "x", strings.Repeat("x", 4096),
	} {
		_, err := client.Lookup(t.Context(), name)
		require.ErrorIsf(t, err, directory.ErrUnknown, "%q", name)
	}
}

func TestImpossibleNamesAreNotAsked(t *testing.T) {
	client := newClient(t, Config{URL: "ldaps://directory.invalid", BaseDN: "dc=x", UserAttribute: "uid"})
	for _, name := range []string{"", "\xff", strings.Repeat("x", 4097)} {
		_, err := client.Lookup(t.Context(), name)
		require.ErrorIs(t, err, directory.ErrUnknown)
	}
}

func TestNo(t *testing.T) {
	disabledValue := func(c *Config) {
		c.Disabled = &Disabled{Attribute: "employeeType", Values: []string{"gone", "disabled"}}
	}
	present := func(c *Config) { c.Disabled = &Disabled{Attribute: "pwdAccountLockedTime"} }
	bit := func(c *Config) { c.Disabled = &Disabled{Filter: "(userAccountControl:1.2.840.113556.1.4.803:=2)"} }
	either := func(c *Config) {
		c.Disabled = &Disabled{Attribute: "pwdAccountLockedTime", Filter: "(userAccountControl:1.2.840.113556.1.4.803:=2)"}
	}
	for name, test := range map[string]struct {
		change func(*Config)
		asked  string
		want   error
	}{
		"absent":                             {func(*Config) {}, "nobody", source.ErrAbsent},
		"absent, with disabled":              {disabledValue, "nobody", source.ErrAbsent},
		"another case":                       {func(*Config) {}, "Jane", source.ErrSpelling},
		"another case, with disabled":        {disabledValue, "Jane", source.ErrSpelling},
		"another blank":                      {func(*Config) {}, "two  words", source.ErrSpelling},
		"blanks are no case":                 {func(c *Config) { c.CaseInsensitive = true }, "two  words", source.ErrSpelling},
		"twice":                              {func(*Config) {}, "twin", source.ErrDuplicate},
		"twice, page by page":                {func(c *Config) { c.PageSize = 1 }, "twin", source.ErrDuplicate},
		"twice, on one page":                 {func(c *Config) { c.PageSize = 64 }, "twin", source.ErrDuplicate},
		"twice without case":                 {func(c *Config) { c.CaseInsensitive = true }, "case", source.ErrDuplicate},
		"below the scope":                    {func(c *Config) { c.BaseDN, c.Scope = slapd.PeopleDN, ScopeOne }, "below", source.ErrAbsent},
		"outside the base":                   {func(c *Config) { c.BaseDN = slapd.PeopleDN }, "outside", source.ErrAbsent},
		"outside the filter":                 {func(c *Config) { c.Filter = "(employeeType=external)" }, "jane", source.ErrAbsent},
		"disabled by value":                  {disabledValue, "left", source.ErrDisabled},
		"disabled by presence":               {present, "locked", source.ErrDisabled},
		"disabled by a bit":                  {bit, "flagged", source.ErrDisabled},
		"disabled by the second":             {either, "flagged", source.ErrDisabled},
		"disabled by the first":              {either, "locked", source.ErrDisabled},
		"another spelling of a disabled one": {disabledValue, "LEFT", source.ErrSpelling},
	} {
		t.Run(name, func(t *testing.T) {
			person, err := sharedWith(t, test.change).Lookup(t.Context(), test.asked)
			assert.Nil(t, person)
			assert.Equal(t, test.want, err)
		})
	}
}

func TestYesBesideOthers(t *testing.T) {
	disabledValue := func(c *Config) { c.Disabled = &Disabled{Attribute: "employeeType", Values: []string{"disabled"}} }
	bit := func(c *Config) { c.Disabled = &Disabled{Filter: "(userAccountControl:1.2.840.113556.1.4.803:=2)"} }
	for name, test := range map[string]struct {
		change func(*Config)
		asked  string
	}{
		"one of nine spellings":             {func(*Config) {}, "case"},
		"the last of nine spellings":        {func(*Config) {}, spellings("case", 9)[8]},
		"one of nine spellings, by one":     {func(c *Config) { c.PageSize = 1 }, "case"},
		"one of nine spellings, at once":    {func(c *Config) { c.PageSize = 64 }, "case"},
		"another case, where it is nothing": {func(c *Config) { c.CaseInsensitive = true }, "JANE"},
		"another value than disabled":       {disabledValue, "external"},
		"no value":                          {disabledValue, "jane"},
		"a name that a disabled one had":    {disabledValue, "reused"},
		"other bits":                        {bit, "unflagged"},
		"below another entry":               {func(c *Config) { c.BaseDN = slapd.PeopleDN }, "below"},
		"no bits":                           {bit, "jane"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sharedWith(t, test.change).Lookup(t.Context(), test.asked)
			require.NoError(t, err)
		})
	}
}

func TestNeitherYesNorNo(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*testing.T, *Config)
		want   string
	}{
		"wrong password": {func(t *testing.T, c *Config) { c.PasswordFile = secretFile(t, "wrong-password") }, "does not accept our login"},
		"unknown login":  {func(_ *testing.T, c *Config) { c.BindDN = "cn=nobody," + slapd.BaseDN }, "does not accept our login"},
		"no password":    {func(t *testing.T, c *Config) { c.PasswordFile = secretFile(t, "\n") }, "holds no secret"},
		"no file":        {func(_ *testing.T, c *Config) { c.PasswordFile = "/nowhere/password" }, "passwordFile: a secret cannot be read"},
		"blind login": {func(t *testing.T, c *Config) {
			c.BindDN, c.PasswordFile = "cn=1,"+slapd.PeopleDN, secretFile(t, "janes-password")
		}, "let bindDN read it"},
		"anonymous":         {func(_ *testing.T, c *Config) { c.BindDN, c.PasswordFile = "", "" }, "let bindDN read it"},
		"no such base":      {func(_ *testing.T, c *Config) { c.BaseDN = "ou=nowhere," + slapd.BaseDN }, "correct baseDN"},
		"another suffix":    {func(_ *testing.T, c *Config) { c.BaseDN = "dc=nowhere" }, "correct baseDN"},
		"unknown attribute": {func(_ *testing.T, c *Config) { c.UserAttribute = "sAMAccountName" }, "shows nobody at all"},
		"filter for nobody": {func(_ *testing.T, c *Config) { c.Filter = "(employeeType=nobody)" }, "shows nobody at all"},
		"disabled is unknown": {func(_ *testing.T, c *Config) {
			c.Disabled = &Disabled{Attribute: "nsAccountLock", Values: []string{"true"}}
		}, "cannot tell whether somebody is disabled"},
		"presence is unknown": {func(_ *testing.T, c *Config) { c.Disabled = &Disabled{Attribute: "nsAccountLock"} }, "cannot tell whether somebody is disabled"},
		"attribute's alias":   {func(_ *testing.T, c *Config) { c.UserAttribute = "userid" }, "does not show it"},
	} {
		t.Run(name, func(t *testing.T) {
			client := sharedWith(t, func(c *Config) { test.change(t, c) })
			_, err := client.Lookup(t.Context(), "jane")
			assertMend(t, err, test.want)
		})
	}
}

func assertMend(t *testing.T, err error, want string) {
	t.Helper()
	var unavailable *directory.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	assert.Positive(t, unavailable.RetryAfter)
	require.ErrorContains(t, err, want)
	require.NotErrorIs(t, err, directory.ErrUnknown)
}

func TestTooManySpellingsAreNoAnswer(t *testing.T) {
	for _, size := range []uint32{1, 2, 7, 64} {
		_, err := sharedWith(t, func(c *Config) { c.PageSize = size }).Lookup(t.Context(), "spellingsS")
		require.ErrorIs(t, err, source.ErrAbsent)
		_, err = sharedWith(t, func(c *Config) { c.PageSize = size }).Lookup(t.Context(), "SPELLINGS")
		require.Equal(t, source.ErrTooMany, err, "pages of %d", size)
	}
}

func TestUntrustedServersAreRefused(t *testing.T) {
	other, err := pki.NewCA("another")
	require.NoError(t, err)
	wrongCA := secretFile(t, string(other.CertPEM()))
	for name, change := range map[string]func(*Config){
		"wrong CA, StartTLS":   func(c *Config) { c.CAFile = wrongCA },
		"wrong CA, ldaps":      func(c *Config) { c.URL, c.StartTLS, c.CAFile = shared.LDAPSURL, false, wrongCA },
		"host's CAs":           func(c *Config) { c.CAFile = "" },
		"wrong name, StartTLS": func(c *Config) { c.ServerName = "elsewhere.example.org" },
		"wrong name, ldaps":    func(c *Config) { c.URL, c.StartTLS, c.ServerName = shared.LDAPSURL, false, "elsewhere.example.org" },
		"no TLS there":         func(c *Config) { c.URL, c.StartTLS = strings.Replace(shared.URL, "ldap://", "ldaps://", 1), false },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sharedWith(t, change).Lookup(t.Context(), "jane")
			require.ErrorContains(t, err, "there is no trusted connection to the directory")
			require.NotErrorIs(t, err, directory.ErrUnknown)
		})
	}
}

func TestSurvivesARestart(t *testing.T) {
	var l ldif
	l.add(slapd.PeopleDN, "jane")
	server := startServer(t, l.String())
	client := newClient(t, configFor(server))
	lookAll(t, client, maxIdle) // leaves several connections
	require.NoError(t, server.Stop())

	_, err := client.Lookup(t.Context(), "jane")
	require.ErrorContains(t, err, "cannot be reached")
	require.NotErrorIs(t, err, directory.ErrUnknown)

	require.NoError(t, server.Restart(t.Context()))
	lookAll(t, client, maxIdle)
	require.NoError(t, server.Stop())
	require.NoError(t, server.Restart(t.Context()))
	_, err = client.Lookup(t.Context(), "jane")
	require.NoError(t, err, "dead connections are replaced within the look-up")
}

func lookAll(t *testing.T, client *Client, concurrently int) {
	t.Helper()
	var group sync.WaitGroup
	for range concurrently {
		group.Go(func() {
			_, err := client.Lookup(t.Context(), "jane")
			assert.NoError(t, err)
		})
	}
	group.Wait()
}

func TestObeysTheContext(t *testing.T) {
	var l ldif
	l.add(slapd.PeopleDN, "jane")
	server := startServer(t, l.String())
	kept, fresh := newClient(t, configFor(server)), newClient(t, configFor(server))
	direct := configFor(server)
	direct.URL, direct.StartTLS = server.LDAPSURL, false
	lookAll(t, kept, 1)
	require.NoError(t, server.Pause())
	for name, client := range map[string]*Client{"on a kept connection": kept, "on a new one": fresh, "in the handshake": newClient(t, direct)} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := client.Lookup(ctx, "jane")
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.NotErrorIs(t, err, directory.ErrUnknown, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := fresh.Lookup(ctx, "jane")
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, server.Resume())
	for _, client := range []*Client{kept, fresh} {
		_, err := client.Lookup(t.Context(), "jane")
		require.NoError(t, err)
	}
}

func TestManyAtOnceShareFewConnections(t *testing.T) {
	client := sharedWith(t, func(*Config) {})
	lookAll(t, client, 5*maxIdle)
	assert.LessOrEqual(t, len(client.idle.idle), maxIdle)
	assert.NotEmpty(t, client.idle.idle)
}

func TestConnectionsAreReusedForAWhile(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	client := sharedWith(t, func(*Config) {})
	client.idle.clock = clock
	lookAll(t, client, 1)
	first := client.idle.take()
	require.NotNil(t, first)
	client.idle.give(first)
	lookAll(t, client, 1)
	assert.Same(t, first, client.idle.take(), "the second look-up came over the same connection")
	client.idle.give(first)
	clock.SetTime(clock.Now().Add(maxIdleTime))
	assert.Nil(t, client.idle.take(), "it is too old")
	assert.True(t, first.IsClosing())
}

func TestNewPasswordCountsAtOnce(t *testing.T) {
	file := secretFile(t, "wrong")
	client := sharedWith(t, func(c *Config) { c.PasswordFile = file })
	_, err := client.Lookup(t.Context(), "jane")
	require.ErrorContains(t, err, "does not accept our login")
	require.NoError(t, os.WriteFile(file, []byte(shared.Password), 0o600))
	_, err = client.Lookup(t.Context(), "jane")
	require.NoError(t, err)
}

func TestUIDs(t *testing.T) {
	guid := []byte{0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	assert.Equal(t, "00112233-4455-6677-8899-aabbccddeeff", uid("objectguid", guid))
	assert.Equal(t, "33221100554477668899aabbccddeeff", uid("nsUniqueId", guid))
	assert.Equal(t, "6d5e2c1a", uid("entryUUID", []byte("6d5e2c1a")))
	assert.Empty(t, uid("entryUUID", nil))
}

func TestResultsAreExplained(t *testing.T) {
	for code, want := range map[uint16]string{
		ldapv3.LDAPResultReferral:                 "refers to another server",
		ldapv3.LDAPResultInsufficientAccessRights: "does not let us search",
		ldapv3.LDAPResultBusy:                     "(Busy, code 51)",
		ldapv3.LDAPResultTimeLimitExceeded:        "(Time Limit Exceeded, code 3)",
	} {
		require.ErrorContains(t, explain(t.Context(), &ldapv3.Error{ResultCode: code, Err: assert.AnError}), want)
	}
}
