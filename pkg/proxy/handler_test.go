package proxy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

func TestAnAllowedRequestReachesTheTool(t *testing.T) {
	f := start(t)
	f.serve("tool", "any", func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		assert.Equal(t, "robot", user)
		assert.Equal(t, toolPassword, password)
		w.Header().Set("X-Of-Tool", "1")
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.RequestURI)
	})
	got := f.get("/namespaces/prod/connectors/tool/a/b?x=1&y=%20")
	assert.Equal(t, http.StatusOK, got.StatusCode)
	assert.Equal(t, "GET /a/b?x=1&y=%20", got.body)
	assert.Equal(t, "1", got.Header.Get("X-Of-Tool"))
	assert.Equal(t, "allow", got.Header.Get("Countersign-Verdict"))
	assert.Equal(t, "NoApplicableRule", got.Header.Get("Countersign-Reason"))
	assert.Equal(t, "sandbox", got.Header.Get("Content-Security-Policy"), "all connectors share this origin")

	byHost := f.do(sent{path: "/-/explain", host: "c-tool.prod.connectors.local:8443"})
	assert.Equal(t, "GET /-/explain", byHost.body, "below a connector's host everything is the tool's")
	assert.Empty(t, byHost.Header.Get("Content-Security-Policy"))
}

func TestS12_TheToolGetsTheBytesThatWereJudged(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	f.serve("tool", "any", echo)
	for _, path := range []string{
		"/a%2Fb/c", "/a/%41%7e/~", "/sp%20ace/", "/semi;v=1/x", "/@scope/pkg", "/a!$&'()*+,=:b", "/%E4%BD%A0", "/a%252Fb", "/[x]", "/",
	} {
		assert.Equal(t, "GET "+path, f.get("/namespaces/prod/connectors/tool"+path).body)
		assert.Equal(t, path, f.gate.lastUse().Operations[0].Path.String())
	}
}

func TestTheBaseOfTheAddressStandsBeforeThePath(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	tool := httptest.NewServer(http.HandlerFunc(echo))
	defer tool.Close()
	f.tool("tool", "any", tool.URL+"/base%2F1/", func(c *gate.Connector) {
		c.Spec.AddressExtensions = []connectorsv1alpha1.AddressExtension{{Name: "lfs", Address: tool.URL + "/lfs"}}
	})
	assert.Equal(t, "GET /base%2F1/a%2Fb", f.get("/namespaces/prod/connectors/tool/a%2Fb").body)
	assert.Equal(t, "GET /lfs/o/1", f.get("/namespaces/prod/connectors/tool/-ext/lfs/o/1").body)
	refused(t, f.get("/namespaces/prod/connectors/tool/-ext/other/o/1"), http.StatusNotFound, "ConnectorUnknown")
}

func TestRefusals(t *testing.T) {
	f := start(t)
	touched := 0
	f.serve("tool", "any", func(http.ResponseWriter, *http.Request) { touched++ })
	const tool = "/namespaces/prod/connectors/tool"
	tests := map[string]struct {
		give   sent
		status int
		reason string
		want   string
	}{
		"no token":              {sent{path: tool + "/", bearer: "none"}, 401, "Unauthenticated", "no token was sent"},
		"bad token":             {sent{path: tool + "/", bearer: "x"}, 401, "Unauthenticated", "garbled"},
		"keys unreachable":      {sent{path: tool + "/", bearer: "unready-token-0123456789"}, 503, "NotReady", "cannot be read"},
		"unknown connector":     {sent{path: "/namespaces/prod/connectors/other/"}, 404, "ConnectorUnknown", "there is no connector prod/other"},
		"no right at all":       {sent{path: tool + "/", bearer: "nobody-token-0123456789"}, 404, "ConnectorUnknown", "there is no connector prod/tool"},
		"not asked":             {sent{method: "POST", path: tool + "/"}, 403, "NoRequest", "ask for an approval"},
		"dot segments":          {sent{path: tool + "/a/../b"}, 400, "InvalidRequest", "dot segment"},
		"impersonation":         {sent{path: tool + "/", header: http.Header{"Impersonate-User": {"bob"}}}, 400, "InvalidRequest", "Impersonate"},
		"method override":       {sent{path: tool + "/", header: http.Header{"X-Http-Method-Override": {"DELETE"}}}, 400, "InvalidRequest", "method-override"},
		"path override":         {sent{path: tool + "/", header: http.Header{"X-Original-Url": {"/admin"}}}, 400, "InvalidRequest", "another path"},
		"TRACE":                 {sent{method: "TRACE", path: tool + "/"}, 400, "InvalidRequest", "TRACE"},
		"token in the query":    {sent{path: tool + "/?access_token=" + aliceToken}, 400, "InvalidRequest", "URL holds the token"},
		"token in the path":     {sent{path: tool + "/" + aliceToken}, 400, "InvalidRequest", "URL holds the token"},
		"nothing here":          {sent{path: "/somewhere"}, 404, "ConnectorUnknown", "/namespaces/NAMESPACE/connectors/NAME/"},
		"unauthenticated first": {sent{path: tool + "/a/../b", bearer: "none"}, 401, "Unauthenticated", "no token"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := f.do(test.give)
			refused(t, got, test.status, test.reason)
			assert.Equal(t, "deny", got.Header.Get("Countersign-Verdict"))
			assert.Contains(t, got.body, test.want)
		})
	}
	assert.Zero(t, touched)
	assert.NotContains(t, f.log.String(), aliceToken)
}

