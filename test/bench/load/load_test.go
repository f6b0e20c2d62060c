package load

import (
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func target(t *testing.T, handler http.HandlerFunc) Target {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca"), filepath.Join(dir, "token")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, block, 0o600))
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	return Target{URL: server.URL + "/item", Method: http.MethodGet, TokenFile: token, CAFile: ca, Status: http.StatusOK, BodyBytes: 1024}
}

var short = Plan{Connections: 2, WarmUp: time.Millisecond, Duration: 20 * time.Millisecond}

func TestRunCountsWhatIsAnsweredAsExpected(t *testing.T) {
	served := target(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
		assert.Equal(t, "/item", r.URL.Path)
		_, _ = fmt.Fprint(w, strings.Repeat("x", 1024))
	})
	result, err := Run(t.Context(), served, short)
	require.NoError(t, err)
	assert.Positive(t, result.Requests)
	assert.LessOrEqual(t, result.P50, result.P99)
}

func TestRunSendsAFileAndReadsChunks(t *testing.T) {
	sent := filepath.Join(t.TempDir(), "sent")
	require.NoError(t, os.WriteFile(sent, []byte(`{"a":"b"}`), 0o600))
	served := target(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, `{"a":"b"}`, string(body))
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		for range 3 {
			_, _ = fmt.Fprint(w, strings.Repeat("x", rand.IntN(5000)+1))
			_ = http.NewResponseController(w).Flush()
		}
	})
	served.Method, served.SendFile, served.Status, served.BodyBytes = http.MethodPost, sent, http.StatusCreated, AnyLength
	result, err := Run(t.Context(), served, short)
	require.NoError(t, err)
	assert.Positive(t, result.Requests)
}

// raw answers with these bytes. Whoever asked may be gone: the first such answer ends the run.
func raw(w http.ResponseWriter, answer string) {
	connection, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = buffered.WriteString(answer)
	_, _ = buffered.Flush(), connection.Close()
}

func TestRunFailsAtTheFirstOtherAnswer(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"another status": {want: "403", handler: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "NoRequest", http.StatusForbidden)
		}},
		"another length": {want: "with 4 bytes", handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, "four")
		}},
		"no length": {want: "does not say its length", handler: func(w http.ResponseWriter, _ *http.Request) {
			raw(w, "HTTP/1.1 200 OK\r\n\r\n")
		}},
		"a chunk without length": {want: "chunks", handler: func(w http.ResponseWriter, _ *http.Request) {
			raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")
		}},
		"a long refusal in chunks": {want: "instead of 200 with 1024: " + strings.Repeat("no ", maxExcerpt/3), handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprint(w, strings.Repeat("no ", 3000))
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Run(t.Context(), target(t, tt.handler), short)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestPercentileIsNearestRank(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	assert.Equal(t, time.Duration(50), Percentile(hundred, 50))
	assert.Equal(t, time.Duration(99), Percentile(hundred, 99))
	assert.Equal(t, time.Duration(1), Percentile(hundred[:1], 99))
	assert.Zero(t, Percentile(nil, 50))
}
