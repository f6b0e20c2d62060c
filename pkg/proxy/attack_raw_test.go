package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seen is what came through to a tool.
type seen struct {
	mu       sync.Mutex
	requests []string
}

func (s *seen) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.RequestURI+" "+string(body))
	w.WriteHeader(http.StatusNoContent)
}

func (s *seen) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// statuses reads answers until the connection ends; every one comes from the proxy or its HTTP server.
func statuses(t testing.TB, conn net.Conn) (codes []int) {
	t.Helper()
	reader := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err), "%v", err)
			return codes
		}
		_, _ = io.Copy(io.Discard, res.Body)
		codes = append(codes, res.StatusCode)
	}
}

func isReset(err error) bool {
	var network *net.OpError
	return errors.As(err, &network)
}

// TestS12_WhatIsForwardedIsWhatWasJudged sends requests that proxies and tools are known to understand differently. Only
// reads are allowed, so whatever the tool sees is what the proxy took for one.
func TestS12_WhatIsForwardedIsWhatWasJudged(t *testing.T) {
	const base, login = "/namespaces/prod/connectors/tool", "Authorization: Bearer " + aliceToken + "\r\nConnection: close\r\n"
	get := func(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: proxy\r\n" + login + "\r\n" }
	tests := map[string]struct {
		class string
		raw   string
		codes []int
		saw   []string
	}{
		"plain":                        {"any", get(base + "/a"), []int{204}, []string{"GET /a "}},
		"absolute form":                {"any", get("http://proxy" + base + "/a"), []int{400}, nil},
		"absolute form, foreign host":  {"any", get("http://169.254.169.254/latest"), []int{400}, nil},
		"authority form":               {"any", get("proxy:443"), []int{400}, nil},
		"connect":                      {"any", "CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n" + login + "\r\n", []int{400}, nil},
		"connect to a connector":       {"any", "CONNECT " + base + "/a HTTP/1.1\r\nHost: proxy\r\n" + login + "\r\n", []int{400}, nil},
		"trace":                        {"any", "TRACE " + base + "/a HTTP/1.1\r\nHost: proxy\r\n" + login + "\r\n", []int{400}, nil},
		"small method":                 {"any", "get " + base + "/a HTTP/1.1\r\nHost: proxy\r\n" + login + "\r\n", []int{403}, nil},
		"unknown method":               {"any", "GETT " + base + "/a HTTP/1.1\r\nHost: proxy\r\n" + login + "\r\n", []int{403}, nil},
		"dot segment":                  {"any", get(base + "/a/../../../x"), []int{400}, nil},
		"dot segment before the name":  {"any", get("/x/.." + base + "/a"), []int{400}, nil},
		"encoded dots":                 {"any", get(base + "/%2e%2e/a"), []int{400}, nil},
		"half encoded dots":            {"any", get(base + "/.%2E/a"), []int{400}, nil},
		"twice encoded dots":           {"any", get(base + "/%252e%252e/a"), []int{400}, nil},
		"dots with a parameter":        {"any", get(base + "/..;x=1/a"), []int{400}, nil},
		"empty segment":                {"any", get(base + "//a"), []int{400}, nil},
		"empty segment at the front":   {"any", get("/" + base + "/a"), []int{400}, nil},
		"encoded slash is a write":     {"any", get(base + "/a%2Fb"), []int{403}, nil},
		"backslash":                    {"any", get(base + `/a\b`), []int{400}, nil},
		"encoded backslash":            {"any", get(base + "/a%5cb"), []int{400}, nil},
		"fragment":                     {"any", get(base + "/a#/b"), []int{400}, nil},
		"fragment in the query":        {"any", get(base + "/a?b#c"), []int{400}, nil},
		"zero byte":                    {"any", get(base + "/a%00"), []int{400}, nil},
		"line break":                   {"any", get(base + "/a%0d%0aX:%20y"), []int{400}, nil},
		"not UTF-8":                    {"any", get(base + "/%ff"), []int{400}, nil},
		"overlong slash":               {"any", get(base + "/%c0%af"), []int{400}, nil},
		"prefix in escapes":            {"any", get("/namespaces/prod/connectors/too%6c/a"), []int{404}, nil},
		"prefix in capitals":           {"any", get("/Namespaces/prod/connectors/tool/a"), []int{404}, nil},
		"host beats path":              {"any", "GET " + base + "/a HTTP/1.1\r\nHost: c-other.prod.connectors.local\r\n" + login + "\r\n", []int{404}, nil},
		"host by a header":             {"any", "GET /a HTTP/1.1\r\nHost: proxy\r\nX-Forwarded-Host: c-tool.prod.connectors.local\r\n" + login + "\r\n", []int{404}, nil},
		"two hosts":                    {"any", "GET /a HTTP/1.1\r\nHost: c-tool.prod.connectors.local\r\nHost: proxy\r\n" + login + "\r\n", []int{400}, nil},
		"path by a header":             {"any", "GET " + base + "/a HTTP/1.1\r\nHost: proxy\r\nX-Original-Url: /b\r\n" + login + "\r\n", []int{400}, nil},
		"method by a header":           {"any", "GET " + base + "/a HTTP/1.1\r\nHost: proxy\r\nX-HTTP_Method-Override: DELETE\r\n" + login + "\r\n", []int{400}, nil},
		"impersonation":                {"k8s", "GET " + base + "/api HTTP/1.1\r\nHost: proxy\r\nimpersonate-user: admin\r\n" + login + "\r\n", []int{400}, nil},
		"chunked and length":           {"git", "POST " + base + "/x.git/git-upload-pack HTTP/1.1\r\nHost: proxy\r\n" + login + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nDELETE /b HTTP/1.1\r\nHost: proxy\r\n\r\n", []int{204}, []string{"POST /x.git/git-upload-pack "}},
		"two lengths":                  {"git", "POST " + base + "/x.git/git-upload-pack HTTP/1.1\r\nHost: proxy\r\n" + login + "Content-Length: 4\r\nContent-Length: 0\r\n\r\nDELE", []int{400}, nil},
		"chunked, oddly spelled":       {"git", "POST " + base + "/x.git/git-upload-pack HTTP/1.1\r\nHost: proxy\r\n" + login + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", []int{501}, nil},
		"space before the colon":       {"any", "GET " + base + "/a HTTP/1.1\r\nHost: proxy\r\n" + login + "Content-Length : 4\r\n\r\nGET ", []int{400}, nil},
		"body of a read":               {"any", "GET " + base + "/a HTTP/1.1\r\nHost: proxy\r\n" + login + "Content-Length: 4\r\n\r\nDELE", []int{204}, []string{"GET /a DELE"}},
		"websocket to a read":          {"any", "GET " + base + "/a HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer " + aliceToken + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", nil, nil},
		"exec over a websocket":        {"k8s", "GET " + base + "/api/v1/namespaces/x/pods/y/exec?command=id HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer " + aliceToken + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", nil, nil},
		"watch, then not":              {"k8s", "GET " + base + "/api/v1/pods?watch=true&watch=false HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer " + aliceToken + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", nil, nil},
		"secrets by the old watch":     {"k8s", get(base + "/api/v1/watch/namespaces/x/secrets"), []int{403}, nil},
		"secrets in capitals":          {"k8s", get(base + "/api/v1/namespaces/x/SECRETS"), []int{403}, nil},
		"secrets in escapes":           {"k8s", get(base + "/api/v1/namespaces/x/%73ecrets"), []int{403}, nil},
		"secrets in double escapes":    {"k8s", get(base + "/api/v1/namespaces/x/%2573ecrets"), []int{403}, nil},
		"secrets behind a status":      {"k8s", get(base + "/api/v1/namespaces/status/secrets"), []int{403}, nil},
		"a pod's proxy":                {"k8s", get(base + "/api/v1/namespaces/x/pods/y/proxy/"), []int{403}, nil},
		"the old proxy":                {"k8s", get(base + "/api/v1/proxy/namespaces/x/pods/y"), []int{403}, nil},
		"a node's proxy":               {"k8s", get(base + "/api/v1/nodes/n/proxy/logs"), []int{403}, nil},
		"an aggregated API's own verb": {"k8s", get(base + "/apis/x.example/v1/namespaces/x/things/y/connect"), []int{403}, nil},
		"dry run of a write":           {"k8s", "POST " + base + "/api/v1/namespaces/x/pods?dryRun=All HTTP/1.1\r\nHost: proxy\r\n" + login + "Content-Length: 0\r\n\r\n", []int{403}, nil},
		"push behind a fetch":          {"git", get(base + "/x.git/info/refs?service=git-upload-pack&service=git-receive-pack"), []int{403}, nil},
		"push behind a semicolon":      {"git", get(base + "/x.git/info/refs?service=git-upload-pack;service=git-receive-pack"), []int{403}, nil},
		"push in escapes":              {"git", get(base + "/x.git/info/refs?s%65rvice=git-receive%2Dpack"), []int{403}, nil},
		"token twice":                  {"any", "GET " + base + "/a HTTP/1.1\r\nHost: proxy\r\nAuthorization: Basic eDp5\r\n" + login + "\r\n", []int{401}, nil},
		"token in the query":           {"any", "GET " + base + "/a?access_token=" + aliceToken + " HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n\r\n", []int{401}, nil},
		"token in both":                {"any", get(base + "/a?access_token=" + aliceToken), []int{400}, nil},
		"token in a cookie":            {"any", "GET " + base + "/a HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\nCookie: Authorization=Bearer%20" + aliceToken + "\r\n\r\n", []int{401}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f, tool := start(t), &seen{}
			f.handler.patience = time.Second
			f.serve("tool", test.class, tool.serve)
			conn := f.raw(test.raw)
			if test.codes == nil {
				// A refused upgrade leaves the connection open, so there is one answer to wait for.
				assert.Equal(t, http.StatusForbidden, readAnswer(t, conn).StatusCode)
			} else {
				assert.Equal(t, test.codes, statuses(t, conn))
			}
			assert.Equal(t, test.saw, tool.all())
			assert.NotContains(t, strings.Join(tool.all(), " "), "DELETE")
		})
	}
}
