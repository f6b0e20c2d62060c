// Package keycloak looks people up with Keycloak's Admin REST API, as a client with a service account.
//
// A name is searched exactly and compared byte for byte with what is found, because Keycloak keeps user names and
// addresses in lower case. The service accounts of clients are users for Keycloak, but not people.
// An empty result is a no only while the realm shows anybody at all: it leaves out whom the login may not view.
//
// The tests run against a small server written from the public documentation of the API, not against Keycloak.
package keycloak

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

const jsonType = "application/json"

// Client is a directory.Directory.
type Client struct {
	config Config
	users  string // the address of the users
	realm  string // the address of the realm, for people
	public *rest.Service
	admin  *rest.Service
	search rest.Search[user]
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
	c.Match = cmp.Or(c.Match, MatchUsername)
	realm := url.PathEscape(c.Realm)
	k := &Client{
		config: c,
		users:  base.JoinPath("admin", "realms", realm, "users").String(),
		realm:  base.JoinPath("realms", realm).String(),
		public: &rest.Service{HTTP: client, Accept: jsonType, Clock: clock.RealClock{}, Hints: map[int]string{
			http.StatusNotFound: "correct url and realm, or set tokenURL",
		}},
	}
	k.search = rest.Search[user]{Page: k.page, ID: id, Names: k.names, Admit: k.admit, CaseInsensitive: c.CaseInsensitive}
	k.admin = &rest.Service{HTTP: client, Accept: jsonType, Clock: clock.RealClock{}, Hints: map[int]string{
		http.StatusUnauthorized: "let the client's service account log in to this realm",
		http.StatusForbidden:    "give the client's service account the role view-users of realm-management",
		http.StatusNotFound:     "correct url and realm",
	}}
	k.admin.Login = rest.NewClientCredentials(rest.ClientCredentials{
		HTTP: client, Endpoint: k.endpoint, ClientID: c.ClientID, SecretFile: c.ClientSecretFile, Clock: clock.RealClock{},
	})
	return k, nil
}

// String hides the access token.
func (c *Client) String() string { return "keycloak at " + c.realm }

// GoString hides the access token from %#v too.
func (c *Client) GoString() string { return c.String() }

// endpoint is where access tokens come from. The realm's own word counts only for its own host (OpenID Connect Discovery
// 1.0 section 4), because the client's secret is sent there.
func (c *Client) endpoint(ctx context.Context) (string, error) {
	if c.config.TokenURL != "" {
		return c.config.TokenURL, nil
	}
	var found struct {
		TokenEndpoint string `json:"token_endpoint"`
	}
	if err := c.public.Get(ctx, c.realm+"/.well-known/openid-configuration", &found); err != nil {
		return "", err
	}
	ours, err := url.Parse(c.realm)
	if err != nil {
		return "", err
	}
	theirs, err := url.Parse(found.TokenEndpoint)
	if err != nil || theirs.Scheme != ours.Scheme || theirs.Host != ours.Host {
		return "", source.Mend("the realm's OpenID configuration names a token endpoint that is not on the host of url: set tokenURL, if the client's secret may be sent there")
	}
	return found.TokenEndpoint, nil
}

// Lookup implements directory.Directory.
func (c *Client) Lookup(ctx context.Context, username string) (*directory.Person, error) {
	person, err := c.search.One(ctx, username)
	if errors.Is(err, source.ErrAbsent) {
		return nil, c.whyAbsent(ctx, err)
	}
	return person, err
}

// query asks for the users with the name, in full where their attributes are needed.
func (c *Client) query(name string) (url.Values, error) {
	attribute, isAttribute := strings.CutPrefix(c.config.Match, MatchAttribute)
	if !isAttribute {
		return url.Values{c.config.Match: {name}, "exact": {"true"}, "briefRepresentation": {"true"}}, nil
	}
	text, err := quote(name)
	return url.Values{"q": {attribute + ":" + text}, "exact": {"true"}, "briefRepresentation": {"false"}}, err
}

// quote writes a value of an attribute search, which ends at a blank unless it is quoted. A backslash escapes a quotation
// mark, but not itself: Keycloak drops doubled ones. So there are values that cannot be searched for.
func quote(value string) (string, error) {
	if strings.Contains(value, `\\`) || strings.Contains(value, `\"`) || strings.HasSuffix(value, `\`) {
		return "", &directory.UnknownError{Why: "the name has a backslash where Keycloak cannot search for one: give the person another name"}
	}
	return `"` + strings.ReplaceAll(value, `"`, `\"`) + `"`, nil
}

// page reads users with the name. Fewer than were asked for mean that there are no more.
func (c *Client) page(ctx context.Context, name string, seen int) (page []user, last bool, err error) {
	query, err := c.query(name)
	if err != nil {
		return nil, false, err
	}
	page, err = c.read(ctx, query, seen, c.config.PageSize)
	return page, len(page) < c.config.PageSize, err
}

func (c *Client) read(ctx context.Context, query url.Values, first, most int) ([]user, error) {
	query.Set("first", strconv.Itoa(first))
	query.Set("max", strconv.Itoa(most))
	var page []user
	if err := c.admin.Get(ctx, c.users+"?"+query.Encode(), &page); err != nil {
		return nil, err
	}
	if page == nil || len(page) > most {
		return nil, rest.Garbage("it is no list of users of the length that was asked for")
	}
	for i := range page {
		if !page[i].complete() {
			return nil, rest.Garbage("a user has no id, no username or no word about being enabled")
		}
	}
	return page, nil
}

// whyAbsent tells an empty realm, or one that hides its users, from one that does not know the name.
func (c *Client) whyAbsent(ctx context.Context, no error) error {
	anybody, err := c.read(ctx, url.Values{"briefRepresentation": {"true"}}, 0, 1)
	switch {
	case err != nil:
		return err
	case len(anybody) > 0:
		return no
	}
	return source.Mend("the realm shows nobody at all: give the client's service account the role view-users of realm-management, and check realm")
}
