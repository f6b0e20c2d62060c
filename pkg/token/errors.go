package token

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The reasons of an [Error].
const (
	// ReasonUnauthenticated says that the token is not accepted; asking again does not help.
	ReasonUnauthenticated = "Unauthenticated"
	// ReasonNotReady says that the token could not be checked now, because signing keys or the API
	// server could not be reached; the same token may be accepted later.
	ReasonNotReady = "NotReady"
)

// maxQuoted bounds how much of a text from a token, in runes, enters an error.
const maxQuoted = 128

// Error is why a token was not accepted.
type Error struct {
	// Reason is ReasonUnauthenticated or ReasonNotReady.
	Reason string
	// Detail is one sentence for the person who sent the token. It holds neither the token nor
	// anything about the inside of the cluster.
	Detail string

	cause error
}

// Error returns the detail.
func (e *Error) Error() string { return e.Detail }

// Unwrap returns what went wrong underneath, for logs; it may name internal addresses.
func (e *Error) Unwrap() error { return e.cause }

func refuse(format string, args ...any) *Error {
	return &Error{Reason: ReasonUnauthenticated, Detail: fmt.Sprintf(format, args...)}
}

func (e *Error) because(cause error) *Error {
	e.cause = cause
	return e
}

func errGarbled(what string, cause error) *Error {
	return refuse("the token is garbled (%s); send a complete token in the form header.payload.signature", what).because(cause)
}

func errAlgorithm(alg string, allowed []string) *Error {
	return refuse("the token is signed with algorithm %s, which is not accepted from its issuer; sign it with %s",
		quoted(alg), strings.Join(allowed, ", "))
}

func errUnknownIssuer(issuer string) *Error {
	return refuse("the token comes from issuer %s, which is not configured here; get one from the cluster or from your usual sign-in", quoted(issuer))
}

func errUnknownKey(kid, issuer string) *Error {
	return refuse("the token is signed with key %s, which issuer %s does not publish; get a new token", quoted(kid), quoted(issuer))
}

func errSignature(issuer string) *Error {
	return refuse("the token's signature does not match any key of issuer %s; get a new token", quoted(issuer))
}

func errExpired(at time.Time) *Error {
	return refuse("the token expired at %s; get a new one", stamp(at))
}

func errNotYetValid(from time.Time) *Error {
	return refuse("the token is not valid before %s; wait, or compare the clocks of issuer and proxy", stamp(from))
}

func errKeysUnavailable(issuer string, cause error) *Error {
	e := &Error{
		Reason: ReasonNotReady,
		Detail: fmt.Sprintf("the signing keys of issuer %s cannot be read at the moment, so the token cannot be checked; try again shortly", quoted(issuer)),
	}
	return e.because(cause)
}

func errReviewUnavailable(cause error) *Error {
	e := &Error{
		Reason: ReasonNotReady,
		Detail: "the API server cannot be asked about the token at the moment; try again shortly",
	}
	return e.because(cause)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// quoted shows a text that somebody else chose: shortened between runes, with control and
// bidirectional characters escaped, so that it cannot draw on a terminal.
func quoted(s string) string {
	if utf8.RuneCountInString(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(string([]rune(s)[:maxQuoted])) + "..."
}

func quotedAll(texts []string) string {
	const shown = 8
	out := make([]string, 0, shown)
	for _, t := range texts[:min(len(texts), shown)] {
		out = append(out, quoted(t))
	}
	if len(texts) > shown {
		out = append(out, "...")
	}
	return strings.Join(out, ", ")
}
