package resttest

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/test/env/pki"
)

// Opener returns the directory at the address, which trusts the authorities in caFile.
type Opener func(t *testing.T, address, caFile string) directory.Directory

// Step is one of the requests of a look-up, known by a part of its path.
type Step struct{ Name, Path string }

// RefusesUntrusted asks about a person behind every certificate that must not be trusted.
func RefusesUntrusted(t *testing.T, handler http.Handler, person string, open Opener) {
	t.Helper()
	ca, other := authority(t), authority(t)
	good, err := ca.IssueServer("127.0.0.1")
	require.NoError(t, err)
	elsewhere, err := ca.IssueServer("elsewhere.example.org", "127.0.0.2")
	require.NoError(t, err)
	expired, err := ca.IssueExpiredServer("127.0.0.1")
	require.NoError(t, err)
	trusted, strange := File(t, string(ca.CertPEM())), File(t, string(other.CertPEM()))
	for name, test := range map[string]struct {
		pair   *pki.KeyPair // nil speaks plain HTTP
		caFile string
		want   string
	}{
		"wrong CA":      {&good, strange, "unknown authority"},
		"the host's CA": {&good, "", "unknown authority"},
		"wrong host":    {&elsewhere, trusted, "not 127.0.0.1"},
		"expired":       {&expired, trusted, "expired"},
		"no TLS there":  {nil, trusted, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			var reached atomic.Int32
			address := serveAs(t, test.pair, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached.Add(1)
				handler.ServeHTTP(w, r)
			}))
			_, err := open(t, "https://"+address, test.caFile).Lookup(t.Context(), person)
			NoAnswer(t, err, test.want)
			assert.Zero(t, reached.Load(), "nothing was said before it was known to whom")
		})
	}
	_, err = open(t, "https://"+serveAs(t, &good, handler), trusted).Lookup(t.Context(), person)
	require.NoError(t, err, "the good certificate is trusted")
}

// WorksInPlaintext asks without TLS, as somebody who has accepted that.
func WorksInPlaintext(t *testing.T, handler http.Handler, person string, open Opener) {
	t.Helper()
	_, err := open(t, "http://"+serveAs(t, nil, handler), "").Lookup(t.Context(), person)
	require.NoError(t, err)
}

// NoAnswer is neither a yes nor a no.
func NoAnswer(t *testing.T, err error, want string) {
	t.Helper()
	var unavailable *directory.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	require.NotErrorIs(t, err, directory.ErrUnknown)
	assert.Contains(t, unavailable.Why, want)
}

// GivesUpWhenSlow hangs at each step until the caller leaves, and looks whether the directory works afterwards.
func GivesUpWhenSlow(t *testing.T, handler http.Handler, person string, open Opener, steps ...Step) {
	t.Helper()
	for _, step := range steps {
		t.Run("slow "+step.Name, func(t *testing.T) {
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			var slow atomic.Bool
			slow.Store(true)
			address, caFile := Serve(t, at(step, handler, func(w http.ResponseWriter, r *http.Request) {
				if !slow.Load() {
					handler.ServeHTTP(w, r)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client left
				leave(context.DeadlineExceeded)
				<-r.Context().Done()
				panic(http.ErrAbortHandler) // an answer might still overtake the client's leaving
			}))
			d := open(t, address, caFile)
			_, err := d.Lookup(ctx, person)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, directory.ErrUnknown)

			slow.Store(false)
			_, err = d.Lookup(t.Context(), person)
			require.NoError(t, err)
		})
	}
}

// StaysOnItsHost redirects each step to another host, which must learn nothing at all.
func StaysOnItsHost(t *testing.T, handler http.Handler, person string, open Opener, steps ...Step) {
	t.Helper()
	for _, step := range steps {
		for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			t.Run(step.Name+" redirected: "+http.StatusText(status), func(t *testing.T) {
				var learnt atomic.Int32
				stranger := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { learnt.Add(1) })
				var target string
				address, caFile := Serve(t, at(step, handler, func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, target+r.URL.RequestURI(), status)
				}))
				secure, _ := Serve(t, stranger) // the same certificate, so that only the redirect is refused
				for _, target = range []string{secure, "http://" + serveAs(t, nil, stranger)} {
					_, err := open(t, address, caFile).Lookup(t.Context(), person)
					NoAnswer(t, err, "redirects to another host")
				}
				assert.Zero(t, learnt.Load())
			})
		}
	}
}

// at treats one step differently.
func at(step Step, handler http.Handler, differently http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, step.Path) {
			differently(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func authority(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA("resttest")
	require.NoError(t, err)
	return ca
}

// serveAs serves with the certificate, or without TLS, and returns host and port.
func serveAs(t *testing.T, pair *pki.KeyPair, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if pair == nil {
		server.Start()
	} else {
		certificate, err := pair.TLS()
		require.NoError(t, err)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.Listener.Addr().String()
}
