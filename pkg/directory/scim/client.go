// Package scim looks people up with SCIM 2.0 (RFC 7643, RFC 7644).
//
// A name is searched with the operator eq and compared byte for byte with what is found, because userName is compared
// without regard to case there. An answer counts only as the ListResponse of RFC 7644 section 3.4.2 that it must be.
//
// The tests run against a small server written from the two RFCs, not against a product.
package scim

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
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
}

var _ directory.Directory = (*Client)(nil)

// New checks the configuration and reads the authorities that it names. It does not connect.
func New(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	client, err := rest.NewHTTP(c.CAFile)
	if err != nil {
		return nil, err
	}
	if c.Match == "" {
		c.Match = MatchUserName
	}
	if c.PageSize == 0 {
		c.PageSize = DefaultPageSize
	}
	return newClient(c, client, clock.RealClock{})
}

func newClient(c Config, client *http.Client, clk clock.PassiveClock) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	service := &rest.Service{HTTP: client, Login: login(&c, client, clk), Accept: accept, Detail: scimType, Clock: clk, Hints: map[int]string{
		http.StatusBadRequest:     "choose a match by which the service can search",
		http.StatusUnauthorized:   "correct the token in bearerTokenFile, or clientCredentials",
		http.StatusForbidden:      "let our login read users",
		http.StatusNotFound:       "correct url, which /Users follows",
		http.StatusNotImplemented: "the service cannot search: use another directory",
	}}
	return &Client{config: c, users: base.JoinPath("Users").String(), service: service}, nil
}

func login(c *Config, client *http.Client, clk clock.PassiveClock) rest.Login {
	if c.ClientCredentials == nil {
		return rest.File(c.BearerTokenFile)
	}
	address := c.ClientCredentials.TokenURL
	return rest.NewClientCredentials(rest.ClientCredentials{
		HTTP:     client,
		Endpoint: func(context.Context) (string, error) { return address, nil },
		ClientID: c.ClientCredentials.ClientID, SecretFile: c.ClientCredentials.ClientSecretFile, Scopes: c.ClientCredentials.Scopes,
		Clock: clk,
	})
}

// String hides the access token.
func (c *Client) String() string { return "SCIM at " + c.users }

// GoString hides the access token from %#v too.
func (c *Client) GoString() string { return c.String() }

// Lookup implements directory.Directory.
func (c *Client) Lookup(ctx context.Context, username string) (*directory.Person, error) {
	if err := source.CheckName(username); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, source.MaxLookup)
	defer cancel()
	filter, err := equal(c.config.Match, username)
	if err != nil {
		return nil, err
	}
	var choice source.Choice[*directory.Person]
	for !choice.Full() {
		page, err := c.page(ctx, filter, choice.Seen()+1)
		if err != nil {
			return nil, err
		}
		if err := c.weigh(page.Resources, username, &choice); err != nil {
			return nil, err
		}
		switch {
		case choice.Seen() >= *page.TotalResults, choice.Twice():
			return choice.One()
		case len(page.Resources) == 0:
			return nil, rest.Garbage("it announces more users than it shows")
		}
	}
	return nil, source.ErrTooMany
}

// equal is the filter of RFC 7644 section 3.4.2.2, whose values are JSON strings.
func equal(attribute, value string) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return attribute + " eq " + strings.TrimSuffix(text.String(), "\n"), err
}

// page reads the users that begin with the start-th; the first is 1. The service may hand out fewer than it is asked for.
func (c *Client) page(ctx context.Context, filter string, start int) (*listResponse, error) {
	query := url.Values{
		"filter": {filter}, "attributes": {attributes},
		"startIndex": {strconv.Itoa(start)}, "count": {strconv.Itoa(c.config.PageSize)},
	}
	var page listResponse
	if err := c.service.Get(ctx, c.users+"?"+query.Encode(), &page); err != nil {
		return nil, err
	}
	return &page, page.check()
}

// weigh counts the users, and accepts or refuses those who have exactly the name.
func (c *Client) weigh(users []user, name string, choice *source.Choice[*directory.Person]) error {
	for i := range users {
		if err := choice.See(users[i].ID); err != nil {
			return err
		}
		switch {
		case !c.named(&users[i], name):
		case users[i].disabled(c.config.RequireActive):
			choice.Refuse(source.ErrDisabled)
		default:
			choice.Accept(users[i].person())
		}
	}
	return nil
}

func (c *Client) named(u *user, name string) bool {
	held := []string{u.UserName}
	switch c.config.Match {
	case MatchEmail:
		held = u.addresses()
	case MatchExternalID:
		held = []string{u.ExternalID}
	}
	return slices.ContainsFunc(held, func(text string) bool { return source.Same(text, name, c.config.CaseInsensitive) })
}
