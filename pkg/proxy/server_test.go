package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/test/env/pki"
)

// served is a Server with everything around it.
type served struct {
	*fixture
	server *Server
	roots  *x509.CertPool
	ready  atomic.Pointer[error]
	stop   context.CancelFunc
	ended  chan error
}

func serve(t *testing.T, change ...func(*ServerOptions)) *served {
	registry := prometheus.NewRegistry()
	s := &served{fixture: start(t, func(o *Options) { o.Metrics = registry }), ended: make(chan error, 1)}
	o := DefaultServerOptions()
	o.Address, o.HealthAddress, o.Metrics, o.Log = "127.0.0.1:0", "127.0.0.1:0", registry, testr.New(t)
	o.DrainDelay, o.DrainTimeout = time.Millisecond, time.Minute
	o.CertFile, o.KeyFile, s.roots = certificate(t)
	o.Ready = func() error {
		if err := s.ready.Load(); err != nil {
			return *err
		}
		return nil
	}
	for _, c := range change {
		c(&o)
	}
	var err error
	s.server, err = Listen(s.handler, o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.ended <- s.server.Serve(ctx) }()
	t.Cleanup(cancel)
	return s
}

func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	ca, err := pki.NewCA("test")
	require.NoError(t, err)
	pair, err := ca.IssueServer("127.0.0.1")
	require.NoError(t, err)
	cert, key, err = pair.Write(t.TempDir(), "tls")
	require.NoError(t, err)
	return cert, key, ca.Pool()
}

func (s *served) client() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}, ForceAttemptHTTP2: true}}
}

func (s *served) url(path string) string { return "https://" + s.server.Addr().String() + path }

func (s *served) health(path string) (int, string) {
	res, err := http.Get("http://" + s.server.HealthAddr().String() + path)
	require.NoError(s.t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return res.StatusCode, string(body)
}

func (s *served) asAlice(path string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodGet, s.url(path), nil)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+aliceToken)
	return s.client().Do(r)
}

func TestHealth(t *testing.T) {
	s := serve(t)
	status, _ := s.health("/healthz")
	assert.Equal(t, http.StatusOK, status)
	status, _ = s.health("/readyz")
	assert.Equal(t, http.StatusOK, status)
	why := errors.New("Stale: no sign of life")
	s.ready.Store(&why)
	status, body := s.health("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "Stale: no sign of life\n", body)

	res, err := s.asAlice("/-/inbox")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, 2, res.ProtoMajor)
	s.lines(1)
	_, body = s.health("/metrics")
	assert.Contains(t, body, `countersign_proxy_requests_total{reason="Own",verdict="allow"} 1`)
	assert.NotContains(t, body, "alice")
	s.stop()
	require.NoError(t, <-s.ended)
}

func TestRequestsUnderWayAreServedToTheEnd(t *testing.T) {
	s := serve(t)
	s.gate.decide = allowAll
	arrived, release := make(chan struct{}), make(chan struct{})
	s.fixture.serve("tool", "any", func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	got := make(chan string, 1)
	go func() {
		res, err := s.asAlice("/namespaces/prod/connectors/tool/slow")
		if err != nil {
			got <- err.Error()
			return
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		got <- string(body)
	}()
	<-arrived
	s.stop()
	require.Eventually(t, func() bool { status, _ := s.health("/readyz"); return status == http.StatusServiceUnavailable }, 10*time.Second, time.Millisecond)
	close(release)
	assert.Equal(t, "done", <-got)
	require.NoError(t, <-s.ended)
}

func TestStreamsAreCutAfterTheDrainTimeout(t *testing.T) {
	s, ended := serve(t, func(o *ServerOptions) { o.DrainTimeout = time.Millisecond }), make(chan struct{})
	s.gate.decide = allowAll
	s.fixture.serve("tool", "any", eternal(ended))
	res, err := s.asAlice("/namespaces/prod/connectors/tool/x?watch=1")
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	s.stop()
	_, err = io.ReadAll(res.Body)
	assert.Error(t, err)
	<-ended
	require.NoError(t, <-s.ended)
	assert.Equal(t, "cut", s.lastLine(1)["verdict"], "it is logged before the server has ended")
}

func TestListenTellsWhatIsWrong(t *testing.T) {
	cert, key, _ := certificate(t)
	good := DefaultServerOptions()
	good.Address, good.HealthAddress, good.CertFile, good.KeyFile = "127.0.0.1:0", "127.0.0.1:0", cert, key
	for name, change := range map[string]func(*ServerOptions){
		"serving certificate": func(o *ServerOptions) { o.CertFile = "absent" },
		"health address":      func(o *ServerOptions) { o.HealthAddress = "nowhere:x" },
		"the address":         func(o *ServerOptions) { o.Address = "nowhere:x" },
	} {
		o := good
		change(&o)
		_, err := Listen(start(t).handler, o)
		assert.ErrorContains(t, err, name)
	}
}
