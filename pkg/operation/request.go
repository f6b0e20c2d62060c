package operation

import (
	"errors"
	"slices"
	"strings"
)

// ErrBadRequest is what an error Is when the request itself is refused (400), before anything is decided about it.
var ErrBadRequest = errors.New("bad request")

// refusal is an ErrBadRequest whose text is one sentence for the caller.
type refusal struct{ sentence string }

func (r refusal) Error() string { return r.sentence }

func (r refusal) Is(target error) bool { return target == ErrBadRequest }

var errMethodOverride = refusal{"the request carries a method-override header; send the method that is meant"}

// Request is what Classify looks at.
type Request struct {
	Method string
	// Path is the tool's path, without our prefix.
	Path Path
	// RawQuery is the query as sent, without the question mark.
	RawQuery string
	// Upgrade tells that the connection is to become something else, such as a WebSocket or SPDY.
	Upgrade bool
	// MethodOverride tells that a header asks for another method than Method.
	MethodOverride bool
	// FormBody tells that the body may carry query parameters, which tools read together with the query or before it.
	FormBody bool
}

// methodOverrides are the headers by which frameworks let a client mean another method than it sends.
var methodOverrides = []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}

// NewRequest fills in what the header (an http.Header) says. Names count whatever their case, and with underscores in
// place of dashes, because CGI and its successors cannot tell them apart.
func NewRequest(method string, path Path, rawQuery string, header map[string][]string) Request {
	r := Request{Method: method, Path: path, RawQuery: rawQuery}
	for name, values := range header {
		switch {
		case isHeader(name, "Upgrade"):
			r.Upgrade = true
		case isHeader(name, "Connection"):
			r.Upgrade = r.Upgrade || slices.ContainsFunc(values, hasUpgradeToken)
		case isHeader(name, "Content-Type"):
			r.FormBody = r.FormBody || slices.ContainsFunc(values, isForm)
		case slices.ContainsFunc(methodOverrides, func(known string) bool { return isHeader(name, known) }):
			r.MethodOverride = true
		}
	}
	return r
}

// isHeader compares header names as RFC 3875 maps them to variables.
func isHeader(name, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i := range len(name) {
		if headerByte(name[i]) != headerByte(want[i]) {
			return false
		}
	}
	return true
}

func headerByte(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + ('a' - 'A')
	}
	return c
}

func hasUpgradeToken(value string) bool {
	for token := range strings.SplitSeq(value, ",") {
		if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
			return true
		}
	}
	return false
}

// isForm asks only whether the type speaks of a form: tools differ in how they parse the rest.
func isForm(contentType string) bool {
	return strings.Contains(strings.ToLower(contentType), "form")
}
