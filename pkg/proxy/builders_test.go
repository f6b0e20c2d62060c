package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/proxy/accesslog"
	"github.com/AlaudaDevops/countersign/pkg/proxy/stream"
	"github.com/AlaudaDevops/countersign/pkg/proxy/upstream"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// Tokens of the callers in these tests. They are long, as real ones are, so that the leak test finds them.
const (
	aliceToken   = "alice-token-0123456789"
	builderToken = "builder-token-0123456789"
	toolPassword = "tool-password-0123456789"
)

// fakeGate allows by a function of the test.
type fakeGate struct {
	mu         sync.Mutex
	connectors map[string]*gate.Connector
	decide     func(gate.Use) decision.Verdict
	pending    []*approvalv1alpha1.ApprovalRequest
	changed    chan struct{}
	uses       []gate.Use
}

func (g *fakeGate) Connector(namespace, name string) (*gate.Connector, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.connectors[namespace+"/"+name]
	return c, ok
}

func (g *fakeGate) Decide(_ context.Context, use gate.Use) gate.Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uses = append(g.uses, use)
	a := gate.Answer{Operation: use.Operations[0]}
	if _, ok := g.connectors[use.Namespace+"/"+use.Name]; !ok || use.Identity.Username == "nobody" {
		a.Verdict = decision.Verdict{Reason: approvalv1alpha1.ReasonConnectorUnknown, Message: "there is no connector " + use.Namespace + "/" + use.Name + ", or you hold no right on it"}
		return a
	}
	a.Verdict = g.decide(use)
	return a
}

func (g *fakeGate) Alive(_ context.Context, who *token.Identity) (reason, message string) {
	if who.Pod != nil && who.Pod.UID == "" {
		return approvalv1alpha1.ReasonUnauthenticated, "the token is no longer valid, because its Pod is gone"
	}
	return "", ""
}

func (g *fakeGate) Inbox(_ *token.Identity, after types.UID, limit int) ([]*approvalv1alpha1.ApprovalRequest, bool) {
	at := 0
	for i, check := range g.pending {
		if check.UID == after {
			at = i + 1
		}
	}
	end := min(len(g.pending), at+limit)
	return g.pending[at:end], end < len(g.pending)
}

func (g *fakeGate) PersonUID(string) string { return "" }

func (g *fakeGate) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// change replaces the decisions, as a change in the cluster does.
func (g *fakeGate) change(decide func(gate.Use) decision.Verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.decide = decide
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *fakeGate) lastUse() gate.Use {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.uses[len(g.uses)-1]
}

func allowAll(gate.Use) decision.Verdict {
	return decision.Verdict{Allow: true, Reason: approvalv1alpha1.ReasonAllChecksApproved}
}

// readsOnly denies writes as long as nobody has asked.
func readsOnly(use gate.Use) decision.Verdict {
	for _, o := range use.Operations {
		if !o.IsRead() {
			return decision.Verdict{Reason: approvalv1alpha1.ReasonNoRequest, Message: "Nobody has asked for this use: ask for an approval."}
		}
	}
	return decision.Verdict{Allow: true, Reason: approvalv1alpha1.ReasonNoApplicable}
}

// callers authenticates the tokens of these tests.
type callers struct{}

func (callers) Authenticate(_ context.Context, bearer string) (*token.Identity, error) {
	expiry := time.Now().Add(time.Hour)
	switch bearer {
	case aliceToken:
		return &token.Identity{Username: "alice", Groups: []string{"dev", "system:authenticated"}, JTI: "jti-a", Expiry: expiry}, nil
	case "nobody-token-0123456789":
		return &token.Identity{Username: "nobody", Expiry: expiry}, nil
	case builderToken:
		return &token.Identity{
			Username: "system:serviceaccount:dev:builder", JTI: "jti-b", Expiry: expiry,
			ServiceAccount: &token.ServiceAccount{Namespace: "dev", Name: "builder", UID: "sa-1"},
			Pod:            &token.PodRef{Namespace: "dev", Name: "pod-1", UID: "pod-uid-1"},
		}, nil
	case "orphan-token-0123456789":
		return &token.Identity{
			Username: "system:serviceaccount:dev:builder", Expiry: expiry,
			ServiceAccount: &token.ServiceAccount{Namespace: "dev", Name: "builder", UID: "sa-1"}, Pod: &token.PodRef{},
		}, nil
	case "unready-token-0123456789":
		return nil, &token.Error{Reason: token.ReasonNotReady, Detail: "the signing keys cannot be read at the moment"}
	}
	return nil, &token.Error{Reason: token.ReasonUnauthenticated, Detail: "the token is garbled"}
}

// rights answers by user name.
type rights map[string]bool

func (r rights) Allowed(_ context.Context, user authz.UserInfo, _ authz.ResourceAttributes) (bool, string, error) {
	return r[user.Username], "", nil
}

