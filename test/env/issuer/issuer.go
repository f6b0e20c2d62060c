// Package issuer is an OpenID Connect issuer of people's ID tokens for tests and development: it
// publishes discovery and keys over HTTPS and mints whatever claims it is told to. It logs nobody
// in; holding its key file is the only credential.
package issuer

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
)

// DefaultTTL is how long a token lives when Claims.TTL is zero.
const DefaultTTL = time.Hour

var signingMethod = jwt.SigningMethodRS256

// Claims are what a minted token says of a person.
type Claims struct {
	// Subject is the person's stable identifier at the issuer (sub).
	Subject string
	// Email becomes email, with email_verified true.
	Email string
	// Name is the display name (name); empty leaves the claim out.
	Name   string
	Groups []string
	// Audience is aud; at least one.
	Audience []string
	// TTL counts from now; zero means DefaultTTL, a negative one mints an expired token.
	TTL time.Duration
	// Override sets or, with nil, removes single claims after all others, to mint odd tokens.
	Override map[string]any
}

// Issuer mints tokens in the name of one URL.
type Issuer struct {
	url   string
	keys  *Keys
	clock clock.PassiveClock
}

// New returns an issuer whose iss claim is url, without a trailing slash.
func New(url string, keys *Keys, clk clock.PassiveClock) *Issuer {
	return &Issuer{url: url, keys: keys, clock: clk}
}

// URL is the value of iss.
func (i *Issuer) URL() string { return i.url }

// Rotate replaces the signing key, see Keys.Rotate.
func (i *Issuer) Rotate(keep int) error { return i.keys.Rotate(keep) }

// Mint returns a signed token (RS256) with a fresh jti, valid from now.
func (i *Issuer) Mint(claims Claims) (string, error) {
	if len(claims.Audience) == 0 {
		return "", errors.New("a token needs an audience; name the client ID it is meant for")
	}
	keys, err := i.keys.load()
	if err != nil {
		return "", err
	}
	token := jwt.NewWithClaims(signingMethod, i.claims(claims))
	token.Header["kid"] = keys[0].id
	signed, err := token.SignedString(keys[0].private)
	if err != nil {
		return "", fmt.Errorf("the token for %s could not be signed: %w", claims.Subject, err)
	}
	return signed, nil
}

func (i *Issuer) claims(from Claims) jwt.MapClaims {
	now := i.clock.Now()
	ttl := from.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	claims := jwt.MapClaims{
		"iss":            i.url,
		"sub":            from.Subject,
		"aud":            from.Audience,
		"jti":            uuid.NewString(),
		"iat":            now.Unix(),
		"nbf":            now.Unix(),
		"exp":            now.Add(ttl).Unix(),
		"email":          from.Email,
		"email_verified": true,
		"groups":         from.Groups,
	}
	if from.Name != "" {
		claims["name"] = from.Name
	}
	maps.Copy(claims, from.Override)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}
