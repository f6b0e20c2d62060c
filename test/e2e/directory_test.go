package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/directory/ldap"
	"github.com/AlaudaDevops/countersign/pkg/directory/open"
	"github.com/AlaudaDevops/countersign/test/env/slapd"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// remembered is how long the controller believes what the directory said, unheardOf how long that it knows nobody.
const (
	remembered = 45 * time.Second
	unheardOf  = time.Second
)

// staff is the directory of the environment: a real LDAP server, which knows a person by mail.
type staff struct {
	dir    string
	config string
	server *slapd.Server
}

func (p *staff) start() (err error) {
	if p.dir, err = os.MkdirTemp("", "countersign-people-"); err != nil {
		return err
	}
	var entries strings.Builder
	for _, name := range []string{"developer", "intruder", "owner1", "owner2"} {
		entries.WriteString(entry(name + "@example.com"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	data := filepath.Join(p.dir, "slapd")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if p.server, err = slapd.Start(ctx, data, entries.String()); err != nil {
		return err
	}
	return p.configure()
}

func (p *staff) configure() error {
	config, err := yaml.Marshal(open.Config{
		Type: "ldap",
		LDAP: &ldap.Config{
			URL: p.server.LDAPSURL, CAFile: p.server.CAFile, BindDN: p.server.BindDN, PasswordFile: p.server.PasswordFile,
			BaseDN: p.server.BaseDN, UserAttribute: "mail", DisplayNameAttribute: "cn", EmailAttribute: "mail", UIDAttribute: "entryUUID",
			Disabled: &ldap.Disabled{Attribute: "employeeType", Values: []string{"left"}},
		},
		Cache: open.Cache{
			Positive: &metav1.Duration{Duration: remembered}, Negative: &metav1.Duration{Duration: unheardOf},
			Breaker: open.Breaker{Open: &metav1.Duration{Duration: 2 * time.Second}}, RetryAfter: &metav1.Duration{Duration: time.Second},
		},
	})
	if err != nil {
		return err
	}
	p.config = filepath.Join(p.dir, "directory.yaml")
	return os.WriteFile(p.config, config, 0o600)
}

func (p *staff) stop() {
	if err := p.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(p.dir)
}

func dn(mail string) string {
	return "uid=" + ldapv3.EscapeDN(mail) + "," + slapd.PeopleDN
}

func entry(mail string) string {
	return fmt.Sprintf("dn: %s\nobjectClass: inetOrgPerson\nuid: %s\ncn: %s\nsn: %s\nmail: %s\n\n", dn(mail), mail, mail, mail, mail)
}

// change does something as the directory's administrator.
func (p *staff) change(t testing.TB, do func(*ldapv3.Conn) error) {
	t.Helper()
	authorities := x509.NewCertPool()
	require.True(t, authorities.AppendCertsFromPEM(p.server.CA))
	conn, err := ldapv3.DialURL(p.server.LDAPSURL, ldapv3.DialWithTLSConfig(&tls.Config{RootCAs: authorities}))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.Bind(p.server.AdminDN, p.server.AdminPassword))
	require.NoError(t, do(conn))
}

// joins makes a person whose mail is the name; common characters only.
func (p *staff) joins(t testing.TB, mail string) {
	t.Helper()
	p.change(t, func(conn *ldapv3.Conn) error {
		add := ldapv3.NewAddRequest(dn(mail), nil)
		add.Attribute("objectClass", []string{"inetOrgPerson"})
		for _, attribute := range []string{"uid", "cn", "sn", "mail"} {
			add.Attribute(attribute, []string{mail})
		}
		return conn.Add(add)
	})
}

// leaves deletes the person's entry.
func (p *staff) leaves(t testing.TB, mail string) {
	t.Helper()
	p.change(t, func(conn *ldapv3.Conn) error { return conn.Del(ldapv3.NewDelRequest(dn(mail), nil)) })
}

// disables keeps the entry and marks it.
func (p *staff) disables(t testing.TB, mail string) {
	t.Helper()
	p.change(t, func(conn *ldapv3.Conn) error {
		modify := ldapv3.NewModifyRequest(dn(mail), nil)
		modify.Replace("employeeType", []string{"left"})
		return conn.Modify(modify)
	})
}

// queries counts how often the server was asked for a person, in its own log.
func (p *staff) queries(t testing.TB, mail string) int {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(p.dir, "slapd", "log"))
	require.NoError(t, err)
	return strings.Count(string(log), "(mail="+mail+")")
}
