// Package denial writes refusals in the language of the client: registry error JSON, a Kubernetes Status, text that git
// prints, and otherwise a problem document (RFC 9457). Every form says what happened, who is still to answer, as whom the
// caller was seen and which command asks for approval.
package denial

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// Response headers of the verdict, on answers of tools too; a HEAD request has nothing else.
const (
	HeaderVerdict   = "Countersign-Verdict"
	HeaderReason    = "Countersign-Reason"
	HeaderRequestID = "Countersign-Request-Id"
)

// Values of HeaderVerdict and of the access log's verdict. Cut is a stream that was allowed first; it is only logged.
const (
	VerdictAllow = "allow"
	VerdictDeny  = "deny"
	VerdictCut   = "cut"
)

// Limits in runes of what others chose.
const (
	maxDetail = 1024
	maxName   = 256
)

// Denial is why a request was not passed on.
type Denial struct {
	// Reason is one of the reasons of apis/approval/v1alpha1; it decides the status code.
	Reason string
	// Detail is one sentence for people.
	Detail string
	// Passed tells that the request was allowed and passed on, and that the tool failed.
	Passed bool
	// ID is the access log's id of the request.
	ID string
	// Namespace and Name are the connector's; empty when the caller may not know of it.
	Namespace, Name string
	// Request is the namespace/name of the request for approval that the verdict speaks of, if there is one.
	Request string
	// WaitingFor is who or what has not answered yet.
	WaitingFor []duckv1alpha1.CheckWaiting
	// Ask is the complete command that asks for approval, where asking would help.
	Ask string
	// SeenAs is the user that the caller was taken for; empty before it is known.
	SeenAs string
	// RetryAfter is when the same request may succeed without anybody doing anything; 0 means unknown.
	RetryAfter time.Duration
}

// StatusCode is the HTTP status of a reason. What is not listed is 403: an unknown reason is a no.
func StatusCode(reason string) int {
	switch reason {
	case approvalv1alpha1.ReasonInvalidRequest:
		return http.StatusBadRequest
	case approvalv1alpha1.ReasonUnauthenticated:
		return http.StatusUnauthorized
	case approvalv1alpha1.ReasonConnectorUnknown:
		return http.StatusNotFound
	case approvalv1alpha1.ReasonToolUnreachable, approvalv1alpha1.ReasonToolRefused:
		return http.StatusBadGateway
	case approvalv1alpha1.ReasonToolTimeout:
		return http.StatusGatewayTimeout
	case approvalv1alpha1.ReasonNotReady, approvalv1alpha1.ReasonStale, approvalv1alpha1.ReasonUnguarded, approvalv1alpha1.ReasonOriginPending:
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden
}

// Write answers with the denial. The body is left out for HEAD.
func (d *Denial) Write(w http.ResponseWriter, method string, dialect Dialect) {
	contentType, body := dialect.render(d)
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	// A refusal must never outlive its reason in somebody's cache.
	h.Set("Cache-Control", "no-store")
	h.Set(HeaderVerdict, d.verdict())
	h.Set(HeaderReason, d.Reason)
	h.Set(HeaderRequestID, d.ID)
	if d.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(d.retrySeconds()))
	}
	code := StatusCode(d.Reason)
	if code == http.StatusUnauthorized {
		h["Www-Authenticate"] = dialect.challenges()
	}
	w.WriteHeader(code)
	if method != http.MethodHead {
		// The client may be gone; there is nobody left to tell.
		_, _ = w.Write(body)
	}
}

func (d *Denial) verdict() string {
	if d.Passed {
		return VerdictAllow
	}
	return VerdictDeny
}

// retrySeconds rounds up, because 0 would mean at once.
func (d *Denial) retrySeconds() int {
	return int((d.RetryAfter + time.Second - 1) / time.Second)
}

// lines are the parts of the text forms, most important first. What the first one says already is not repeated.
func (d *Denial) lines() []string {
	detail := plaintext.Line(d.Detail, maxDetail)
	lines := []string{strings.TrimRight(detail, ".") + " (" + d.Reason + ")"}
	if d.Request != "" && !strings.Contains(detail, d.Request) {
		lines = append(lines, "request for approval: "+plaintext.Line(d.Request, maxName))
	}
	if waiting := d.waiting(detail); waiting != "" {
		lines = append(lines, "still to answer: "+waiting)
	}
	if d.Ask != "" {
		lines = append(lines, "to ask: "+d.Ask)
	}
	if d.SeenAs != "" {
		lines = append(lines, "you are seen as "+plaintext.Line(d.SeenAs, maxName))
	}
	return append(lines, "id "+d.ID)
}

// sentence is the text form for clients that print one line.
func (d *Denial) sentence() string { return strings.Join(d.lines(), "; ") }

// waiting lists who is still to answer; it is empty if the detail names them all.
func (d *Denial) waiting(detail string) string {
	texts := make([]string, 0, len(d.WaitingFor))
	named := true
	for _, w := range d.WaitingFor {
		text := waitingText(w)
		named = named && strings.Contains(detail, text)
		texts = append(texts, text)
	}
	if named {
		return ""
	}
	return strings.Join(texts, ", ")
}

func waitingText(w duckv1alpha1.CheckWaiting) string {
	name := plaintext.Line(w.Name, maxName)
	switch w.Kind {
	case duckv1alpha1.WaitingForUser:
		name = "user " + name
	case duckv1alpha1.WaitingForGroup:
		name = "group " + name
	case duckv1alpha1.WaitingForOther:
	}
	if w.Missing > 1 {
		name += " (" + strconv.Itoa(int(w.Missing)) + " answers)"
	}
	return name
}