func TestAnUnknownConnectorLooksLikeAForbiddenOne(t *testing.T) {
	f := start(t)
	f.serve("tool", "oci", echo)
	const nobody = "nobody-token-0123456789"
	for name, s := range map[string]sent{
		"read":                      {path: "/v2/x"},
		"write":                     {method: "POST", path: "/v2/app/blobs/uploads/"},
		"what only registries mind": {method: "POST", path: "/v2/app/blobs/uploads/?mount=a&mount=b&from=c"},
		"method override":           {path: "/x", header: http.Header{"X-Http-Method-Override": {"DELETE"}}},
		"git":                       {path: "/a.git/info/refs?service=git-receive-pack"},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			for _, connector := range []string{"tool", "none"} {
				asked := s
				asked.path, asked.bearer = "/namespaces/prod/connectors/"+connector+s.path, nobody
				got := f.do(asked)
				id := got.Header.Get("Countersign-Request-Id")
				refused(t, got, http.StatusNotFound, "ConnectorUnknown")
				bodies = append(bodies, strings.NewReplacer(id, "ID", connector, "NAME").Replace(got.body)+got.Header.Get("Content-Type"))
			}
			assert.Equal(t, bodies[0], bodies[1])
		})
	}
}

func TestADenialTellsEverything(t *testing.T) {
	f := start(t)
	f.serve("tool", "jira", echo)
	run := &origin.Node{Namespace: "dev", Name: "run-1", UID: "run-uid", ServiceAccounts: []string{"builder"}}
	run.Group, run.Kind = "tekton.dev", "PipelineRun"
	answers := map[string]gate.Answer{
		"NoRequest": {Verdict: decision.Verdict{Reason: "NoRequest", Message: "nobody has asked", Rules: []decision.RuleRef{{Name: "push", UID: "r-1", Generation: 2}}}, Run: run},
		"ChecksPending": {Verdict: decision.Verdict{Reason: "ChecksPending", Message: "it waits",
			Request: &decision.Request{Namespace: "dev", Name: "rcr-1"}, WaitingFor: []duckv1alpha1.CheckWaiting{{Kind: "Group", Name: "owners", Missing: 1}}}, Run: run},
	}
	real := &answeringGate{fakeGate: f.gate}
	f.handler.gate = real
	for reason, want := range map[string]string{
		"NoRequest":     `"ask":"kubectl countersign request connector/tool -n prod --in dev --reason \"...\" --run pipelinerun/run-1","seenAs":"system:serviceaccount:dev:builder"}`,
		"ChecksPending": `"request":"dev/rcr-1","waitingFor":[{"kind":"Group","name":"owners","missing":1}],"seenAs":"system:serviceaccount:dev:builder"}`,
	} {
		real.answer = answers[reason]
		got := f.do(sent{method: "PUT", path: "/namespaces/prod/connectors/tool/issue", bearer: builderToken})
		refused(t, got, http.StatusForbidden, reason)
		assert.Contains(t, got.body, want)
		assert.Equal(t, "application/problem+json", got.Header.Get("Content-Type"))
	}
	line := f.lastLine(2)
	assert.Equal(t, map[string]any{"group": "tekton.dev", "kind": "PipelineRun", "namespace": "dev", "name": "run-1", "uid": "run-uid"}, line["context"])
	assert.Equal(t, "pod-uid-1", line["podUID"])
}

// answeringGate gives one answer to everything.
type answeringGate struct {
	*fakeGate
	answer gate.Answer
}

