package keycloak

import (
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// serviceAccountPrefix begins the user names of clients' service accounts. Keycloak reserves it; most of its versions
// have no other sign of them in this API.
const serviceAccountPrefix = "service-account-"

// user is what matters here of a UserRepresentation.
type user struct {
	ID                     string              `json:"id"`
	Username               string              `json:"username"`
	Enabled                *bool               `json:"enabled"`
	Email                  string              `json:"email"`
	EmailVerified          bool                `json:"emailVerified"`
	FirstName              string              `json:"firstName"`
	LastName               string              `json:"lastName"`
	Attributes             map[string][]string `json:"attributes"`
	ServiceAccountClientID string              `json:"serviceAccountClientId"`
}

func (u *user) complete() bool { return u.ID != "" && u.Username != "" && u.Enabled != nil }

func (u *user) robot() bool {
	return u.ServiceAccountClientID != "" || strings.HasPrefix(u.Username, serviceAccountPrefix)
}

func id(u *user) string { return u.ID }

// names is what the user holds where user names of the API server are.
func (c *Client) names(u *user) []string {
	if attribute, ok := strings.CutPrefix(c.config.Match, MatchAttribute); ok {
		return u.Attributes[attribute]
	}
	if c.config.Match == MatchEmail {
		return []string{u.Email}
	}
	return []string{u.Username}
}

// admit refuses users who are no people, or no longer.
func (c *Client) admit(u *user) (*directory.Person, error) {
	switch {
	case u.robot():
		return nil, &directory.UnknownError{Why: "the name is that of a client's service account, which is not a person"}
	case !*u.Enabled:
		return nil, source.ErrDisabled
	case c.config.Match == MatchEmail && c.verifiedOnly() && !u.EmailVerified:
		return nil, &directory.UnknownError{Why: "the e-mail address is not verified, so anybody may have entered it: verify it in the directory"}
	}
	return &directory.Person{UID: u.ID, DisplayName: strings.TrimSpace(u.FirstName + " " + u.LastName), Email: u.Email}, nil
}

func (c *Client) verifiedOnly() bool {
	return c.config.RequireVerifiedEmail == nil || *c.config.RequireVerifiedEmail
}
