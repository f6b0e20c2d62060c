package token

import "strings"

// bearer is a token at rest. Whatever prints it, prints a placeholder. The text stands behind a
// pointer because fmt calls no method on an unexported field of somebody else's struct, but does not
// follow its pointers either.
type bearer struct{ text *string }

const hidden = "(token hidden)"

// newBearer keeps a copy: the caller's string may be a small part of a large header.
func newBearer(token string) bearer {
	text := strings.Clone(token)
	return bearer{&text}
}

func (b bearer) is(token string) bool { return *b.text == token }

// String hides the token.
func (bearer) String() string { return hidden }

// GoString hides the token.
func (bearer) GoString() string { return hidden }

// MarshalLog hides the token from logr.
func (bearer) MarshalLog() any { return hidden }

// MarshalText hides the token from JSON and YAML.
func (bearer) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// String hides the token.
func (*compact) String() string { return hidden }

// GoString hides the token.
func (*compact) GoString() string { return hidden }

// MarshalLog hides the token from logr.
func (*compact) MarshalLog() any { return hidden }

// MarshalText hides the token from JSON and YAML.
func (*compact) MarshalText() ([]byte, error) { return []byte(hidden), nil }
