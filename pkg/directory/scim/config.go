package scim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
)

// What a user name of the API server is in SCIM.
const (
	MatchUserName   = "userName"
	MatchEmail      = "emails.value"
	MatchExternalID = "externalId"
)

// Config says where the service is, who asks, and by what users are found.
type Config struct {
	// Server's URL is the base of the service; /Users follows it.
	rest.Server

	// BearerTokenFile holds the token to log in with; it is read for each look-up. ClientCredentials fetches one instead.
	// One of both is needed.
	BearerTokenFile   string             `json:"bearerTokenFile,omitempty"`
	ClientCredentials *ClientCredentials `json:"clientCredentials,omitempty"`

	// Match is what the user name is in SCIM: "userName" (default), "emails.value" or "externalId".
	Match string `json:"match,omitempty"`
	// RequireActive refuses a user without the attribute active. By default only active: false is refused, because RFC
	// 7643 lets a service leave the attribute out.
	RequireActive bool `json:"requireActive,omitempty"`
}

// ClientCredentials fetch access tokens (RFC 6749 section 4.4). The file is read for each new one.
type ClientCredentials struct {
	TokenURL         string   `json:"tokenURL"`
	ClientID         string   `json:"clientID"`
	ClientSecretFile string   `json:"clientSecretFile"`
	Scopes           []string `json:"scopes,omitempty"`
}

// Validate returns nil, or one sentence that says what to change.
func (c *Config) Validate() error {
	if err := c.Server.Validate(); err != nil {
		return err
	}
	switch {
	case (c.BearerTokenFile == "") == (c.ClientCredentials == nil):
		return errors.New("bearerTokenFile or clientCredentials says how to log in: set one of them")
	case !slices.Contains([]string{"", MatchUserName, MatchEmail, MatchExternalID}, c.Match):
		return fmt.Errorf("match %q is unknown: choose %s, %s or %s", c.Match, MatchUserName, MatchEmail, MatchExternalID)
	case c.ClientCredentials == nil:
		return nil
	}
	return c.ClientCredentials.validate(c.InsecurePlaintext)
}

func (c *ClientCredentials) validate(plaintext bool) error {
	if c.ClientID == "" || c.ClientSecretFile == "" {
		return errors.New("clientCredentials needs clientID and clientSecretFile: set both")
	}
	return rest.CheckURL("tokenURL", c.TokenURL, plaintext)
}
