package scim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// What a user name of the API server is in SCIM.
const (
	MatchUserName   = "userName"
	MatchEmail      = "emails.value"
	MatchExternalID = "externalId"
)

// DefaultPageSize is how many users are asked for at a time. Two are enough to see that a name is not unique.
const DefaultPageSize = 2

// Config says where the service is, who asks, and by what users are found.
type Config struct {
	// URL is the https:// base of the service; /Users follows it.
	URL string `json:"url"`
	// InsecurePlaintext allows http://. Whoever is on the way can then read the token and invent people.
	InsecurePlaintext bool `json:"insecurePlaintext,omitempty"`
	// CAFile holds the authorities that the server's certificate may come from, in PEM form; those of the host if empty.
	// It is read once.
	CAFile string `json:"caFile,omitempty"`

	// BearerTokenFile holds the token to log in with; it is read for each look-up. ClientCredentials fetches one instead.
	// One of both is needed.
	BearerTokenFile   string             `json:"bearerTokenFile,omitempty"`
	ClientCredentials *ClientCredentials `json:"clientCredentials,omitempty"`

	// Match is what the user name is in SCIM: "userName" (default), "emails.value" or "externalId".
	Match string `json:"match,omitempty"`
	// CaseInsensitive also takes a name that differs in case only. By default names are compared byte for byte, although
	// SCIM matches userName without regard to case.
	CaseInsensitive bool `json:"caseInsensitive,omitempty"`
	// RequireActive refuses a user without the attribute active. By default only active: false is refused, because RFC
	// 7643 lets a service leave the attribute out.
	RequireActive bool `json:"requireActive,omitempty"`

	// PageSize is how many users are asked for at a time, 2 by default, at most 64.
	PageSize int `json:"pageSize,omitempty"`
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
	if err := rest.CheckURL("url", c.URL, c.InsecurePlaintext); err != nil {
		return err
	}
	switch {
	case (c.BearerTokenFile == "") == (c.ClientCredentials == nil):
		return errors.New("bearerTokenFile or clientCredentials says how to log in: set one of them")
	case !slices.Contains([]string{"", MatchUserName, MatchEmail, MatchExternalID}, c.Match):
		return fmt.Errorf("match %q is unknown: choose %s, %s or %s", c.Match, MatchUserName, MatchEmail, MatchExternalID)
	case c.PageSize < 0 || c.PageSize > source.MaxCandidates:
		return fmt.Errorf("a pageSize of %d is impossible: choose 1 to %d, or 0 for the default", c.PageSize, source.MaxCandidates)
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
