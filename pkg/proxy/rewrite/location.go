// Package rewrite translates between what the client sees and what the tool sees: URLs in headers, the source of a blob
// mount, and the headers themselves. It is pure. Bodies are never changed.
package rewrite

import (
	"net/url"
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/proxy/route"
)

// Map translates URLs of the tool into URLs of the proxy, for the answer to one request.
type Map struct {
	Route *route.Route
	// Request is the tool's URL that was asked.
	Request *url.URL
	// Targets are all addresses of the connector.
	Targets []route.Target
	// PublicURL is the proxy's own base URL without a slash at the end. A client that came by the connector's host
	// name can only be sent to an extension with it.
	PublicURL string
}

// URL translates a reference in a header of the tool's answer. It is false, and the reference unchanged, if that leads
// to nowhere behind the connector.
func (m *Map) URL(reference string) (string, bool) {
	u, err := m.Request.Parse(reference)
	if err != nil {
		return reference, false
	}
	for _, target := range m.Targets {
		path, ok := below(u, target.URL)
		if !ok {
			continue
		}
		if translated, ok := m.client(target.Extension, path); ok {
			return translated + tail(u), true
		}
	}
	return reference, false
}

// below is the path of u behind base, if u lies there. The scheme may differ: a tool behind a TLS proxy does not
// know that it is reached by https.
func below(u, base *url.URL) (string, bool) {
	if u.User != nil || !sameHost(u, base) {
		return "", false
	}
	path, ok := strings.CutPrefix(u.EscapedPath(), strings.TrimSuffix(base.EscapedPath(), "/"))
	if !ok {
		return "", false
	}
	if path == "" {
		return "/", true
	}
	// A second slash at the front would make the rest a host name.
	return path, path[0] == '/' && !strings.HasPrefix(path, "//")
}

func sameHost(a, b *url.URL) bool {
	if !strings.EqualFold(a.Hostname(), b.Hostname()) {
		return false
	}
	return a.Port() == b.Port() || port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// client is where the client finds the path of a target.
func (m *Map) client(extension, path string) (string, bool) {
	asked := route.Route{Form: route.Path, Namespace: m.Route.Namespace, Name: m.Route.Name, Extension: extension}
	switch m.Route.Form {
	case route.Host:
		if extension == "" {
			return path, true
		}
		return m.PublicURL + asked.Prefix() + path, m.PublicURL != ""
	case route.Registry:
		if rest, ok := strings.CutPrefix(path, "/v2/"); ok && extension == "" {
			return "/v2" + asked.Prefix() + "/" + rest, true
		}
		return asked.Prefix() + path, true
	case route.Path:
		return asked.Prefix() + path, true
	case route.Own:
	}
	return "", false
}

func tail(u *url.URL) string {
	var s string
	if u.RawQuery != "" {
		s = "?" + u.RawQuery
	}
	if u.Fragment != "" {
		s += "#" + u.EscapedFragment()
	}
	return s
}

// Link translates the references of a Link header (RFC 8288), such as the next page of a registry's catalogue.
func (m *Map) Link(value string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(value, "<")
		reference, after, closed := strings.Cut(rest, ">")
		if !found || !closed {
			out.WriteString(value)
			return out.String()
		}
		translated, _ := m.URL(reference)
		out.WriteString(before + "<" + translated + ">")
		value = after
	}
}
