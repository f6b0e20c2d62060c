// Package resttest stands in for what directories that speak HTTP need around them: a server with a certificate of its
// own, an authorization server for client credentials (RFC 6749 section 4.4), and files with secrets.
package resttest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Serve runs the handler with TLS until the test ends, and returns its address and a file with its authority.
func Serve(t testing.TB, handler http.Handler) (address, caFile string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what some tests are about
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server.URL, File(t, string(block))
}

// File returns the path of a file with the content.
func File(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Tokens is a token endpoint, and knows which of its tokens are valid.
type Tokens struct {
	ClientID, Secret string
	// Lifetime of a token in seconds; zero is not told.
	Lifetime int

	mu     sync.Mutex
	issued int
	valid  string
	scopes []string
}

// ServeHTTP hands out a token, and makes the former one invalid.
func (e *Tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	if r.Method != http.MethodPost || r.FormValue("grant_type") != "client_credentials" || id != url.QueryEscape(e.ClientID) || secret != url.QueryEscape(e.Secret) {
		respond(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "wrong secret " + secret})
		return
	}
	e.issued++
	e.valid = fmt.Sprintf("token-%d-of-%s", e.issued, e.Secret)
	e.scopes = strings.Fields(r.FormValue("scope"))
	answer := map[string]any{"access_token": e.valid, "token_type": "bearer"}
	if e.Lifetime != 0 {
		answer["expires_in"] = e.Lifetime
	}
	respond(w, http.StatusOK, answer)
}

func respond(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
}

// Allow refuses requests without the valid token with 401, as RFC 6750 section 3 has it, and tells whether it did not.
func (e *Tokens) Allow(w http.ResponseWriter, r *http.Request) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.valid != "" && r.Header.Get("Authorization") == "Bearer "+e.valid {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	http.Error(w, "no good token: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	return false
}

// Revoke makes the last token invalid.
func (e *Tokens) Revoke() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.valid = ""
}

// Issued is how many tokens were handed out.
func (e *Tokens) Issued() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.issued
}

// Scopes are those that the last token was asked for with.
func (e *Tokens) Scopes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.scopes
}
