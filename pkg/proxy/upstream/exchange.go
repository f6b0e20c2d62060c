package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// hidden stands where a token would be printed.
const hidden = "(credential hidden)"

const (
	// maxTokens bounds the tokens of one registry; callers choose the repositories that they are for.
	maxTokens = 1024
	// challengeTTL is how long a registry's way of authentication is taken for known.
	challengeTTL = 10 * time.Minute
	// leastTokenLife is what a token lives if its service does not say (distribution specification, "Token response").
	leastTokenLife = 60 * time.Second
	// tokenMargin is taken off a token's life, for clocks and for the way to the registry.
	tokenMargin = 10 * time.Second
)

// exchange logs in to one registry as it asks to: with the credential itself, or with a token that the registry's token
// service gives for it. The token names the repositories of the operation, never more.
type exchange struct {
	tool     *Tool
	realms   []string
	clock    clock.PassiveClock
	timeout  time.Duration
	registry name.Registry
	invalid  error
	auth     authn.Authenticator

	challenge atomic.Pointer[challenge]
	flight    singleflight.Group

	mu     sync.Mutex
	tokens map[string]token
}

type challenge struct {
	*transport.Challenge
	at time.Time
	// realmPath is the path of the token service if it lies behind the connector's own address, else empty.
	realmPath string
}

// token is a registry's token as the value of an Authorization header. Whatever prints it, prints a placeholder.
type token struct {
	value   []string
	expires time.Time
}

// String hides the token.
func (token) String() string { return hidden }

// GoString hides the token.
func (token) GoString() string { return hidden }

// MarshalLog hides the token from logr.
func (token) MarshalLog() any { return hidden }

func newExchange(t *Tool, realms []string, clock clock.PassiveClock, timeout time.Duration) *exchange {
	x := &exchange{tool: t, realms: realms, clock: clock, timeout: timeout, auth: authn.Anonymous, tokens: map[string]token{}}
	if username, password, ok := t.credential.Basic(); ok {
		x.auth = &authn.Basic{Username: username, Password: password}
	}
	base := t.targets[0].URL
	var options []name.Option
	if base.Scheme == "http" {
		options = append(options, name.Insecure)
	}
	x.registry, x.invalid = name.NewRegistry(base.Host, options...)
	return x
}

// realms are the token services that the connector's owner lists: one URL or a list of them.
func realms(spec *connectorsv1alpha1.ConnectorSpec) []string {
	for _, p := range spec.Params {
		if p.Name != connectorsv1alpha1.ParamTokenRealms || p.Value == nil {
			continue
		}
		var one string
		if json.Unmarshal(p.Value.Raw, &one) == nil {
			return []string{one}
		}
		var many []string
		if json.Unmarshal(p.Value.Raw, &many) == nil {
			return many
		}
	}
	return nil
}

// roundTrip sends the request with what the registry wants to see. A token kept from before that the registry does not
// take any more is dropped, and the request sent once more if it has no body.
func (x *exchange) roundTrip(req *http.Request, operations []operation.Operation) (*http.Response, error) {
	c, err := x.challenged(req.Context())
	if err != nil {
		return nil, err
	}
	if c.isTokenService(req.URL) {
		return nil, errTokenService
	}
	res, kept, err := x.send(req, c, operations)
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		return res, err
	}
	x.challenge.CompareAndSwap(c, nil)
	if !kept || req.Body != nil && req.Body != http.NoBody {
		return res, nil
	}
	_ = res.Body.Close()
	res, _, err = x.send(req, c, operations)
	return res, err
}

// send logs in and sends; kept tells that a token from before was used, which is forgotten if it was refused.
func (x *exchange) send(req *http.Request, c *challenge, operations []operation.Operation) (res *http.Response, kept bool, err error) {
	if !strings.EqualFold(c.Scheme, "bearer") {
		x.tool.credential.Apply(req.Header)
		res, err = x.tool.transport.RoundTrip(req)
		return res, false, err
	}
	scopes := scopesOf(operations)
	t, kept, err := x.token(req.Context(), c, scopes)
	if err != nil {
		return nil, false, err
	}
	req.Header["Authorization"] = t.value
	res, err = x.tool.transport.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusUnauthorized {
		x.forget(scopes, t)
	}
	return res, kept, err
}

// isTokenService tells whether the path is the registry's own token service.
func (c *challenge) isTokenService(u *url.URL) bool {
	return c.realmPath != "" && strings.TrimSuffix(u.Path, "/") == c.realmPath
}

// errTokenService: its answer would be a token of the connector, which the caller could use past the proxy.
var errTokenService = refused("the registry's token service is not passed on; the proxy asks it itself")

