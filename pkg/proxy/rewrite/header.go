package rewrite

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// CheckRequest refuses, with one sentence, the headers by which a request would be another one than it looks.
func CheckRequest(h http.Header) error {
	for name, values := range h {
		switch {
		case name == "Upgrade" && slices.ContainsFunc(values, isTunnel):
			return errors.New("the request carries an Upgrade header to a protocol in which further requests would pass unjudged; leave it out")
		case strings.HasPrefix(name, "Impersonate-"):
			return errors.New("the request carries an Impersonate header, but a connector is used only as oneself; leave it out")
		case name == "X-Original-Url", name == "X-Rewrite-Url", name == "X-Original-Uri":
			return errors.New("the request carries a header that names another path than its own; send the path that is meant")
		case name == "Destination":
			return errors.New("the request carries a Destination header, whose path cannot be judged; copy or move by other means")
		}
	}
	return nil
}

// tunnels are protocols that carry whole requests, or packets to anywhere (RFC 9110 section 7.8, RFC 9113 section 3.1,
// RFC 2817, RFC 9298, RFC 9484).
var tunnels = []string{"h2c", "h2", "http", "tls", "connect-udp", "connect-ip"}

// isTunnel reads a list of protocols, each a name with or without a version.
func isTunnel(value string) bool {
	for protocol := range strings.SplitSeq(value, ",") {
		name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(protocol)), "/")
		if slices.Contains(tunnels, name) {
			return true
		}
	}
	return false
}

// credentials and identities of the caller, beside whole families of names. Some tools take them instead of what the
// proxy sends, so the tool would act for somebody else than was decided about.
var callerHeaders = map[string]bool{
	"Api-Key":             true,
	"Apikey":              true,
	"Authentication":      true,
	"Authorization":       true,
	"Cf-Connecting-Ip":    true,
	"Client-Cert":         true,
	"Client-Cert-Chain":   true,
	"Cookie":              true,
	"Cookie2":             true,
	"Deploy-Token":        true,
	"Forwarded":           true,
	"From":                true,
	"Gitlab-Ci-Token":     true,
	"Id-Token":            true,
	"Job-Token":           true,
	"Private-Token":       true,
	"Proxy-Authorization": true,
	"Remote-Email":        true,
	"Remote-Groups":       true,
	"Remote-Name":         true,
	"Remote-User":         true,
	"Sudo":                true,
	"True-Client-Ip":      true,
	"Via":                 true,
	"X-Access-Token":      true,
	"X-Api-Key":           true,
	"X-Apikey":            true,
	"X-Auth":              true,
	"X-Authorization":     true,
	"X-Client-Cert":       true,
	"X-Client-Ip":         true,
	"X-Cluster-Client-Ip": true,
	"X-Consul-Token":      true,
	"X-Email":             true,
	"X-Groups":            true,
	"X-Id-Token":          true,
	"X-Jfrog-Art-Api":     true,
	"X-Jwt-Assertion":     true,
	"X-Nomad-Token":       true,
	"X-Originating-Ip":    true,
	"X-Real-Ip":           true,
	"X-Registry-Auth":     true,
	"X-Roles":             true,
	"X-Session-Token":     true,
	"X-Token":             true,
	"X-User":              true,
	"X-User-Email":        true,
	"X-User-Groups":       true,
	"X-User-Id":           true,
	"X-User-Name":         true,
	"X-User-Roles":        true,
	"X-Userinfo":          true,
	"X-Username":          true,
}

var callerFamilies = []string{
	"X-Remote-", "X-Forwarded-", "X-Auth-", "X-Authenticated-", "X-Webauth-", "X-Amzn-Oidc-", "X-Goog-Authenticated-",
	"X-Ssl-", "Ssl-Client-", "X-Vault-", "Cf-Access-", "Countersign-", "X-Client-Cert-", "X-Consumer-", "X-Envoy-", "X-Goog-Iap-",
	"X-Ms-Client-Principal", "X-Original-", "X-Proxy-",
}

// websocketBearer is the subprotocol in which browsers send a token to the Kubernetes API.
const websocketBearer = "base64url.bearer.authorization.k8s.io."

// ToTool takes out of a request's header whatever tells the tool about the caller: credentials, identities and
// addresses. Names with an underscore go too, because CGI and its successors read them as dashes.
func ToTool(h http.Header) {
	for name := range h {
		if callerHeaders[name] || strings.IndexByte(name, '_') >= 0 || isFamily(name) {
			delete(h, name)
		}
	}
	if protocols, ok := h["Sec-Websocket-Protocol"]; ok {
		dropBearer(h, protocols)
	}
}

func isFamily(name string) bool {
	// All families begin with one of these letters; most headers do not.
	if name == "" || name[0] != 'X' && name[0] != 'S' && name[0] != 'C' {
		return false
	}
	for _, family := range callerFamilies {
		if strings.HasPrefix(name, family) {
			return true
		}
	}
	return false
}

func dropBearer(h http.Header, values []string) {
	var kept []string
	for _, value := range values {
		for protocol := range strings.SplitSeq(value, ",") {
			if protocol = strings.TrimSpace(protocol); !strings.HasPrefix(protocol, websocketBearer) {
				kept = append(kept, protocol)
			}
		}
	}
	if len(kept) == 0 {
		delete(h, "Sec-Websocket-Protocol")
		return
	}
	h["Sec-Websocket-Protocol"] = []string{strings.Join(kept, ", ")}
}

// toolHeaders of an answer are for whoever logged in to the tool, which is the proxy, or speak for the tool's host.
var toolHeaders = []string{
	"Set-Cookie", "Set-Cookie2", "Www-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info",
	"Authorization", "Proxy-Authorization", "X-Subject-Token", "X-Auth-Token", "X-Access-Token", "X-Api-Key", "X-Session-Token",
	"X-Vault-Token", "Private-Token", "X-Csrf-Token", "X-Harbor-Csrf-Token",
	// By these a web server in front of the proxy would be made to send what is its own.
	"X-Accel-Redirect", "X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-Url",
	"Alt-Svc", "Strict-Transport-Security", "Public-Key-Pins", "Clear-Site-Data", "Refresh", "Service-Worker-Allowed",
}

// FromTool takes out of an answer's header the tool's challenges, sessions and credentials, and what would bind the
// client, or who stands before the proxy, to the tool.
func FromTool(h http.Header) {
	for _, name := range toolHeaders {
		delete(h, name)
	}
	for name := range h {
		if strings.HasPrefix(name, "Countersign-") {
			delete(h, name)
		}
	}
}

// Isolate keeps a page of one tool from acting on another one in the same browser: on the proxy's own host all
// connectors share one origin. Clients that are no browsers do not look at it.
func Isolate(h http.Header) {
	h["Content-Security-Policy"] = sandbox
}

var sandbox = []string{"sandbox"}
