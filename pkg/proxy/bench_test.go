package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// steadyGate answers without a lock, as the real one does.
type steadyGate struct {
	*fakeGate
	connector *gate.Connector
	answer    gate.Answer
}

func (g *steadyGate) Connector(string, string) (*gate.Connector, bool) { return g.connector, true }
func (g *steadyGate) Decide(context.Context, gate.Use) gate.Answer     { return g.answer }

type steadyCaller struct{ identity *token.Identity }

func (c steadyCaller) Authenticate(context.Context, string) (*token.Identity, error) {
	return c.identity, nil
}

// BenchmarkProxy compares an approved request with a bare httputil.ReverseProxy before the same tool, over TLS.
// The difference is what the proxy adds, but for the gate.
func BenchmarkProxy(b *testing.B) {
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind":"PodList","items":[]}`)
	}))
	defer tool.Close()
	target, err := url.Parse(tool.URL)
	require.NoError(b, err)
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.Transport = &http.Transport{MaxIdleConnsPerHost: 256}
	bare := httptest.NewTLSServer(reverse)
	defer bare.Close()
	b.Run("bare", func(b *testing.B) { load(b, bare, "/api/v1/pods") })

	f := start(b)
	f.tool("tool", "k8s", tool.URL)
	identity, err := callers{}.Authenticate(b.Context(), builderToken)
	require.NoError(b, err)
	f.handler.tokens = steadyCaller{identity}
	f.handler.gate = &steadyGate{fakeGate: f.gate, connector: f.gate.connectors["prod/tool"], answer: gate.Answer{Verdict: decision.Verdict{
		Allow: true, Reason: "AllChecksApproved", Until: time.Now().Add(time.Hour), Request: &decision.Request{Namespace: "dev", Name: "rcr-1"},
		Rules: []decision.RuleRef{{Name: "push", UID: "uid", Generation: 1}},
	}}}
	b.Run("countersign", func(b *testing.B) { load(b, f.server, "/namespaces/prod/connectors/tool/api/v1/pods") })
}

func load(b *testing.B, server *httptest.Server, path string) {
	server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	b.SetParallelism(16)
	b.ReportAllocs()
	before := cpuTime(b)
	defer func() { b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op") }()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
			if err != nil {
				b.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+builderToken)
			res, err := server.Client().Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
}

// cpuTime is what the process used, client and tool included: unlike wall time it does not depend on the machine's load.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
