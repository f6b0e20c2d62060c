// Package people measures look-ups of people in a real LDAP directory, as Countersign's controller does them.
package people

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/ldap"
	"github.com/AlaudaDevops/countersign/test/env/slapd"
)

// known is how many people the directory has; authors are some more, each of whom is looked up in one try only.
const (
	known   = 1000
	authors = 10
)

// Directory is a directory that runs.
type Directory struct {
	server *slapd.Server
	dir    string
	client *ldap.Client
}

// Open starts a directory.
func Open(ctx context.Context) (*Directory, error) {
	dir, err := os.MkdirTemp("", "people-")
	if err != nil {
		return nil, err
	}
	d := &Directory{dir: dir}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Directory) open(ctx context.Context) (err error) {
	if d.server, err = slapd.Start(ctx, d.dir, entries()); err != nil {
		return err
	}
	d.client, err = ldap.New(ldap.Config{
		URL: d.server.URL, StartTLS: true, CAFile: d.server.CAFile, BindDN: d.server.BindDN, PasswordFile: d.server.PasswordFile,
		BaseDN: slapd.PeopleDN, UserAttribute: "uid", Filter: "(objectClass=inetOrgPerson)",
		DisplayNameAttribute: "displayName", EmailAttribute: "mail", UIDAttribute: "entryUUID",
	})
	return err
}

// Close ends it.
func (d *Directory) Close() error {
	var err error
	if d.server != nil {
		err = d.server.Stop()
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// log is the server's, with one line for each operation.
func (d *Directory) log() string { return filepath.Join(d.dir, "log") }

// remembering looks people up as the controller does.
func (d *Directory) remembering() *directory.Cached {
	return directory.New(d.client, directory.Options{}, nil)
}

// asking does the same, but remembers nobody.
func (d *Directory) asking() *directory.Cached {
	return directory.New(d.client, directory.Options{Positive: -1}, nil)
}

func person(i int) string { return fmt.Sprint("person", i) }
func author(i int) string { return fmt.Sprint("author", i) }

// entries are everybody, as LDIF (RFC 2849).
func entries() string {
	var text strings.Builder
	add := func(name string) {
		fmt.Fprintf(&text, "dn: uid=%[1]s,%[2]s\nobjectClass: inetOrgPerson\nuid: %[1]s\ncn: %[1]s\nsn: Doe\n"+
			"displayName: The %[1]s\nmail: %[1]s@example.org\n\n", name, slapd.PeopleDN)
	}
	for i := range known {
		add(person(i))
	}
	for i := range authors {
		add(author(i))
	}
	return text.String()
}
