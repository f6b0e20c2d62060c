package keycloak

import (
	"errors"
	"fmt"
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
)

// What a user name of the API server is in Keycloak.
const (
	MatchUsername = "username"
	MatchEmail    = "email"
	// MatchAttribute is the beginning; the attribute's name follows.
	MatchAttribute = "attribute:"
)

// Config says where the realm is, who asks, and by what users are found.
type Config struct {
	// Server's URL has the path prefix if the server has one. Keycloak keeps user names and addresses in lower case.
	rest.Server
	// Realm is that of the people.
	Realm string `json:"realm"`

	// ClientID and ClientSecretFile are those of a confidential client with a service account, whose roles include
	// view-users of realm-management. The file is read for each new access token.
	ClientID         string `json:"clientID"`
	ClientSecretFile string `json:"clientSecretFile"`
	// TokenURL is where access tokens come from; if empty, the realm's OpenID configuration says it. It must be set if
	// that is on another host.
	TokenURL string `json:"tokenURL,omitempty"`

	// Match is what the user name is in Keycloak: "username" (default), "email" or "attribute:<name>".
	Match string `json:"match,omitempty"`
	// RequireVerifiedEmail refuses a user found by an address that is not verified; true by default. It counts only
	// with match: email.
	RequireVerifiedEmail *bool `json:"requireVerifiedEmail,omitempty"`
}

// Validate returns nil, or one sentence that says what to change.
func (c *Config) Validate() error {
	if err := c.Server.Validate(); err != nil {
		return err
	}
	switch {
	case c.Realm == "" || c.Realm == "." || c.Realm == "..":
		return errors.New("realm is missing: set it to the name of the realm in which people are")
	case c.ClientID == "" || c.ClientSecretFile == "":
		return errors.New("clientID and clientSecretFile are missing: set them to those of a client with a service account that may view users")
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