func (g *answeringGate) Decide(_ context.Context, use gate.Use) gate.Answer {
	a := g.answer
	a.Operation = use.Operations[0]
	return a
}

func TestAccessLog(t *testing.T) {
	f := start(t)
	f.gate.decide = func(gate.Use) decision.Verdict {
		return decision.Verdict{Allow: true, Reason: "AllChecksApproved", Request: &decision.Request{Namespace: "dev", Name: "rcr-1"},
			Rules: []decision.RuleRef{{Name: "push", UID: "r-1", Generation: 2}}}
	}
	f.serve("tool", "any", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("done"))
	})
	got := f.do(sent{method: "PUT", path: "/namespaces/prod/connectors/tool/a?secret=1", body: strings.NewReader("hello")})
	assert.Equal(t, http.StatusCreated, got.StatusCode)
	line := f.lastLine(1)
	for key, want := range map[string]any{
		"id": got.Header.Get("Countersign-Request-Id"), "verdict": "allow", "reason": "AllChecksApproved", "connector": "prod/tool",
		"subject": "alice", "jti": "jti-a", "podUID": "", "context": nil, "request": "dev/rcr-1", "operation": "Write", "method": "PUT",
		"path": "/a", "status": 201.0, "bytesIn": 5.0, "bytesOut": 4.0,
		"contentDigest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("hello"))),
		"rules":         []any{map[string]any{"name": "push", "uid": "r-1", "generation": 2.0}},
	} {
		assert.Equal(t, want, line[key], key)
	}
	f.get("/-/inbox")
	own := f.lastLine(2)
	assert.Equal(t, "Own", own["reason"])
	assert.Equal(t, "/-/inbox", own["path"])
}

func TestS11_NothingLeaks(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	var seen []string
	f.serve("tool", "any", func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, fmt.Sprint(r.Header, r.RequestURI))
		w.Header().Set("Set-Cookie", "session="+toolPassword)
		w.Header().Set("WWW-Authenticate", `Basic realm="`+toolPassword+`"`)
		w.Header().Set("Countersign-Verdict", "deny")
		w.WriteHeader(map[string]int{"/401": 401, "/407": 407, "/403": 403}[r.URL.Path] + 0)
		_, _ = w.Write([]byte(toolPassword))
	})
	var answers []string
	for _, path := range []string{"/401", "/407", "/403"} {
		got := f.do(sent{path: "/namespaces/prod/connectors/tool" + path, header: http.Header{
			"Cookie": {"a=" + aliceToken}, "X-Remote-User": {aliceToken}, "X_forwarded_user": {aliceToken}, "Proxy-Authorization": {"Basic " + aliceToken},
		}})
		if path == "/403" {
			assert.Equal(t, http.StatusForbidden, got.StatusCode)
			assert.Equal(t, []string{"allow"}, got.Header.Values("Countersign-Verdict"))
			got.body = ""
		} else {
			refused(t, got, http.StatusBadGateway, "ToolRefused")
			assert.Equal(t, "allow", got.Header.Get("Countersign-Verdict"), "it was passed on")
		}
		answers = append(answers, fmt.Sprint(got.Header), got.body)
	}
	f.lines(3)
	for _, text := range seen {
		assert.NotContains(t, text, aliceToken, "the tool sees nothing of the caller")
	}
	for _, text := range append(answers, f.log.String()) {
		assert.NotContains(t, text, toolPassword)
		assert.NotContains(t, text, aliceToken)
	}
	require.Len(t, seen, 3)
}

func TestBasicAuthentication(t *testing.T) {
	f := start(t)
	f.serve("tool", "any", echo)
	for name, test := range map[string]struct {
		user, password string
		want           int
	}{
		"password is a token":  {"whoever", aliceToken, 200},
		"no user":              {"", aliceToken, 200},
		"user is the token":    {aliceToken, "", 401},
		"password is no token": {"whoever", "x", 401},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(test.user, test.password)
		got := f.do(sent{path: "/namespaces/prod/connectors/tool/", bearer: "none", header: http.Header{"Authorization": r.Header["Authorization"]}})
		assert.Equal(t, test.want, got.StatusCode, name)
	}
	for name, values := range map[string][]string{"two": {"Bearer " + aliceToken, "Bearer " + aliceToken}, "other": {"Negotiate x"}, "garbage": {"Basic %"}} {
		got := f.do(sent{path: "/namespaces/prod/connectors/tool/", bearer: "none", header: http.Header{"Authorization": values}})
		assert.Equal(t, http.StatusUnauthorized, got.StatusCode, name)
		assert.Equal(t, []string{`Bearer realm="countersign"`, `Basic realm="countersign", charset="UTF-8"`}, got.Header.Values("WWW-Authenticate"))
	}
}

