package proxy

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/proxy/accesslog"
	"github.com/AlaudaDevops/countersign/pkg/proxy/route"
	"github.com/AlaudaDevops/countersign/pkg/proxy/stream"
	"github.com/AlaudaDevops/countersign/pkg/proxy/upstream"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// Gate decides. *gate.Gate implements it.
type Gate interface {
	// Connector is the connector as it is now.
	Connector(namespace, name string) (*gate.Connector, bool)
	// Decide never fails: whatever cannot be told is a denial.
	Decide(ctx context.Context, use gate.Use) gate.Answer
	// Alive says why the caller's token does not count any more; the reason is empty if it counts. Decide looks by itself.
	Alive(ctx context.Context, who *token.Identity) (reason, message string)
	// Inbox lists the pending checks that the caller may answer, nearest deadline first.
	Inbox(who *token.Identity, after types.UID, limit int) (items []*approvalv1alpha1.ApprovalRequest, more bool)
	// PersonUID is the UID under which a user last asked; empty if none is known.
	PersonUID(username string) string
	// Changed returns a channel that closes at the next change of what Decide reads.
	Changed() <-chan struct{}
}

// Authorizer asks the API server. *authz.Authorizer implements it.
type Authorizer interface {
	Allowed(ctx context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (allowed bool, reason string, err error)
}

// People knows who people are. *directory.Cached implements it.
type People interface {
	// Lookup finds a person by the exact user name. errors.Is(err, directory.ErrUnknown) is a no; any other error tells
	// that the directory did not answer, and why.
	Lookup(ctx context.Context, username string) (directory.Answer, error)
}

// Options are what a Handler is made of; all are required but People, PublicURL and Metrics.
type Options struct {
	Clock         clock.WithTickerAndDelayedExecution
	Gate          Gate
	Authenticator token.Authenticator
	Authorizer    Authorizer
	Secrets       upstream.Secrets
	AccessLog     *accesslog.Writer
	// People answers POST /-/whois; without it the answer is that there is no directory.
	People People
	// HostSuffixes are the domains below which connectors have host names.
	HostSuffixes []string
	// PublicURL is the proxy's own base URL as clients reach it, without a slash at the end.
	PublicURL string
	Upstream  upstream.Options
	Streams   stream.Options
	// Metrics receives the proxy's metrics; nil leaves them unregistered.
	Metrics prometheus.Registerer
}

// Handler serves every request to the proxy's own port.
type Handler struct {
	clock     clock.WithTickerAndDelayedExecution
	gate      Gate
	tokens    token.Authenticator
	authz     Authorizer
	people    People
	router    *route.Router
	tools     *upstream.Pool
	streams   *stream.Supervisor
	accessLog *accesslog.Writer
	publicURL string
	metrics   *metrics
	ids       *ids
	// patience is how long a caller may take to send what nobody reads any more, and to accept our own answers.
	patience time.Duration
	// serving counts the requests under way.
	serving atomic.Int64
}

// New returns a Handler. Run has to run while it serves.
func New(o Options) *Handler {
	h := &Handler{
		clock: o.Clock, gate: o.Gate, tokens: o.Authenticator, authz: o.Authorizer, people: o.People,
		router:    route.NewRouter(o.HostSuffixes),
		tools:     upstream.NewPool(o.Clock, o.Secrets, o.Upstream),
		streams:   stream.New(o.Clock, o.Gate.Changed, o.Streams),
		accessLog: o.AccessLog, publicURL: o.PublicURL, ids: newIDs(), patience: lastWrite,
	}
	h.metrics = newMetrics(o.Metrics, h.streams.Len, h.serving.Load)
	return h
}

// Run wakes streams when decisions may have changed, and drops the tools of connectors that are gone, until the
// context ends.
func (h *Handler) Run(ctx context.Context) {
	go h.sweep(ctx)
	h.streams.Run(ctx)
}

func (h *Handler) sweep(ctx context.Context) {
	ticker := h.clock.NewTicker(upstream.MaxSecretTTL)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			h.tools.Sweep(func(namespace, name string) bool {
				_, ok := h.gate.Connector(namespace, name)
				return ok
			})
		}
	}
}

// CutStreams ends every stream, now and from now on: the proxy is going down.
func (h *Handler) CutStreams() {
	h.streams.End(stream.Verdict{
		Reason:  approvalv1alpha1.ReasonNotReady,
		Message: "the proxy is shutting down; try again at once, another one answers",
	})
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serving.Add(1)
	defer h.serving.Add(-1)
	c := h.begin(w, r)
	defer c.leave()
	// Deferred, because a copy that fails in the middle ends by a panic that net/http expects.
	defer c.finish()
	c.serve()
}

// buffers are shared by all requests, for copying bodies.
var buffers httputil.BufferPool = &bufferPool{}

const bufferSize = 32 << 10

type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return new([bufferSize]byte)[:]
}

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }

// silent drops what httputil.ReverseProxy would log by itself: the access log has it, without the tool's address.
var silent = log.New(io.Discard, "", 0)
