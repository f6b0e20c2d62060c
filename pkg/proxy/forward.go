package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/proxy/denial"
	"github.com/AlaudaDevops/countersign/pkg/proxy/rewrite"
	"github.com/AlaudaDevops/countersign/pkg/proxy/route"
	"github.com/AlaudaDevops/countersign/pkg/proxy/stream"
	"github.com/AlaudaDevops/countersign/pkg/proxy/upstream"
)

// forwarding is one request and its answer on the way between the caller and a tool.
type forwarding struct {
	*call
	tool   *upstream.Tool
	target *url.URL
}

// forward passes an allowed request on.
func (c *call) forward() {
	tool, err := c.tools.Tool(c.r.Context(), toolOf(c.connector))
	if err != nil {
		e := upstream.Explain(err)
		c.deny(refusal{reason: e.Reason, message: e.Detail, retryAfter: retrySoon})
		return
	}
	base, ok := tool.Target(c.route.Extension)
	if !ok {
		c.deny(refusal{reason: approvalv1alpha1.ReasonConnectorUnknown, message: "the connector has no address extension " + c.route.Extension + "; its owners list them in addressExtensions"})
		return
	}
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	c.cancel = cancel
	r := c.r.WithContext(ctx)
	if r.ContentLength != 0 || isUpgrade(r) {
		c.body = newRequestBody(r.Body, c.class() == string(operation.Write))
		r.Body = c.body
	}
	supervision := c.streams.Watch(c, earliest(c.answer.Until, c.identity.Expiry), c.lasting())
	defer supervision.Stop()

	f := &forwarding{call: c, tool: tool, target: toolURL(base, c.route.Path, c.route.RawQuery)}
	passer := httputil.ReverseProxy{
		Rewrite: f.outgoing, Transport: tool.Trip(c.route.Extension, c.operations), ModifyResponse: f.incoming,
		ErrorHandler: f.failed, BufferPool: buffers, ErrorLog: silent,
	}
	passer.ServeHTTP(&c.response, r)
}

func toolOf(c *gate.Connector) *upstream.Connector {
	return &upstream.Connector{Namespace: c.Namespace, Name: c.Name, UID: c.UID, Generation: c.Generation, Spec: &c.Spec}
}

// toolURL is the base and behind it the path, byte for byte as it was parsed: net/url sends RawPath as it is, because it
// decodes to Path and holds no byte that would have to be escaped.
func toolURL(base *url.URL, path operation.Path, rawQuery string) *url.URL {
	raw := strings.TrimSuffix(base.EscapedPath(), "/") + path.String()
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		// Both parts were parsed before, so this is never reached; an empty path would be another one than was judged.
		decoded = raw
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: decoded, RawPath: raw, RawQuery: rawQuery}
}

// lasting tells which requests are streams from the start.
func (c *call) lasting() bool {
	return isUpgrade(c.r) || strings.Contains(c.route.RawQuery, "watch=") || strings.Contains(c.route.RawQuery, "follow=")
}

