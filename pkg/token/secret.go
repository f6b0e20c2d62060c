package token

// bearer is a token at rest. Whatever prints it, prints a placeholder: fmt by any verb, JSON and
// every logr sink.
type bearer string

const hidden = "(token hidden)"

// String hides the token.
func (bearer) String() string { return hidden }

// GoString hides the token.
func (bearer) GoString() string { return hidden }

// MarshalLog hides the token from logr.
func (bearer) MarshalLog() any { return hidden }

// MarshalText hides the token from JSON and YAML.
func (bearer) MarshalText() ([]byte, error) { return []byte(hidden), nil }
