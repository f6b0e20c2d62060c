package ldap

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	ldapv3 "github.com/go-ldap/ldap/v3"

	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// Scopes of a search.
const (
	ScopeSubtree = "subtree"
	ScopeOne     = "one"
)

// DefaultPageSize is how many entries are asked for at a time. Two are enough to see that a name is not unique.
const DefaultPageSize = 2

// Config says where the directory is and how a person's entry looks.
type Config struct {
	// URL is ldaps://host[:port], or ldap://host[:port] with StartTLS or InsecurePlaintext.
	URL string `json:"url"`
	// StartTLS turns a connection of ldap:// into TLS before anything else is said (RFC 4511 section 4.14).
	StartTLS bool `json:"startTLS,omitempty"`
	// InsecurePlaintext allows ldap:// without TLS. Whoever is on the way can then read the password and invent people.
	InsecurePlaintext bool `json:"insecurePlaintext,omitempty"`
	// CAFile holds the authorities that the server's certificate may come from, in PEM form; those of the host if empty.
	// It is read once.
	CAFile string `json:"caFile,omitempty"`
	// ServerName is the name in the server's certificate, if it is not the URL's host.
	ServerName string `json:"serverName,omitempty"`

	// BindDN and PasswordFile log in (simple bind, RFC 4513 section 5.1.3). Without both the search is anonymous. The
	// file is read for each new connection.
	BindDN       string `json:"bindDN,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`

	// BaseDN is where people's entries are; Scope how deep below it: "subtree" (default) or "one" level.
	BaseDN string `json:"baseDN"`
	Scope  string `json:"scope,omitempty"`
	// UserAttribute holds the name that the API server has, e.g. uid, mail or userPrincipalName.
	UserAttribute string `json:"userAttribute"`
	// CaseInsensitive also takes a name that differs in case only. By default names are compared byte for byte, although
	// most servers match without regard to case.
	CaseInsensitive bool `json:"caseInsensitive,omitempty"`
	// Filter must hold for a person too (RFC 4515), e.g. (objectClass=inetOrgPerson).
	Filter string `json:"filter,omitempty"`
	// Disabled recognises people who may not log in any more; without it everybody with an entry may.
	Disabled *Disabled `json:"disabled,omitempty"`

	// The attributes that are shown or recorded; each may be empty. UIDAttribute is entryUUID (RFC 4530), objectGUID or
	// the like. The textual form of an objectGUID is that of Active Directory; other binary values are in hexadecimal.
	DisplayNameAttribute string `json:"displayNameAttribute,omitempty"`
	EmailAttribute       string `json:"emailAttribute,omitempty"`
	UIDAttribute         string `json:"uidAttribute,omitempty"`

	// PageSize is how many entries are asked for at a time (RFC 2696), 2 by default, at most 64.
	PageSize uint32 `json:"pageSize,omitempty"`
}

// Disabled tells who may not log in: whose Attribute has one of the Values, or any value if none are given, and for whom
// Filter holds. One of both is enough. The server compares, by its rules for the attribute.
type Disabled struct {
	// Attribute is e.g. nsAccountLock with the value "true", or pwdAccountLockedTime.
	Attribute string   `json:"attribute,omitempty"`
	Values    []string `json:"values,omitempty"`
	// Filter is e.g. (userAccountControl:1.2.840.113556.1.4.803:=2) for accounts that Active Directory disabled.
	Filter string `json:"filter,omitempty"`
}

// attributeName is a descr of RFC 4512 section 1.4. An OID is not enough: entries show their attributes by name.
var attributeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)

// Validate returns nil, or one sentence that says what to change.
func (c *Config) Validate() error {
	for _, check := range []func() error{c.checkServer, c.checkLogin, c.checkSearch, c.checkAttributes, c.checkFilters} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkServer() error {
	server, err := url.Parse(c.URL)
	if err != nil || server.Hostname() == "" || server.User != nil || server.Path != "" && server.Path != "/" || server.RawQuery != "" || server.Fragment != "" {
		return errors.New("the directory's url must be ldaps://host[:port] or ldap://host[:port]")
	}
	switch {
	case server.Scheme == "ldaps" && c.StartTLS:
		return errors.New("startTLS is for ldap:// URLs: ldaps:// is TLS from the beginning")
	case server.Scheme == "ldaps", server.Scheme == "ldap" && c.StartTLS:
		if c.InsecurePlaintext {
			return errors.New("insecurePlaintext contradicts TLS: remove it")
		}
		return nil
	case server.Scheme != "ldap":
		return fmt.Errorf("the directory's url begins with %q: it must be ldaps:// or ldap://", server.Scheme)
	case !c.InsecurePlaintext:
		return errors.New("ldap:// sends the password readable for everybody on the way: use ldaps://, set startTLS, or set insecurePlaintext if you accept that")
	}
	return nil
}

func (c *Config) checkLogin() error {
	if (c.BindDN == "") != (c.PasswordFile == "") {
		return errors.New("bindDN and passwordFile belong together: set both, or none for an anonymous search")
	}
	if _, err := ldapv3.ParseDN(c.BindDN); err != nil {
		return fmt.Errorf("bindDN is no distinguished name: %w", err)
	}
	return nil
}

func (c *Config) checkSearch() error {
	if c.BaseDN == "" {
		return errors.New("baseDN is missing: set it to the entry below which people are")
	}
	if _, err := ldapv3.ParseDN(c.BaseDN); err != nil {
		return fmt.Errorf("baseDN is no distinguished name: %w", err)
	}
	if !slices.Contains([]string{"", ScopeSubtree, ScopeOne}, c.Scope) {
		return fmt.Errorf("the scope %q is unknown: choose %s or %s", c.Scope, ScopeSubtree, ScopeOne)
	}
	if c.PageSize > source.MaxCandidates {
		return fmt.Errorf("a pageSize of %d is too large: choose at most %d", c.PageSize, source.MaxCandidates)
	}
	return nil
}

func (c *Config) checkAttributes() error {
	if c.UserAttribute == "" {
		return errors.New("userAttribute is missing: set it to the attribute that holds the user name, e.g. uid")
	}
	names := []string{c.UserAttribute, c.DisplayNameAttribute, c.EmailAttribute, c.UIDAttribute}
	if c.Disabled != nil {
		names = append(names, c.Disabled.Attribute)
	}
	for _, name := range names {
		if name != "" && !attributeName.MatchString(name) {
			return fmt.Errorf("%q is no name of an attribute: use letters, digits and hyphens", name)
		}
	}
	return nil
}

func (c *Config) checkFilters() error {
	if err := checkFilter("filter", c.Filter); err != nil || c.Disabled == nil {
		return err
	}
	if c.Disabled.Attribute == "" && c.Disabled.Filter == "" {
		return errors.New("disabled says nothing: set its attribute or its filter, or remove it")
	}
	if c.Disabled.Attribute == "" && len(c.Disabled.Values) > 0 {
		return errors.New("disabled has values but no attribute: set the attribute")
	}
	return checkFilter("the filter of disabled", c.Disabled.Filter)
}

func checkFilter(what, filter string) error {
	if filter == "" {
		return nil
	}
	if _, err := ldapv3.CompileFilter(filter); err != nil {
		return fmt.Errorf("%s is no LDAP filter in parentheses: %w", what, err)
	}
	return nil
}
