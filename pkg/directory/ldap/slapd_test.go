package ldap

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/test/env/slapd"
)

// shared serves the people of everybody() to all tests that do not disturb it.
var shared *slapd.Server

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "slapd-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		shared, err = slapd.Start(context.Background(), dir, everybody())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = shared.Stop() }()
	return m.Run()
}

func startServer(t *testing.T, entries string) *slapd.Server {
	t.Helper()
	server, err := slapd.Start(t.Context(), t.TempDir(), entries)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	return server
}

// ldif collects entries. Their names in the tree are numbers, so that user names may be anything.
type ldif struct {
	strings.Builder
	entries int
}

// add adds a person below parent with the user name and further lines.
func (l *ldif) add(parent, name string, lines ...string) {
	l.entries++
	lines = append([]string{fmt.Sprintf("dn: cn=%d,%s", l.entries, parent), "objectClass: inetOrgPerson"}, lines...)
	lines = append(lines, "sn: Doe", fmt.Sprintf("cn: %d", l.entries), "uid:: "+base64.StdEncoding.EncodeToString([]byte(name)), "\n")
	l.WriteString(strings.Join(lines, "\n"))
}

// longName is as long as some directories' identifiers are.
var longName = strings.Repeat("long-", 60)

// specialNames are all in the directory, each once.
var specialNames = []string{"a*b", "(paren)", `back\slash`, `\2a`, "two words", "王小明", "jané", "system:admin", "a,b=c+d", `"quoted"`, longName}

// spellings are names that the directory takes for the same.
func spellings(name string, count int) []string {
	all := make([]string, count)
	for i := range all {
		letters := []byte(strings.ToLower(name))
		for bit := range letters {
			if i>>bit&1 == 1 {
				letters[bit] -= 'a' - 'A'
			}
		}
		all[i] = string(letters)
	}
	return all
}

func everybody() string {
	var l ldif
	l.add(slapd.PeopleDN, "jane", "mail: Jane@example.org", "displayName: Jane Doe", "entryUUID: 6d5e2c1a-0000-4000-8000-000000000001", "userPassword: janes-password")
	for _, name := range specialNames {
		l.add(slapd.PeopleDN, name)
	}
	for _, name := range spellings("case", 9) {
		l.add(slapd.PeopleDN, name)
	}
	for _, name := range spellings("spellings", 80) {
		l.add(slapd.PeopleDN, name)
	}
	l.add(slapd.PeopleDN, "twin")
	l.add(slapd.MoreDN, "TWIN")
	l.add(slapd.MoreDN, "twin")
	l.add("cn=1,"+slapd.PeopleDN, "below")
	l.add(slapd.MoreDN, "outside")
	l.add(slapd.PeopleDN, "left", "employeeType: disabled")
	l.add(slapd.PeopleDN, "external", "employeeType: external")
	l.add(slapd.PeopleDN, "reused", "employeeType: disabled")
	l.add(slapd.MoreDN, "reused", "mail: reused@example.org")
	l.add(slapd.PeopleDN, "locked", "pwdAccountLockedTime: 000001010000Z")
	l.add(slapd.PeopleDN, "flagged", "objectClass: exampleAccount", "userAccountControl: 514")
	l.add(slapd.PeopleDN, "unflagged", "objectClass: exampleAccount", "userAccountControl: 512")
	l.WriteString(strings.Join([]string{"dn: ou=elsewhere," + slapd.BaseDN, "objectClass: referral", "objectClass: extensibleObject",
		"ou: elsewhere", "ref: ldap://127.0.0.1:1/" + slapd.PeopleDN, "\n"}, "\n"))
	return l.String()
}

// configFor reaches the server by StartTLS.
func configFor(server *slapd.Server) Config {
	return Config{
		URL: server.URL, StartTLS: true, CAFile: server.CAFile,
		BindDN: server.BindDN, PasswordFile: server.PasswordFile,
		BaseDN: server.BaseDN, UserAttribute: "uid",
		DisplayNameAttribute: "displayName", EmailAttribute: "mail", UIDAttribute: "entryUUID",
	}
}

func newClient(t *testing.T, c Config) *Client {
	t.Helper()
	client, err := New(c)
	require.NoError(t, err)
	t.Cleanup(client.idle.drain)
	return client
}

// sharedWith is a client of the shared server, its configuration changed.
func sharedWith(t *testing.T, change func(*Config)) *Client {
	t.Helper()
	c := configFor(shared)
	change(&c)
	return newClient(t, c)
}

func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