// challenged finds out how the registry authenticates, as a client would: by asking for /v2/.
func (x *exchange) challenged(ctx context.Context) (*challenge, error) {
	if c := x.challenge.Load(); c != nil && x.clock.Since(c.at) < challengeTTL {
		return c, nil
	}
	if x.invalid != nil {
		return nil, notReady("the connector's address is no registry's name; tell the connector's owners", x.invalid)
	}
	found, err := x.once(ctx, "", func(ctx context.Context) (any, error) {
		pong, err := transport.Ping(ctx, x.registry, &guard{x})
		if err != nil {
			return nil, explainRegistry(err)
		}
		c := &challenge{Challenge: pong, at: x.clock.Now()}
		if u, err := url.Parse(pong.Parameters["realm"]); err == nil && x.isOwn(u) {
			c.realmPath = strings.TrimSuffix(u.Path, "/")
		}
		x.challenge.Store(c)
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return found.(*challenge), nil
}

func (x *exchange) token(ctx context.Context, c *challenge, scopes []string) (t token, kept bool, err error) {
	key := strings.Join(scopes, " ")
	if t, ok := x.known(key); ok {
		return t, true, nil
	}
	found, err := x.once(ctx, "scope "+key, func(ctx context.Context) (any, error) {
		answer, err := transport.Exchange(ctx, x.registry, x.auth, &guard{x}, scopes, c.Challenge)
		if err != nil {
			return nil, explainRegistry(err)
		}
		return x.keep(key, answer), nil
	})
	if err != nil {
		return token{}, false, err
	}
	return found.(token), false, nil
}

// once asks once for all who wait, whoever of them gives up.
func (x *exchange) once(ctx context.Context, key string, ask func(context.Context) (any, error)) (any, error) {
	done := x.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.timeout)
		defer cancel()
		return ask(ctx)
	})
	select {
	case result := <-done:
		return result.Val, result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (x *exchange) known(key string) (token, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t, ok := x.tokens[key]
	return t, ok && x.clock.Now().Before(t.expires)
}

func (x *exchange) keep(key string, answer *transport.Token) token {
	value := answer.Token
	if value == "" {
		value = answer.AccessToken
	}
	life := max(time.Duration(answer.ExpiresIn)*time.Second, leastTokenLife) - tokenMargin
	t := token{value: []string{"Bearer " + value}, expires: x.clock.Now().Add(life)}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.tokens) >= maxTokens {
		clear(x.tokens)
	}
	x.tokens[key] = t
	return t
}

// forget drops a token that was refused, unless another one took its place meanwhile.
func (x *exchange) forget(scopes []string, refused token) {
	key := strings.Join(scopes, " ")
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.Equal(x.tokens[key].value, refused.value) {
		delete(x.tokens, key)
	}
}

// isOwn tells whether the URL lies at the connector's own address.
func (x *exchange) isOwn(u *url.URL) bool {
	base := x.tool.targets[0].URL
	return u.Scheme == base.Scheme && strings.EqualFold(u.Host, base.Host)
}

// isRealm tells whether the connector's owner listed the token service; the query is the registry's to choose.
func (x *exchange) isRealm(u *url.URL) bool {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return u.User == nil && slices.Contains(x.realms, bare.String())
}

// isListed is isRealm for what callers ask: servers take a path with and without a slash at its end for the same, and
// decode it.
func (x *exchange) isListed(u *url.URL) bool {
	return slices.ContainsFunc(x.realms, func(realm string) bool {
		listed, err := url.Parse(realm)
		return err == nil && strings.EqualFold(u.Host, listed.Host) &&
			strings.TrimSuffix(u.Path, "/") == strings.TrimSuffix(listed.Path, "/")
	})
}

// guard lets the registry client reach the registry's own address and listed token services, and follow nothing.
type guard struct{ *exchange }

var (
	errOtherAddress = errors.New("not an address of the connector")
	errUnlisted     = refused("the registry names a token service that the connector does not list; its owners can add it to the parameter " + connectorsv1alpha1.ParamTokenRealms)
	errRedirect     = refused("the registry answers the login with a redirect, which is not followed; tell the connector's owners")
)

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	own := g.isOwn(req.URL)
	switch {
	case own && req.URL.Path == "/v2/":
		req = req.Clone(req.Context())
		req.URL.Path = strings.TrimSuffix(g.tool.targets[0].URL.Path, "/") + "/v2/"
	case own, g.isRealm(req.URL):
	case strings.EqualFold(req.URL.Host, g.tool.targets[0].URL.Host):
		// The registry client tries https before http; only the scheme of the address counts.
		return nil, errOtherAddress
	default:
		return nil, errUnlisted
	}
	res, err := g.tool.transport.RoundTrip(req)
	if err == nil && res.StatusCode >= 300 && res.StatusCode < 400 {
		_ = res.Body.Close()
		return nil, errRedirect
	}
	return res, err
}

// explainRegistry keeps the token service's words to itself: they may hold credentials.
func explainRegistry(err error) error {
	var known *Error
	var answer *transport.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &answer):
		return refused("the registry does not take the connector's credentials; tell the connector's owners")
	case strings.HasPrefix(err.Error(), "invalid realm"), strings.HasPrefix(err.Error(), "malformed"), strings.HasPrefix(err.Error(), "no token"):
		return refused("the registry's token service cannot be used as it describes it; tell the connector's owners")
	}
	return Explain(err)
}
