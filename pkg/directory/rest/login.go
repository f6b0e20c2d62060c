package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

const (
	// spare is how long before its end a token is replaced, if it lives long enough.
	spare = 30 * time.Second
	// unspecified is how long a token is used whose lifetime the server does not tell.
	unspecified = time.Minute
)

// File is the Login with a token that somebody else keeps in a file.
type File string

// Token implements Login.
func (f File) Token(context.Context) (source.Secret, error) {
	token, err := source.ReadSecret(string(f))
	if err != nil {
		return "", source.Mend("bearerTokenFile: %s", err)
	}
	return token, nil
}

// Refused implements Login: there is only the one token.
func (File) Refused(context.Context, source.Secret) bool { return false }

// ClientCredentials is the Login that fetches tokens (RFC 6749 section 4.4) and keeps each until shortly before its end.
type ClientCredentials struct {
	HTTP *http.Client
	// Endpoint returns the address of the token endpoint.
	Endpoint func(context.Context) (string, error)
	ClientID string
	// SecretFile holds the client's secret.
	SecretFile string
	Scopes     []string
	Clock      clock.PassiveClock

	// turn lets one at a time look at the token and fetch the next; the others wait for it, no longer than they may.
	turn  chan struct{}
	token source.Secret
	until time.Time
}

// NewClientCredentials completes the value.
func NewClientCredentials(c ClientCredentials) *ClientCredentials {
	c.turn = make(chan struct{}, 1)
	return &c
}

// String hides the token.
func (c *ClientCredentials) String() string { return "client credentials of " + c.ClientID }

// GoString hides the token from %#v too.
func (c *ClientCredentials) GoString() string { return c.String() }

// Token implements Login.
func (c *ClientCredentials) Token(ctx context.Context) (source.Secret, error) {
	if err := c.enter(ctx); err != nil {
		return "", err
	}
	defer c.leave()
	if c.token != "" && c.Clock.Now().Before(c.until) {
		return c.token, nil
	}
	fetched, err := c.fetch(ctx)
	if err != nil {
		return "", err
	}
	c.token, c.until = source.Secret(fetched.AccessToken), c.Clock.Now().Add(usable(fetched))
	return c.token, nil
}

// Refused implements Login.
func (c *ClientCredentials) Refused(ctx context.Context, token source.Secret) bool {
	if err := c.enter(ctx); err != nil {
		return false
	}
	defer c.leave()
	if c.token == token {
		c.token = ""
	}
	return true
}

func (c *ClientCredentials) enter(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return source.Unanswered(ctx)
	}
}

func (c *ClientCredentials) leave() { <-c.turn }

func usable(token *oauth2.Token) time.Duration {
	if token.Expiry.IsZero() {
		return unspecified
	}
	// The library has computed the expiry from this clock.
	lifetime := time.Until(token.Expiry)
	return lifetime - min(spare, lifetime/5)
}

func (c *ClientCredentials) fetch(ctx context.Context) (*oauth2.Token, error) {
	endpoint, err := c.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := source.ReadSecret(c.SecretFile)
	if err != nil {
		return nil, source.Mend("clientSecretFile: %s", err)
	}
	// Every authorization server takes the credentials in the header (RFC 6749 section 2.3.1).
	config := clientcredentials.Config{
		ClientID: c.ClientID, ClientSecret: string(secret), TokenURL: endpoint, Scopes: c.Scopes, AuthStyle: oauth2.AuthStyleInHeader,
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, c.HTTP))
	switch {
	case err != nil:
		return nil, c.explain(ctx, err)
	case !strings.EqualFold(token.Type(), "Bearer"):
		return nil, source.Mend("the token endpoint hands out tokens of another type than Bearer: let it hand out those")
	}
	return token, nil
}

// tokenErrors are the codes of RFC 6749 section 5.2. Whatever else the server says stays unsaid.
var tokenErrors = []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}

func (c *ClientCredentials) explain(ctx context.Context, err error) error {
	var refused *oauth2.RetrieveError
	var wrapped *url.Error
	switch {
	case errors.As(err, &wrapped), ctx.Err() != nil:
		return unreachable(ctx, err)
	case !errors.As(err, &refused):
		return source.Unreachable("the token endpoint's answer is no access token; check the URL of the token endpoint")
	}
	text := fmt.Sprintf("the token endpoint answered %d %s", refused.Response.StatusCode, http.StatusText(refused.Response.StatusCode))
	if slices.Contains(tokenErrors, refused.ErrorCode) {
		text += " (" + refused.ErrorCode + ")"
	}
	if status := refused.Response.StatusCode; status == http.StatusTooManyRequests || status >= http.StatusInternalServerError {
		return &directory.UnavailableError{Why: text, RetryAfter: retryAfter(c.Clock, status, refused.Response.Header)}
	}
	return source.Mend("%s: correct clientID, the content of clientSecretFile and the token endpoint", text)
}
