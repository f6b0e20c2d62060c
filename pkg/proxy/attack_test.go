package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// raw sends bytes as they are, as an attacker does, and returns the connection to read from.
func (f *fixture) raw(text string) net.Conn {
	f.t.Helper()
	conn, err := tls.Dial("tcp", f.server.Listener.Addr().String(), &tls.Config{RootCAs: f.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(f.t, err)
	return conn
}

func readAnswer(t testing.TB, conn net.Conn) answer {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res, string(body)}
}

func TestS11_TheToolsTrailersAreSiftedAsItsHeader(t *testing.T) {
	f := start(t)
	f.serve("tool", "any", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Set-Cookie, Checksum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("Checksum", "abc")
		w.Header().Set("Set-Cookie", "session="+toolPassword)
		w.Header().Set(http.TrailerPrefix+"Www-Authenticate", "Basic realm="+toolPassword)
		w.Header().Set(http.TrailerPrefix+"Countersign-Verdict", "deny")
	})
	a := f.get("/namespaces/prod/connectors/tool/x")
	assert.Equal(t, http.Header{"Checksum": {"abc"}}, a.Trailer)
}

func TestS11_TheCallersTrailersNeverReachTheTool(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	saw := make(chan *http.Request, 1)
	f.serve("tool", "any", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		saw <- r
	})
	conn := f.raw("POST /namespaces/prod/connectors/tool/x HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer " + aliceToken + "\r\n" +
		"Transfer-Encoding: chunked\r\nTrailer: X-Remote-User, Impersonate-User\r\n\r\n" +
		"1\r\na\r\n0\r\nX-Remote-User: admin\r\nImpersonate-User: admin\r\n\r\n")
	assert.Equal(t, http.StatusOK, readAnswer(t, conn).StatusCode)
	r := <-saw
	assert.Empty(t, r.Trailer)
	assert.NotContains(t, r.Header, "Trailer")
}

func TestAToolThatSwitchesProtocolsUnaskedIsRefused(t *testing.T) {
	f := start(t)
	f.serve("tool", "any", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "x")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	refused(t, f.get("/namespaces/prod/connectors/tool/x"), http.StatusBadGateway, "ToolRefused")
}

func TestS12_NoTunnelForFurtherRequests(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	f.serve("tool", "k8s", echo)
	for _, protocol := range []string{"h2c", "H2C", "HTTP/2.0", "websocket, h2c", "TLS/1.2", "http/1.1", "connect-udp", "connect-ip"} {
		t.Run(protocol, func(t *testing.T) {
			a := f.do(sent{path: "/namespaces/prod/connectors/tool/api/v1/pods?watch=true", header: http.Header{
				"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {protocol}, "Http2-Settings": {"AAMAAABkAAQAoAAAAAIAAAAA"},
			}})
			refused(t, a, http.StatusBadRequest, "InvalidRequest")
			assert.Contains(t, a.body, "Upgrade")
		})
	}
}

func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	f := start(t)
	f.handler.patience = 100 * time.Millisecond
	f.serve("tool", "any", echo)
	for name, header := range map[string]string{
		"unknown caller": "", "denied": "Authorization: Bearer " + aliceToken + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := f.raw("POST /namespaces/prod/connectors/tool/x HTTP/1.1\r\nHost: proxy\r\n" + header + "Content-Length: 1000\r\n\r\nonly this")
			a := readAnswer(t, conn)
			assert.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, a.StatusCode)
			_, err := io.Copy(io.Discard, conn)
			assert.True(t, err == nil || strings.Contains(err.Error(), "reset"), "the connection ends: %v", err)
		})
	}
}

func TestACallerThatAcceptsNoAnswerIsLeft(t *testing.T) {
	s := serve(t)
	s.handler.patience = 10 * time.Millisecond
	conn, err := tls.Dial("tcp", s.server.Addr().String(), &tls.Config{RootCAs: s.roots, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	require.NoError(t, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true, BlockFragment: header2(t, "/-/inbox")}))
	for {
		frame, err := framer.ReadFrame()
		require.NoError(t, err)
		if reset, ok := frame.(*http2.RSTStreamFrame); ok {
			assert.EqualValues(t, 1, reset.StreamID)
			return
		}
	}
}

// header2 is the header of a GET in HTTP/2.
func header2(t testing.TB, path string) []byte {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "proxy"}, {":path", path}} {
		require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	return block.Bytes()
}

func TestAConnectionOutlivesARefusal(t *testing.T) {
	f := start(t)
	f.handler.patience = 50 * time.Millisecond
	f.serve("tool", "any", echo)
	fresh := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			fresh++
		}
	}})
	ask := func(path string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.server.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+aliceToken)
		res, err := f.server.Client().Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	ask("/nothing")
	for end := time.Now().Add(4 * f.handler.patience); time.Now().Before(end); {
		ask("/namespaces/prod/connectors/tool/x")
	}
	assert.Equal(t, 1, fresh)
}

func TestARequestForTheWholeServerIsRefusedAndLogged(t *testing.T) {
	s := serve(t)
	conn, err := tls.Dial("tcp", s.server.Addr().String(), &tls.Config{RootCAs: s.roots})
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: proxy\r\n\r\n")
	require.NoError(t, err)
	refused(t, readAnswer(t, conn), http.StatusUnauthorized, "Unauthenticated")
	assert.Equal(t, "*", s.lastLine(1)["path"])
}

func TestS10_ATokenWhosePodIsGoneReadsNothing(t *testing.T) {
	f := start(t, func(o *Options) { o.Authorizer = rights{"system:serviceaccount:dev:builder": true} })
	f.serve("tool", "any", echo)
	for _, path := range []string{"/-/inbox", "/-/explain?namespace=prod&connector=tool&user=alice"} {
		refused(t, f.do(sent{path: path, bearer: "orphan-token-0123456789"}), http.StatusUnauthorized, "Unauthenticated")
		assert.Equal(t, http.StatusOK, f.do(sent{path: path, bearer: builderToken}).StatusCode)
	}
}
