package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/proxy/accesslog"
	"github.com/AlaudaDevops/countersign/pkg/proxy/denial"
)

// Paths of the proxy's own endpoints.
const (
	pathExplain = "/-/explain"
	pathInbox   = "/-/inbox"
	pathWhois   = "/-/whois"
)

// serveOwn serves what is asked of the proxy itself, to any authenticated caller.
func (c *call) serveOwn() {
	path := c.route.Path.String()
	if path == pathWhois {
		c.whois()
		return
	}
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		c.deny(invalid("the proxy's own endpoints are only read; use GET"))
		return
	}
	switch {
	case path == pathExplain:
		c.explain()
	case path == pathInbox:
		c.inbox()
	case path == "/v2" || path == "/v2/":
		c.registryPing()
	case strings.HasPrefix(path, "/v2/"):
		c.deny(nothingHere("there is no such repository; name it namespaces/NAMESPACE/connectors/NAME/REPOSITORY"))
	default:
		c.deny(nothingHere("there is nothing at this path; connectors are at /namespaces/NAMESPACE/connectors/NAME/"))
	}
}

// alive refuses a token that has died with its pod or service account.
func (c *call) alive() *refusal {
	reason, message := c.gate.Alive(c.r.Context(), c.identity)
	if reason == "" {
		return nil
	}
	no := &refusal{reason: reason, message: message}
	if reason == approvalv1alpha1.ReasonOriginPending {
		no.retryAfter = retrySoon
	}
	return no
}

func nothingHere(sentence string) refusal {
	return refusal{reason: approvalv1alpha1.ReasonConnectorUnknown, message: sentence}
}

// registryPing answers what registry clients ask before anything else, when no repository is known yet (OCI
// distribution specification, "Determining Support"): that this is a registry, and that their token is good.
func (c *call) registryPing() {
	c.response.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	c.reply(struct{}{})
}

// reply answers an own endpoint with a document.
func (c *call) reply(document any) {
	body, err := json.Marshal(document)
	if err != nil {
		c.deny(refusal{reason: approvalv1alpha1.ReasonError, message: "the answer cannot be written; tell the operators of the proxy"})
		return
	}
	c.verdict, c.reason = denial.VerdictAllow, accesslog.ReasonOwn
	h := c.response.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(denial.HeaderVerdict, denial.VerdictAllow)
	h.Set(denial.HeaderReason, accesslog.ReasonOwn)
	h.Set(denial.HeaderRequestID, c.id)
	c.hasten(func() {
		c.WriteHeader(http.StatusOK)
		if c.r.Method != http.MethodHead {
			// The client may be gone; there is nobody left to tell.
			_, _ = c.Write(body)
		}
	})
}