type oneSecret struct{}

func (oneSecret) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if namespace != "prod" || name != "login" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("robot"), "password": []byte(toolPassword)}}, nil
}

// safeBuffer is the access log's sink.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type fixture struct {
	t       testing.TB
	gate    *fakeGate
	handler *Handler
	server  *httptest.Server
	log     *safeBuffer
	writer  *accesslog.Writer
}

// start serves a Handler over TLS.
func start(t testing.TB, change ...func(*Options)) *fixture {
	f := &fixture{t: t, log: &safeBuffer{}, gate: &fakeGate{connectors: map[string]*gate.Connector{}, decide: readsOnly, changed: make(chan struct{})}}
	f.writer = accesslog.NewWriter(f.log, 0, nil)
	streams := stream.DefaultOptions()
	streams.Settle = time.Millisecond
	o := Options{
		Clock: clock.RealClock{}, Gate: f.gate, Authenticator: callers{}, Authorizer: rights{"alice": true}, Secrets: oneSecret{},
		AccessLog: f.writer, HostSuffixes: []string{"connectors.local"}, Upstream: upstream.DefaultOptions(), Streams: streams,
	}
	for _, c := range change {
		c(&o)
	}
	f.handler = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	go f.handler.Run(ctx)
	f.server = httptest.NewTLSServer(f.handler)
	t.Cleanup(func() {
		cancel()
		f.handler.CutStreams()
		f.server.Close()
	})
	return f
}

// tool adds a connector prod/NAME to an upstream.
func (f *fixture) tool(name, class, address string, change ...func(*gate.Connector)) {
	c := &gate.Connector{
		Namespace: "prod", Name: name, UID: types.UID("uid-" + name), Generation: 1, Classifier: operation.NewClassifier(class),
		Spec: connectorsv1alpha1.ConnectorSpec{
			ConnectorClassName: class, Address: address,
			Auth: &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "login"}},
		},
	}
	for _, ch := range change {
		ch(c)
	}
	f.gate.mu.Lock()
	defer f.gate.mu.Unlock()
	f.gate.connectors["prod/"+name] = c
}

// serve adds a connector prod/NAME to a new upstream.
func (f *fixture) serve(name, class string, handler http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(handler)
	f.t.Cleanup(s.Close)
	f.tool(name, class, s.URL)
	return s
}

// answer is what a caller got.
type answer struct {
	*http.Response
	body string
}

type sent struct {
	method, path string
	body         io.Reader
	bearer       string
	host         string
	header       http.Header
}

// do sends one request, as alice unless told otherwise, and follows no redirect.
func (f *fixture) do(a sent) answer {
	f.t.Helper()
	if a.method == "" {
		a.method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(f.t.Context(), a.method, f.server.URL, a.body)
	require.NoError(f.t, err)
	raw, query, _ := strings.Cut(a.path, "?")
	r.URL.Opaque, r.URL.RawQuery = raw, query
	if a.host != "" {
		r.Host = a.host
	}
	for name, values := range a.header {
		r.Header[name] = values
	}
	switch a.bearer {
	case "":
		r.Header.Set("Authorization", "Bearer "+aliceToken)
	case "none":
	default:
		r.Header.Set("Authorization", "Bearer "+a.bearer)
	}
	client := f.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(r)
	require.NoError(f.t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, res.Body.Close())
	return answer{res, string(body)}
}

func (f *fixture) get(path string) answer { f.t.Helper(); return f.do(sent{path: path}) }

// lines waits for the access log to have n lines.
func (f *fixture) lines(n int) []map[string]any {
	f.t.Helper()
	var lines []map[string]any
	require.Eventually(f.t, func() bool {
		return strings.Count(f.log.String(), "\n") >= n
	}, 10*time.Second, time.Millisecond)
	for text := range strings.Lines(f.log.String()) {
		var line map[string]any
		require.NoError(f.t, json.Unmarshal([]byte(text), &line))
		lines = append(lines, line)
	}
	return lines
}

// lineOf waits for the line of one request.
func (f *fixture) lineOf(method, path string) (found map[string]any) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		for _, line := range f.lines(0) {
			if line["method"] == method && line["path"] == path {
				found = line
			}
		}
		return found != nil
	}, 10*time.Second, time.Millisecond)
	return found
}

func (f *fixture) lastLine(n int) map[string]any {
	f.t.Helper()
	lines := f.lines(n)
	return lines[len(lines)-1]
}

// refused asserts a refusal by status and reason.
func refused(t testing.TB, a answer, status int, reason string) {
	t.Helper()
	assert.Equal(t, status, a.StatusCode, a.body)
	assert.Equal(t, reason, a.Header.Get("Countersign-Reason"), a.body)
	assert.NotEmpty(t, a.Header.Get("Countersign-Request-Id"))
}

func echo(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.RequestURI)
}
