package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/gate"
)

func revoked(gate.Use) decision.Verdict {
	return decision.Verdict{Reason: "Revoked", Message: "revoked by owner1"}
}

// eternal answers at once and then goes on until the caller or the proxy ends it.
func eternal(ended chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}
}

func (f *fixture) open(path string) *http.Response {
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.server.URL+path, nil)
	require.NoError(f.t, err)
	r.Header.Set("Authorization", "Bearer "+aliceToken)
	res, err := f.server.Client().Do(r)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestS13_AWatchIsCut(t *testing.T) {
	for name, path := range map[string]string{"watch": "/pods?watch=true", "log": "/log?follow=true"} {
		t.Run(name, func(t *testing.T) {
			f, ended := start(t), make(chan struct{})
			f.gate.decide = allowAll
			f.serve("tool", "k8s", eternal(ended))
			res := f.open("/namespaces/prod/connectors/tool/api/v1" + path)
			line, err := bufio.NewReader(res.Body).ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, "first\n", line, "answers are not held back")
			f.gate.change(revoked)
			_, err = io.ReadAll(res.Body)
			assert.Error(t, err, "the caller sees that it was not the end")
			<-ended
			logged := f.lastLine(1)
			assert.Equal(t, "cut", logged["verdict"])
			assert.Equal(t, "Revoked", logged["reason"])
			assert.Equal(t, 200.0, logged["status"])
		})
	}
}

func TestS13_ALongAnswerIsCut(t *testing.T) {
	f, ended := start(t, func(o *Options) { o.Streams.After = time.Millisecond }), make(chan struct{})
	f.gate.decide = allowAll
	f.serve("tool", "any", eternal(ended))
	res := f.open("/namespaces/prod/connectors/tool/big")
	require.Eventually(t, func() bool { return f.handler.streams.Len() == 1 }, 10*time.Second, time.Millisecond)
	f.gate.change(revoked)
	_, err := io.ReadAll(res.Body)
	assert.Error(t, err)
	<-ended
}

func TestS13_AnUploadIsRefusedInTheMiddle(t *testing.T) {
	f := start(t, func(o *Options) { o.Streams.After = time.Millisecond })
	f.gate.decide = allowAll
	f.serve("tool", "git", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	body, fill := io.Pipe()
	defer func() { _ = fill.Close() }()
	go func() {
		_, _ = fill.Write([]byte("part"))
		require.Eventually(t, func() bool { return f.handler.streams.Len() == 1 }, 10*time.Second, time.Millisecond)
		f.gate.change(revoked)
	}()
	got := f.do(sent{method: "POST", path: "/namespaces/prod/connectors/tool/a.git/git-receive-pack", body: body})
	refused(t, got, http.StatusForbidden, "Revoked")
	assert.Contains(t, got.body, "revoked by owner1")
	assert.Equal(t, "cut", f.lastLine(1)["verdict"])
	assert.Empty(t, f.lastLine(1)["contentDigest"], "the tool did not get it whole")
}

// upgrade speaks a protocol of its own that repeats every line.
func upgrade(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "lines" || r.Header.Get("Connection") != "Upgrade" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	for {
		_ = rw.Flush()
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = rw.WriteString(line)
	}
}

// dial opens an upgraded connection through the proxy.
func (f *fixture) dial(path string) (net.Conn, *bufio.Reader, *http.Response) {
	conn, err := tls.Dial("tcp", f.server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own server
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n", path, aliceToken)
	require.NoError(f.t, err)
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	require.NoError(f.t, err)
	return conn, reader, res
}

func TestS13_AnUpgradedConnectionIsCut(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	f.serve("tool", "k8s", upgrade)
	conn, reader, res := f.dial("/namespaces/prod/connectors/tool/api/v1/namespaces/n/pods/p/exec?command=sh")
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	assert.Equal(t, "allow", res.Header.Get("Countersign-Verdict"))
	_, err := io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello\n", line)
	assert.Equal(t, 1, f.handler.streams.Len())

	f.gate.change(revoked)
	_, err = reader.ReadString('\n')
	assert.Error(t, err)
	logged := f.lastLine(1)
	assert.Equal(t, "cut", logged["verdict"])
	assert.Equal(t, 101.0, logged["status"])
	assert.Equal(t, 6.0, logged["bytesIn"])
	assert.Equal(t, 6.0, logged["bytesOut"])
	assert.Equal(t, "Write", logged["operation"])
}

func TestAnUpgradedConnectionEndsByItself(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	f.serve("tool", "any", upgrade)
	conn, _, res := f.dial("/namespaces/prod/connectors/tool/x")
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	require.NoError(t, conn.Close())
	assert.Equal(t, "allow", f.lastLine(1)["verdict"])
	assert.Zero(t, f.handler.streams.Len())
}

func TestAnUpgradeIsDecidedAboutFirst(t *testing.T) {
	f := start(t)
	f.serve("tool", "any", upgrade)
	_, _, res := f.dial("/namespaces/prod/connectors/tool/x")
	assert.Equal(t, http.StatusForbidden, res.StatusCode, "a GET that upgrades is a write")
	assert.Equal(t, "NoRequest", res.Header.Get("Countersign-Reason"))
}

func TestS13_AChangedConnectorCuts(t *testing.T) {
	f, ended := start(t), make(chan struct{})
	f.gate.decide = allowAll
	f.serve("tool", "any", eternal(ended))
	res := f.open("/namespaces/prod/connectors/tool/x?watch=1")
	f.gate.mu.Lock()
	c := *f.gate.connectors["prod/tool"]
	c.Generation++
	f.gate.connectors["prod/tool"] = &c
	f.gate.mu.Unlock()
	f.gate.change(allowAll)
	_, err := io.ReadAll(res.Body)
	assert.Error(t, err)
	<-ended
	assert.Equal(t, "ObjectChanged", f.lastLine(1)["reason"])
}

func TestACallerWhoDoesNotReadIsDropped(t *testing.T) {
	f := start(t, func(o *Options) {
		o.Streams.After, o.Streams.Recheck, o.Streams.Stall = time.Millisecond, 5*time.Millisecond, 20*time.Millisecond
	})
	f.gate.decide = allowAll
	ended := make(chan struct{})
	f.serve("tool", "any", func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		chunk := make([]byte, 1<<20)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	conn, err := tls.Dial("tcp", f.server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own server
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET /namespaces/prod/connectors/tool/big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", aliceToken)
	require.NoError(t, err)
	<-ended
	// TLS would take its time to say goodbye to somebody who does not read.
	require.NoError(t, conn.Close())
	assert.Equal(t, "allow", f.lastLine(1)["verdict"])
}

func TestStreamsAreCutWhenTheProxyGoesDown(t *testing.T) {
	f, ended := start(t), make(chan struct{})
	f.gate.decide = allowAll
	f.serve("tool", "any", eternal(ended))
	res := f.open("/namespaces/prod/connectors/tool/x?watch=1")
	f.handler.CutStreams()
	_, err := io.ReadAll(res.Body)
	assert.Error(t, err)
	<-ended
	assert.Equal(t, "NotReady", f.lastLine(1)["reason"])
}
