// Package serve holds the two servers that the proxies are measured with: the tool behind them, and a bare
// httputil.ReverseProxy.
package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"
)

// BodyBytes is the length of every answer of the tool.
const BodyBytes = 1024

// idleConnections is what the bare proxy keeps open to the tool: more than any load of the benchmark has, because
// the default of two would measure how connections are made.
const idleConnections = 256

const headerTimeout = 10 * time.Second

// Tool answers every request with the same text.
func Tool() *http.Server {
	body := bytes.Repeat([]byte("x"), BodyBytes)
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(BodyBytes))
		// Whoever asked may be gone.
		_, _ = w.Write(body)
	}
	return &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: headerTimeout}
}

// Bare is a httputil.ReverseProxy and nothing else: no check, no log.
func Bare(tool *url.URL) *http.Server {
	proxy := httputil.NewSingleHostReverseProxy(tool)
	proxy.Transport = &http.Transport{MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idleConnections}
	return &http.Server{
		Handler: proxy, ReadHeaderTimeout: headerTimeout, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
}

// Until serves until the context ends; without a certificate file it serves plain HTTP.
func Until(ctx context.Context, server *http.Server, listener net.Listener, certFile, keyFile string) error {
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	serve := func() error { return server.Serve(listener) }
	if certFile != "" {
		serve = func() error { return server.ServeTLS(listener, certFile, keyFile) }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
