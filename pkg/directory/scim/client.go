// Package scim looks people up with SCIM 2.0 (RFC 7643, RFC 7644).
//
// A name is searched with the operator eq and compared byte for byte with what is found, because userName is compared
// without regard to case there. An answer counts only as the ListResponse of RFC 7644 section 3.4.2 that it must be.
//
// The tests run against a small server written from the two RFCs, not against a product.
package scim

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// accept prefers SCIM's own type (RFC 7644 section 3.1); some services know only the other one.
const accept = "application/scim+json, application/json;q=0.9"

// attributes are all that is asked for: groups, photos and the rest stay where they are.
const attributes = "userName,externalId,active,displayName,name,emails"

// Client is a directory.Directory.
type Client struct {
	config  Config
	users   string // the address of the users
	service *rest.Service
	search  rest.Search[user]
}

var _ directory.Directory = (*Client)(nil)

// New checks the configuration and reads the authorities that it names. It does not connect.
func New(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	client, base, err := c.Open()
	if err != nil {
		return nil, err
	}
	c.Match = cmp.Or(c.Match, MatchUserName)
	s := &Client{config: c, users: base.JoinPath("Users").String()}
	s.search = rest.Search[user]{Page: s.page, ID: id, Names: s.names, Admit: s.admit, CaseInsensitive: c.CaseInsensitive}
	s.service = &rest.Service{HTTP: client, Login: login(&c, client), Accept: accept, Detail: scimType, Clock: clock.RealClock{}, Hints: map[int]string{
		http.StatusBadRequest:     "choose a match by which the service can search",
		http.StatusUnauthorized:   "correct the token in bearerTokenFile, or clientCredentials",
		http.StatusForbidden:      "let our login read users",
		http.StatusNotFound:       "correct url, which /Users follows",
		http.StatusNotImplemented: "the service cannot search: use another directory",
	}}
	return s, nil
}

func login(c *Config, client *http.Client) rest.Login {
	if c.ClientCredentials == nil {
		return rest.File(c.BearerTokenFile)
	}
	address := c.ClientCredentials.TokenURL
	return rest.NewClientCredentials(rest.ClientCredentials{
		HTTP:     client,
		Endpoint: func(context.Context) (string, error) { return address, nil },
		ClientID: c.ClientCredentials.ClientID, SecretFile: c.ClientCredentials.ClientSecretFile, Scopes: c.ClientCredentials.Scopes,
		Clock: clock.RealClock{},
	})
}

// String hides the access token.
func (c *Client) String() string { return "SCIM at " + c.users }

// GoString hides the access token from %#v too.
func (c *Client) GoString() string { return c.String() }

// Lookup implements directory.Directory.
func (c *Client) Lookup(ctx context.Context, username string) (*directory.Person, error) {
	return c.search.One(ctx, username)
}

// equal is the filter of RFC 7644 section 3.4.2.2, whose values are JSON strings.
func equal(attribute, value string) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return attribute + " eq " + strings.TrimSuffix(text.String(), "\n"), err
}

// page reads users with the name; the first is number 1. The service may hand out fewer than it is asked for.
func (c *Client) page(ctx context.Context, name string, seen int) (page []user, last bool, err error) {
	filter, err := equal(c.config.Match, name)
	if err != nil {
		return nil, false, err
	}
	query := url.Values{
		"filter": {filter}, "attributes": {attributes},
		"startIndex": {strconv.Itoa(seen + 1)}, "count": {strconv.Itoa(c.config.PageSize)},
	}
	var list listResponse
	if err := c.service.Get(ctx, c.users+"?"+query.Encode(), &list); err != nil {
		return nil, false, err
	}
	if err := list.check(seen); err != nil {
		return nil, false, err
	}
	return list.Resources, seen+len(list.Resources) >= *list.TotalResults, nil
}

// names is what the user holds where user names of the API server are.
func (c *Client) names(u *user) []string {
	switch c.config.Match {
	case MatchEmail:
		return u.addresses()
	case MatchExternalID:
		return []string{u.ExternalID}
	}
	return []string{u.UserName}
}

func (c *Client) admit(u *user) (*directory.Person, error) {
	if u.disabled(c.config.RequireActive) {
		return nil, source.ErrDisabled
	}
	return u.person(), nil
}
