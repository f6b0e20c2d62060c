package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// ServerOptions say where and how a Handler is served. All are required but those with a default in
// DefaultServerOptions.
type ServerOptions struct {
	Clock clock.Clock
	Log   logr.Logger
	// Address is served over TLS with the certificate of CertFile and KeyFile, which are read again when they change.
	Address           string
	CertFile, KeyFile string
	// HealthAddress serves /healthz, /readyz and /metrics without TLS.
	HealthAddress string
	// Ready says why the proxy cannot answer for anybody; nil if it can.
	Ready func() error
	// Metrics are shown at /metrics.
	Metrics prometheus.Gatherer

	// HeaderTimeout bounds the arrival of a request's header, IdleTimeout the wait for the next request.
	HeaderTimeout, IdleTimeout time.Duration
	// MaxHeaderBytes bounds a request's header.
	MaxHeaderBytes int
	// DrainDelay is how long new requests are still taken after the proxy was told to end, until clients have
	// learned of it; DrainTimeout is how long requests may take afterwards, before they are cut.
	DrainDelay, DrainTimeout time.Duration
}

// DefaultServerOptions returns the defaults.
func DefaultServerOptions() ServerOptions {
	return ServerOptions{
		Clock: clock.RealClock{}, Address: ":8443", HealthAddress: ":8081",
		HeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10,
		DrainDelay: 5 * time.Second, DrainTimeout: 30 * time.Second,
	}
}

// cutTimeout is how long requests that were cut may take to end and be logged.
const cutTimeout = 5 * time.Second

// Server serves a Handler.
type Server struct {
	handler  *Handler
	options  ServerOptions
	certs    *certwatcher.CertWatcher
	draining atomic.Bool

	listener, health net.Listener
}

// Listen opens both ports and reads the certificate, so that whatever is wrong with them is told before anything begins.
func Listen(handler *Handler, o ServerOptions) (*Server, error) {
	s := &Server{handler: handler, options: o}
	var err error
	if s.certs, err = certwatcher.New(o.CertFile, o.KeyFile); err != nil {
		return nil, fmt.Errorf("the serving certificate cannot be read from %s and %s: %w", o.CertFile, o.KeyFile, err)
	}
	if s.listener, err = net.Listen("tcp", o.Address); err != nil {
		return nil, fmt.Errorf("the address %s cannot be listened on: %w", o.Address, err)
	}
	if s.health, err = net.Listen("tcp", o.HealthAddress); err != nil {
		_ = s.listener.Close()
		return nil, fmt.Errorf("the health address %s cannot be listened on: %w", o.HealthAddress, err)
	}
	return s, nil
}

// Addr is where the Handler is served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// HealthAddr is where health and metrics are served.
func (s *Server) HealthAddr() net.Addr { return s.health.Addr() }

// Serve serves until the context ends, then drains. It returns when no request is left, or all that could be done about
// those that are has been done; the error is that of a server that ended by itself.
func (s *Server) Serve(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go s.handler.Run(background)
	go func() {
		if err := s.certs.Start(background); err != nil {
			s.options.Log.Error(err, "The serving certificate is not watched; restart the proxy after changing it")
		}
	}()
	main, health := s.mainServer(), s.healthServer()
	ended := make(chan error, 2)
	go func() { ended <- main.ServeTLS(s.listener, "", "") }()
	go func() { ended <- health.Serve(s.health) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		s.drain(background, main)
	}
	return errors.Join(err, closeServer(main), closeServer(health))
}

func closeServer(s *http.Server) error {
	if err := s.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (s *Server) mainServer() *http.Server {
	return &http.Server{
		Handler: s.handler, ReadHeaderTimeout: s.options.HeaderTimeout, IdleTimeout: s.options.IdleTimeout,
		MaxHeaderBytes: s.options.MaxHeaderBytes, ErrorLog: s.errorLog(),
		// OPTIONS * is nobody's either: it is refused and logged as everything else.
		DisableGeneralOptionsHandler: true,
		TLSConfig:                    &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certs.GetCertificate},
	}
}

// errorLog takes net/http's own words, which are about connections, never about what is in them.
func (s *Server) errorLog() *log.Logger {
	return log.New(lineWriter(func(line string) { s.options.Log.V(1).Info("Connection failed", "detail", line) }), "", 0)
}

type lineWriter func(string)

// Write implements io.Writer.
func (w lineWriter) Write(b []byte) (int, error) {
	w(strings.TrimSpace(string(b)))
	return len(b), nil
}

func (s *Server) healthServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { say(w, s.ready()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.options.Metrics, promhttp.HandlerOpts{}))
	return &http.Server{
		Handler: mux, ReadTimeout: s.options.HeaderTimeout, WriteTimeout: s.options.HeaderTimeout,
		IdleTimeout: s.options.IdleTimeout, ErrorLog: s.errorLog(),
	}
}

func say(w http.ResponseWriter, err error) {
	text := "ok\n"
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = err.Error() + "\n"
	}
	// Whoever asked may be gone.
	_, _ = io.WriteString(w, text)
}

var errDraining = errors.New("the proxy is shutting down")

func (s *Server) ready() error {
	if s.draining.Load() {
		return errDraining
	}
	return s.options.Ready()
}

// drain ends in order: first nobody new is sent here, then what is under way may end, then it is cut.
func (s *Server) drain(ctx context.Context, main *http.Server) {
	s.draining.Store(true)
	s.options.Log.Info("Shutting down", "delay", s.options.DrainDelay, "timeout", s.options.DrainTimeout)
	s.wait(ctx, s.options.DrainDelay, func() bool { return false })
	shutdown, cancel := context.WithCancel(ctx)
	defer cancel()
	var sent atomic.Bool
	go func() {
		// Upgraded connections are not waited for by this; idle is.
		_ = main.Shutdown(shutdown)
		sent.Store(true)
	}()
	s.wait(ctx, s.options.DrainTimeout, s.idle)
	s.handler.CutStreams()
	s.wait(ctx, cutTimeout, s.idle)
	// The end of an answer is sent after its handler has returned.
	s.wait(ctx, cutTimeout, sent.Load)
}

func (s *Server) idle() bool { return s.handler.serving.Load() == 0 }

// wait ends early when done is true.
func (s *Server) wait(ctx context.Context, limit time.Duration, done func() bool) {
	end := s.options.Clock.NewTimer(limit)
	defer end.Stop()
	for !done() {
		look := s.options.Clock.NewTimer(min(limit, 20*time.Millisecond))
		select {
		case <-ctx.Done():
			look.Stop()
			return
		case <-end.C():
			look.Stop()
			return
		case <-look.C():
		}
	}
}