func isUpgrade(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// outgoing makes the request to the tool from a copy of the caller's.
func (f *forwarding) outgoing(p *httputil.ProxyRequest) {
	// Trailers come after the decision, so no header is sent as one.
	p.Out.URL, p.Out.Host, p.Out.Trailer = f.target, "", nil
	rewrite.ToTool(p.Out.Header)
}

var (
	errLoginRefused = &upstream.Error{Reason: approvalv1alpha1.ReasonToolRefused,
		Detail: "the tool does not take the connector's credentials; tell the connector's owners"}
	errForeignWrite = &upstream.Error{Reason: approvalv1alpha1.ReasonToolRefused,
		Detail: "the tool sends this write on to an address that is not the connector's; its owners can list it in addressExtensions"}
	errForeignLogin = &upstream.Error{Reason: approvalv1alpha1.ReasonToolRefused,
		Detail: "the tool answers with a URL that holds a login; tell the connector's owners"}
	errUnasked = &upstream.Error{Reason: approvalv1alpha1.ReasonToolRefused,
		Detail: "the tool wants to go on in another protocol than the request's; tell the connector's owners"}
)

// incoming makes the answer to the caller from the tool's.
func (f *forwarding) incoming(res *http.Response) error {
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusProxyAuthRequired {
		return errLoginRefused
	}
	if res.StatusCode == http.StatusSwitchingProtocols && !isUpgrade(f.r) {
		return errUnasked
	}
	rewrite.FromTool(res.Header)
	siftTrailer(res)
	if err := f.relocate(res); err != nil {
		return err
	}
	if f.route.Form != route.Host {
		rewrite.Isolate(res.Header)
	}
	res.Header[denial.HeaderVerdict] = allowed
	res.Header[denial.HeaderReason] = []string{f.reason}
	res.Header[denial.HeaderRequestID] = []string{f.id}
	f.digest = res.Header.Get("Docker-Content-Digest")
	if res.StatusCode == http.StatusSwitchingProtocols {
		f.upgraded(res)
	}
	return nil
}

var allowed = []string{denial.VerdictAllow}

// siftTrailer treats the trailer as the header. Only a body of unknown length has one, and only at its end.
func siftTrailer(res *http.Response) {
	if res.ContentLength < 0 && res.StatusCode != http.StatusSwitchingProtocols {
		rewrite.FromTool(res.Trailer)
		res.Body = siftedBody{ReadCloser: res.Body, response: res}
	}
}

// upgraded counts what is not written as a response any more.
func (f *forwarding) upgraded(res *http.Response) {
	f.code.Store(http.StatusSwitchingProtocols)
	if connection, ok := res.Body.(io.ReadWriteCloser); ok {
		res.Body = duplex{ReadWriteCloser: connection, in: &f.body.bytes, out: &f.bytes}
	}
}

// relocate translates the URLs in the answer's headers.
func (f *forwarding) relocate(res *http.Response) error {
	location, links, content := res.Header["Location"], res.Header["Link"], res.Header["Content-Location"]
	if location == nil && links == nil && content == nil {
		return nil
	}
	m := rewrite.Map{Route: &f.route, Request: f.target, Targets: f.tool.Targets(), PublicURL: f.publicURL}
	for i := range links {
		links[i] = m.Link(links[i])
	}
	for i := range content {
		content[i], _ = m.URL(content[i])
	}
	for i := range location {
		translated, inside := m.URL(location[i])
		if inside {
			location[i] = translated
			continue
		}
		if err := f.foreign(res, location[i]); err != nil {
			return err
		}
	}
	return nil
}

// foreign decides about a location outside of the connector. The answer to a read may send the caller there, as registries
// do with blobs in object storage: he goes without our credentials, and sees what he may read. A write that is sent there
// would be out of our hands, so only the mere information where something was created is left out.
func (f *forwarding) foreign(res *http.Response, location string) error {
	if u, err := url.Parse(location); err != nil || u.User != nil {
		return errForeignLogin
	}
	if f.class() == string(operation.Read) {
		return nil
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 || res.StatusCode == http.StatusAccepted {
		return errForeignWrite
	}
	res.Header.Del("Location")
	return nil
}

// failed answers for a tool that gave none.
func (f *forwarding) failed(_ http.ResponseWriter, _ *http.Request, err error) {
	if cut := f.cut.Load(); cut != nil {
		// The deadlines that the cut has set would outlive this request.
		f.Header().Set("Connection", "close")
		f.deny(refusal{reason: cut.Reason, message: cut.Message})
		return
	}
	if f.stalled.Load() || f.r.Context().Err() != nil {
		// Nobody is there to answer to.
		return
	}
	e := upstream.Explain(err)
	f.deny(refusal{reason: e.Reason, message: e.Detail, passed: true})
}

// errCut is the cause by which a stream's context ends.
var errCut = errors.New("the permission has ended")

// lastWrite is how long a caller may take to accept the refusal of a stream that was cut.
const lastWrite = 5 * time.Second

// Cut implements stream.Subject.
func (c *call) Cut(v stream.Verdict) {
	c.cut.Store(&v)
	c.metrics.cut(v.Reason)
	c.cancel(errCut)
	c.hurry(lastWrite)
}

// Stall implements stream.Subject.
func (c *call) Stall() {
	c.stalled.Store(true)
	c.cancel(errCut)
	c.hurry(0)
}

// hurry ends reading from the caller, because nothing is answered as long as that hangs, and soon also writing to him.
// These are times of the socket, so no other clock will do.
func (c *call) hurry(lastWrite time.Duration) {
	controller := http.NewResponseController(c.ResponseWriter)
	now := time.Now()
	// A connection that knows no deadlines ends with the tool's side.
	_ = controller.SetReadDeadline(now)
	_ = controller.SetWriteDeadline(now.Add(lastWrite))
}

// Progress implements stream.Subject. A caller whose answer has begun may take its time with the rest of its request:
// the two may talk to each other.
func (c *call) Progress() (mark uint64, waiting bool) {
	begun, ended := c.begun.Load(), c.ended.Load()
	mark, waiting = begun+ended, begun != ended
	if body := c.body; body != nil && c.status() == 0 {
		begun, ended := body.begun.Load(), body.ended.Load()
		mark, waiting = mark+begun+ended, waiting || begun != ended
	}
	return mark, waiting
}