func TestLocations(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	var location string
	status := http.StatusFound
	tool := f.serve("tool", "any", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.Header().Set("Link", `</next>; rel="next"`)
		w.WriteHeader(status)
	})
	const prefix = "/namespaces/prod/connectors/tool"
	ask := func(method, to string, code int) answer {
		location, status = to, code
		return f.do(sent{method: method, path: prefix + "/a"})
	}
	assert.Equal(t, prefix+"/b", ask("GET", "/b", 302).Header.Get("Location"))
	assert.Equal(t, prefix+"/b", ask("PUT", tool.URL+"/b", 201).Header.Get("Location"))
	assert.Equal(t, "<"+prefix+`/next>; rel="next"`, ask("GET", "/b", 302).Header.Get("Link"))
	assert.Equal(t, "https://bucket.example/x?sig=1", ask("GET", "https://bucket.example/x?sig=1", 307).Header.Get("Location"), "a read may be sent on")
	refused(t, ask("PUT", "https://bucket.example/x?sig=1", 307), http.StatusBadGateway, "ToolRefused")
	refused(t, ask("POST", "https://bucket.example/upload", 202), http.StatusBadGateway, "ToolRefused")
	assert.Empty(t, ask("POST", "https://bucket.example/made", 201).Header.Get("Location"))
	refused(t, ask("GET", "https://u:p@bucket.example/x", 302), http.StatusBadGateway, "ToolRefused")
}

func TestToolsThatFail(t *testing.T) {
	f := start(t, func(o *Options) { o.Upstream.HeaderTimeout = 50 * time.Millisecond })
	f.gate.decide = allowAll
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	f.tool("closed", "git", closed.URL)
	f.serve("silent", "oci", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	f.tool("secretless", "k8s", closed.URL, func(c *gate.Connector) { c.Spec.Auth.SecretRef.Name = "absent" })

	got := f.do(sent{method: "POST", path: "/namespaces/prod/connectors/closed/a.git/git-receive-pack"})
	refused(t, got, http.StatusBadGateway, "ToolUnreachable")
	assert.Contains(t, got.body, "countersign: the tool could not be reached: nothing listens")
	assert.Equal(t, "allow", f.lastLine(1)["verdict"])
	assert.Equal(t, "ToolUnreachable", f.lastLine(1)["reason"])

	refused(t, f.get("/namespaces/prod/connectors/silent/x"), http.StatusGatewayTimeout, "ToolTimeout")
	got = f.get("/namespaces/prod/connectors/secretless/api/v1/pods")
	refused(t, got, http.StatusServiceUnavailable, "NotReady")
	assert.Contains(t, got.body, `"kind":"Status"`)
	assert.Equal(t, "deny", f.lastLine(3)["verdict"], "it was not passed on")
}

func TestAConnectorThatChangesMeanwhileIsJudgedAnew(t *testing.T) {
	f := start(t)
	f.serve("tool", "any", echo)
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("moved")) }))
	defer moved.Close()
	decided := 0
	f.gate.decide = func(gate.Use) decision.Verdict {
		decided++
		if decided == 1 {
			c := *f.gate.connectors["prod/tool"]
			c.Generation, c.Spec.Address = 2, moved.URL
			c.Classifier = operation.NewClassifier("any", operation.Override{Class: operation.Write})
			f.gate.connectors["prod/tool"] = &c
		}
		return decision.Verdict{Allow: true, Reason: approvalv1alpha1.ReasonAllChecksApproved}
	}
	got := f.get("/namespaces/prod/connectors/tool/a")
	assert.Equal(t, "moved", got.body)
	assert.False(t, f.gate.lastUse().Operations[0].IsRead(), "by the new classes")

	f.gate.decide = func(gate.Use) decision.Verdict {
		c := *f.gate.connectors["prod/tool"]
		c.Generation++
		f.gate.connectors["prod/tool"] = &c
		return decision.Verdict{Allow: true}
	}
	refused(t, f.get("/namespaces/prod/connectors/tool/a"), http.StatusServiceUnavailable, "NotReady")
}

func TestIDsAreUnique(t *testing.T) {
	ids, seen := newIDs(), map[string]bool{}
	for range 1000 {
		seen[ids.New()] = true
	}
	assert.Len(t, seen, 1000)
	assert.NotEqual(t, ids.prefix, newIDs().prefix)
}
