package keycloak

import (
	"errors"
	"fmt"
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// What a user name of the API server is in Keycloak.
const (
	MatchUsername = "username"
	MatchEmail    = "email"
	// MatchAttribute is the beginning; the attribute's name follows.
	MatchAttribute = "attribute:"
)

// DefaultPageSize is how many users are asked for at a time. Two are enough to see that a name is not unique.
const DefaultPageSize = 2

// Config says where the realm is, who asks, and by what users are found.
type Config struct {
	// URL is the server's https:// address, with the path prefix if it has one; Realm the realm of the people.
	URL   string `json:"url"`
	Realm string `json:"realm"`
	// InsecurePlaintext allows http://. Whoever is on the way can then read the secret and invent people.
	InsecurePlaintext bool `json:"insecurePlaintext,omitempty"`
	// CAFile holds the authorities that the server's certificate may come from, in PEM form; those of the host if empty.
	// It is read once.
	CAFile string `json:"caFile,omitempty"`

	// ClientID and ClientSecretFile are those of a confidential client with a service account, whose roles include
	// view-users of realm-management. The file is read for each new access token.
	ClientID         string `json:"clientID"`
	ClientSecretFile string `json:"clientSecretFile"`
	// TokenURL is where access tokens come from; if empty, the realm's OpenID configuration says it. It must be set if
	// that is on another host.
	TokenURL string `json:"tokenURL,omitempty"`

	// Match is what the user name is in Keycloak: "username" (default), "email" or "attribute:<name>".
	Match string `json:"match,omitempty"`
	// CaseInsensitive also takes a name that differs in case only. Keycloak keeps user names and addresses in lower case.
	CaseInsensitive bool `json:"caseInsensitive,omitempty"`
	// RequireVerifiedEmail refuses a user found by an address that is not verified; true by default. It counts only
	// with match: email.
	RequireVerifiedEmail *bool `json:"requireVerifiedEmail,omitempty"`

	// PageSize is how many users are asked for at a time, 2 by default, at most 64.
	PageSize int `json:"pageSize,omitempty"`
}

// Validate returns nil, or one sentence that says what to change.
func (c *Config) Validate() error {
	if err := rest.CheckURL("url", c.URL, c.InsecurePlaintext); err != nil {
		return err
	}
	switch {
	case c.Realm == "" || c.Realm == "." || c.Realm == "..":
		return errors.New("realm is missing: set it to the name of the realm in which people are")
	case c.ClientID == "" || c.ClientSecretFile == "":
		return errors.New("clientID and clientSecretFile are missing: set them to those of a client with a service account that may view users")
	case c.PageSize < 0 || c.PageSize > source.MaxCandidates:
		return fmt.Errorf("a pageSize of %d is impossible: choose 1 to %d, or 0 for the default", c.PageSize, source.MaxCandidates)
	}
	if c.TokenURL != "" {
		if err := rest.CheckURL("tokenURL", c.TokenURL, c.InsecurePlaintext); err != nil {
			return err
		}
	}
	return c.checkMatch()
}

func (c *Config) checkMatch() error {
	attribute, isAttribute := strings.CutPrefix(c.Match, MatchAttribute)
	switch {
	case isAttribute && (attribute == "" || strings.ContainsAny(attribute, "\":\\ \t\r\n")):
		return fmt.Errorf("match %q names no attribute that can be searched: use a name without blanks, colons, quotation marks and backslashes", c.Match)
	case isAttribute, c.Match == "", c.Match == MatchUsername, c.Match == MatchEmail:
		return nil
	}
	return fmt.Errorf("match %q is unknown: choose %s, %s or %s<name>", c.Match, MatchUsername, MatchEmail, MatchAttribute)
}
