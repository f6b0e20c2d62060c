package issuer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"
)

const (
	discoveryPath = "/.well-known/openid-configuration"
	keysPath      = "/keys"
	healthPath    = "/healthz"

	readTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = time.Minute
	drainTimeout = 2 * time.Second
)

// discovery holds the members of OpenID Connect Discovery 1.0 that relying parties need to verify.
type discovery struct {
	Issuer        string   `json:"issuer"`
	KeysURL       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// Handler serves discovery and the key set. Neither may be cached, so that a rotation shows at once.
func (i *Issuer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+discoveryPath, i.serveDiscovery)
	mux.HandleFunc("GET "+keysPath, i.serveKeys)
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (i *Issuer) serveDiscovery(w http.ResponseWriter, _ *http.Request) {
	respond(w, discovery{
		Issuer:        i.url,
		KeysURL:       i.url + keysPath,
		ResponseTypes: []string{"id_token"},
		SubjectTypes:  []string{"public"},
		Algorithms:    []string{signingMethod.Alg()},
	})
}

func (i *Issuer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	keys, err := i.keys.load()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	set := struct {
		Keys []jwk `json:"keys"`
	}{}
	for _, one := range keys {
		set.Keys = append(set.Keys, one.public())
	}
	respond(w, set)
}

func respond(w http.ResponseWriter, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(encoded) // the client is gone: nobody is left to tell
}

// Serve answers on the listener over TLS until the context ends, then drains. It returns nil after
// an orderly end and closes the listener in every case.
func (i *Issuer) Serve(ctx context.Context, listener net.Listener, cert tls.Certificate) error {
	server := &http.Server{
		Handler:           i.Handler(),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
	}
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		drained <- server.Shutdown(deadline)
	})
	err := server.ServeTLS(listener, "", "")
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}
