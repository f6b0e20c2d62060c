// Package route finds the connector that a request is for, and the tool's own path, from the host and the raw request
// target alone. It is pure. The tool's path is parsed here once; everything that is decided and forwarded afterwards
// uses that parse.
package route

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// Form is how a request names its connector.
type Form uint8

// Forms of a request.
const (
	// Own is a request for the proxy itself: /-/explain, /-/inbox, /-/whois, the registry ping /v2/, or nothing that is known.
	Own Form = iota
	// Host names the connector in the host: c-{name}.{ns}.<suffix>. The whole path is the tool's.
	Host
	// Path is /namespaces/{ns}/connectors/{name}/...; behind it, /-ext/{extension}/ selects a further address.
	Path
	// Registry is /v2/namespaces/{ns}/connectors/{name}/<repository>...: registry clients always ask below /v2/ of the
	// host, so the connector stands at the front of the repository's name. The tool's path is /v2/<repository>...
	Registry
)

// Segments of our own prefixes.
const (
	registryRoot = "/v2"
	namespaces   = "/namespaces/"
	connectors   = "connectors/"
	extension    = "/-ext/"
	hostMark     = "c-"
)

// Limits of Kubernetes names: a namespace is a DNS label; a connector's is shorter by hostMark.
const (
	maxNamespace = 63
	maxName      = 61
)

// Route is where a request goes.
type Route struct {
	Form            Form
	Namespace, Name string
	// Extension is the name of the address extension; empty for the connector's own address.
	Extension string
	// Path is the tool's path without our prefix, or for Own the whole path.
	Path operation.Path
	// RawQuery is the query as it was sent, without the question mark.
	RawQuery string
}

// Prefix is what stands before the tool's path on this host, without a slash at the end: "" for Host and Own.
// A Registry route has it behind /v2 for the tool's paths below /v2, and at the front, as a Path route, for all others.
func (r *Route) Prefix() string {
	if r.Form != Path && r.Form != Registry {
		return ""
	}
	prefix := namespaces + r.Namespace + "/" + connectors + r.Name
	if r.Extension != "" {
		prefix += extension + r.Extension
	}
	return prefix
}

// RepositoryPrefix stands before the names of the tool's repositories on a Registry route, with a slash at the end;
// it is empty on every other route.
func (r *Route) RepositoryPrefix() string {
	if r.Form != Registry {
		return ""
	}
	return r.Prefix()[1:] + "/"
}

// Target is one address of a connector. The extension's name is empty for the connector's own address.
type Target struct {
	Extension string
	URL       *url.URL
}

// Router knows the host names of connectors.
type Router struct {
	suffixes []string
}

// NewRouter takes the domains below which connectors have host names, such as "connectors.local".
func NewRouter(suffixes []string) *Router {
	r := &Router{}
	for _, s := range suffixes {
		r.suffixes = append(r.suffixes, "."+strings.ToLower(strings.Trim(s, ".")))
	}
	return r
}

// Route reads the Host header and the raw request target (path and query, as on the request line). Its error is an
// operation.ErrBadRequest with one sentence for the caller. The namespace and name are DNS labels, but nothing says
// that such a connector exists.
func (r *Router) Route(host, target string) (Route, error) {
	if !strings.HasPrefix(target, "/") {
		return Route{}, refuse("the request target is not a path; send the path alone, without scheme and host")
	}
	raw, query, _ := strings.Cut(target, "?")
	if err := checkQuery(query); err != nil {
		return Route{}, err
	}
	route, raw := r.locate(host, raw)
	route.RawQuery = query
	path, err := operation.Parse(raw)
	if err != nil {
		return Route{}, err
	}
	route.Path = path
	return route, nil
}

// locate tells the form and cuts our prefix off the raw path. The prefix has no escapes, so it is read byte for byte.
func (r *Router) locate(host, raw string) (Route, string) {
	if ns, name, ok := r.splitHost(host); ok {
		return Route{Form: Host, Namespace: ns, Name: name}, raw
	}
	if ns, name, rest, ok := splitPath(raw); ok {
		ext, rest := splitExtension(rest)
		return Route{Form: Path, Namespace: ns, Name: name, Extension: ext}, rest
	}
	below, ok := strings.CutPrefix(raw, registryRoot)
	if !ok {
		return Route{Form: Own}, raw
	}
	if ns, name, rest, ok := splitPath(below); ok {
		return Route{Form: Registry, Namespace: ns, Name: name}, registryRoot + rest
	}
	return Route{Form: Own}, raw
}

// splitHost reads c-{name}.{ns}.<suffix>. Every other host is the proxy's own.
func (r *Router) splitHost(host string) (ns, name string, ok bool) {
	if !strings.HasPrefix(host, hostMark) && !strings.HasPrefix(host, "C-") {
		return "", "", false
	}
	host = strings.ToLower(strings.TrimSuffix(withoutPort(host), "."))
	for _, suffix := range r.suffixes {
		labels, found := strings.CutSuffix(host, suffix)
		if !found {
			continue
		}
		name, ns, two := strings.Cut(labels[len(hostMark):], ".")
		if two && isLabel(name, maxName) && isLabel(ns, maxNamespace) {
			return ns, name, true
		}
	}
	return "", "", false
}

func withoutPort(host string) string {
	if bare, _, err := net.SplitHostPort(host); err == nil {
		return bare
	}
	return host
}

// splitPath reads /namespaces/{ns}/connectors/{name} and what follows, "/" if nothing does.
func splitPath(raw string) (ns, name, rest string, ok bool) {
	rest, ok = strings.CutPrefix(raw, namespaces)
	if !ok {
		return "", "", "", false
	}
	ns, rest, _ = strings.Cut(rest, "/")
	if rest, ok = strings.CutPrefix(rest, connectors); !ok {
		return "", "", "", false
	}
	name, rest = cutSegment(rest)
	return ns, name, rest, isLabel(ns, maxNamespace) && isLabel(name, maxName)
}

// splitExtension reads /-ext/{extension}; a path that only looks like it stays the tool's.
func splitExtension(raw string) (name, rest string) {
	below, ok := strings.CutPrefix(raw, extension)
	if !ok {
		return "", raw
	}
	name, rest = cutSegment(below)
	if !isLabel(name, maxNamespace) {
		return "", raw
	}
	return name, rest
}

func cutSegment(raw string) (segment, rest string) {
	if i := strings.IndexByte(raw, '/'); i >= 0 {
		return raw[:i], raw[i:]
	}
	return raw, "/"
}

// isLabel tells whether s is a DNS label (RFC 1123) in lower case.
func isLabel(s string, max int) bool {
	if s == "" || len(s) > max || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// checkQuery refuses the bytes at which tools would end or split the query differently than it is judged here.
func checkQuery(query string) error {
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f || c == '#' || c == '\\' {
			return refuse(fmt.Sprintf("the query has the byte 0x%02x unescaped; percent-encode it", c))
		}
	}
	return nil
}

// refusal is an operation.ErrBadRequest with its own sentence.
type refusal struct{ error }

func refuse(sentence string) error { return refusal{errors.New(sentence)} }

func (r refusal) Is(target error) bool { return target == operation.ErrBadRequest }
