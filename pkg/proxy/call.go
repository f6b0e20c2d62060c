package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/proxy/accesslog"
	"github.com/AlaudaDevops/countersign/pkg/proxy/denial"
	"github.com/AlaudaDevops/countersign/pkg/proxy/rewrite"
	"github.com/AlaudaDevops/countersign/pkg/proxy/route"
	"github.com/AlaudaDevops/countersign/pkg/proxy/stream"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// call is one request on its way.
type call struct {
	*Handler
	response

	r     *http.Request
	start time.Time
	id    string
	route route.Route

	// bearer is the caller's token. It goes nowhere but to the authenticator.
	bearer     string
	identity   *token.Identity
	connector  *gate.Connector
	operations []operation.Operation
	answer     gate.Answer

	// verdict and reason are what the access log says.
	verdict, reason string
	digest          string

	// body is nil for a request without one. It, cancel and everything above are set before the stream's goroutine begins.
	body    *requestBody
	cancel  context.CancelCauseFunc
	cut     atomic.Pointer[stream.Verdict]
	stalled atomic.Bool
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *call {
	return &call{
		Handler: h, response: response{ResponseWriter: w}, r: r, start: h.clock.Now(), id: h.ids.New(),
		verdict: denial.VerdictDeny,
	}
}

func (c *call) serve() {
	var bad error
	c.route, bad = c.router.Route(c.r.Host, c.r.RequestURI)
	switch no := c.authenticate(); {
	case no != nil:
		c.deny(*no)
	case bad != nil:
		c.deny(invalid(bad.Error()))
	case c.route.Form == route.Own:
		c.serveOwn()
	default:
		c.serveTool()
	}
}

func (c *call) serveTool() {
	if no := c.check(); no != nil {
		c.deny(*no)
		return
	}
	if c.route.Form == route.Registry && c.r.Method == http.MethodPost {
		c.route.RawQuery = rewrite.MountSource(c.route.RawQuery, c.route.RepositoryPrefix())
	}
	if no := c.judge(); no != nil {
		c.deny(*no)
		return
	}
	c.verdict, c.reason = denial.VerdictAllow, c.answer.Reason
	c.forward()
}

// check refuses what must not reach any tool, whatever is decided.
func (c *call) check() *refusal {
	switch c.r.Method {
	case http.MethodTrace, "TRACK", "DEBUG", http.MethodConnect:
		no := invalid("the method " + c.r.Method + " is not passed on: the tool would answer with the connector's credentials; use another method")
		return &no
	}
	if strings.Contains(c.r.RequestURI, c.bearer) {
		no := invalid("the URL holds the token that you authenticate with, where tools log it; send it in the Authorization header only, and get a new one")
		return &no
	}
	if err := rewrite.CheckRequest(c.r.Header); err != nil {
		no := invalid(err.Error())
		return &no
	}
	return nil
}

// refusal is why a request is not passed on.
type refusal struct {
	reason, message string
	retryAfter      time.Duration
	// passed tells that the tool got the request, or may have.
	passed bool
}

func invalid(sentence string) refusal {
	return refusal{reason: approvalv1alpha1.ReasonInvalidRequest, message: sentence}
}

// deny answers with a refusal. Nothing can be answered any more once the tool's answer has begun.
func (c *call) deny(no refusal) {
	c.reason = no.reason
	if !no.passed {
		c.verdict = denial.VerdictDeny
	}
	if c.status() != 0 {
		return
	}
	d := c.denial(no, c.identity)
	c.hasten(func() { d.Write(&c.response, c.r.Method, c.dialect(no.reason)) })
}

// denial tells a refusal to, or about, somebody; nil is somebody unknown.
func (c *call) denial(no refusal, who *token.Identity) denial.Denial {
	d := denial.Denial{Reason: no.reason, Detail: no.message, ID: c.id, RetryAfter: no.retryAfter, Passed: no.passed}
	if who != nil {
		d.SeenAs = who.Username
	}
	if c.connector == nil || no.reason == approvalv1alpha1.ReasonConnectorUnknown {
		return d
	}
	d.Namespace, d.Name = c.connector.Namespace, c.connector.Name
	if no.reason != c.answer.Reason {
		return d
	}
	if request := c.answer.Request; request != nil {
		d.Request = request.Namespace + "/" + request.Name
	}
	d.WaitingFor = c.answer.WaitingFor
	d.Ask = ask(c.connector, who, &c.answer)
	return d
}

// dialect must not depend on a connector that the caller may not know of.
func (c *call) dialect(reason string) denial.Dialect {
	path := c.route.Path.String()
	if path == "" {
		path = c.r.URL.Path
	}
	if c.connector == nil || reason == approvalv1alpha1.ReasonConnectorUnknown {
		return denial.Guess(path, c.r.Header)
	}
	return denial.ForClass(c.connector.Spec.ConnectorClassName, path, c.r.Header)
}

// finish writes the access log's line.
func (c *call) finish() {
	if cut := c.cut.Load(); cut != nil {
		c.verdict, c.reason = denial.VerdictCut, cut.Reason
	}
	e := accesslog.Entry{
		Time: c.start, ID: c.id, Verdict: c.verdict, Reason: c.reason, Method: c.r.Method, Path: c.shownPath(),
		Status: c.status(), ContentDigest: c.contentDigest(),
		BytesIn: c.body.count(), BytesOut: c.response.count(), Duration: c.clock.Since(c.start),
	}
	if who := c.identity; who != nil {
		e.Subject, e.JTI = who.Username, who.JTI
		if who.Pod != nil {
			e.PodUID = who.Pod.UID
		}
	}
	if c.route.Form != route.Own {
		c.logUse(&e)
	}
	// The log is closed only after the last request; a sink that fails shows in readiness.
	_ = c.accessLog.Log(&e)
	c.metrics.observe(c.verdict, c.reason, e.Duration)
}

// logUse tells about the use of a connector. A verdict that was only explained is none.
func (c *call) logUse(e *accesslog.Entry) {
	e.Namespace, e.Name, e.Operation = c.route.Namespace, c.route.Name, c.class()
	if len(c.operations) > 1 {
		e.Source = c.operations[1].Path.String()
	}
	e.Context, e.Rules = contextOf(c.answer.Run), rulesOf(c.answer.Rules)
	if request := c.answer.Request; request != nil {
		e.RequestNamespace, e.RequestName = request.Namespace, request.Name
	}
}

func contextOf(run *origin.Node) *accesslog.Object {
	if run == nil {
		return nil
	}
	return &accesslog.Object{Group: run.Group, Kind: run.Kind, Namespace: run.Namespace, Name: run.Name, UID: string(run.UID)}
}

func rulesOf(refs []decision.RuleRef) []accesslog.Rule {
	if len(refs) == 0 {
		return nil
	}
	rules := make([]accesslog.Rule, len(refs))
	for i, r := range refs {
		rules[i] = accesslog.Rule{Name: r.Name, UID: string(r.UID), Generation: r.Generation}
	}
	return rules
}

// class is the strongest class of what the request does.
func (c *call) class() string {
	class := ""
	for i := range c.operations {
		if !c.operations[i].IsRead() {
			return string(operation.Write)
		}
		class = string(operation.Read)
	}
	return class
}

// hiddenPath stands for a path that holds the caller's token.
const hiddenPath = "(hidden: it holds a token)"

func (c *call) shownPath() string {
	path := c.route.Path.String()
	if path == "" {
		path, _, _ = strings.Cut(c.r.RequestURI, "?")
	}
	if c.bearer != "" && strings.Contains(path, c.bearer) {
		return hiddenPath
	}
	return path
}

func (c *call) contentDigest() string {
	if digest := c.body.digest(); digest != "" {
		return digest
	}
	return c.digest
}
