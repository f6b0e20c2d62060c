package proxy

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// retrySoon is told to clients when the same request may succeed in a moment.
const retrySoon = time.Second

// authenticate finds out who the caller is.
func (c *call) authenticate() *refusal {
	bearer, sentence := credentials(c.r.Header)
	if sentence != "" {
		return &refusal{reason: approvalv1alpha1.ReasonUnauthenticated, message: sentence}
	}
	c.bearer = bearer
	identity, err := c.tokens.Authenticate(c.r.Context(), bearer)
	if err != nil {
		no := unauthenticated(err)
		return &no
	}
	c.identity = identity
	return nil
}

func unauthenticated(err error) refusal {
	var known *token.Error
	switch {
	case !errors.As(err, &known):
		return refusal{reason: approvalv1alpha1.ReasonNotReady, message: "the token cannot be checked at the moment; try again shortly", retryAfter: retrySoon}
	case known.Reason == token.ReasonNotReady:
		return refusal{reason: approvalv1alpha1.ReasonNotReady, message: known.Detail, retryAfter: retrySoon}
	}
	return refusal{reason: approvalv1alpha1.ReasonUnauthenticated, message: known.Detail}
}

// credentials reads the one Authorization header: a bearer token (RFC 6750), or a password that is one (RFC 7617), whose
// user name says nothing. The sentence is empty if there is a token.
func credentials(h http.Header) (bearer, sentence string) {
	values := h["Authorization"]
	switch len(values) {
	case 0:
		return "", "no token was sent; send one as a bearer token, or as the password of any user"
	case 1:
	default:
		return "", "more than one Authorization header was sent; send one"
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		bearer = strings.TrimSpace(rest)
	case strings.EqualFold(scheme, "Basic"):
		bearer = password(rest)
	default:
		return "", "the Authorization header is neither Bearer nor Basic; send a token as one of them"
	}
	if bearer == "" {
		return "", "the Authorization header holds no token; send one as a bearer token, or as the password of any user"
	}
	return bearer, ""
}

func password(encoded string) string {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return ""
	}
	_, password, _ := strings.Cut(string(decoded), ":")
	return password
}
