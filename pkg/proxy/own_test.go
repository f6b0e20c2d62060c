package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/proxy/denial"
)

func TestRegistryPing(t *testing.T) {
	f := start(t)
	for _, path := range []string{"/v2/", "/v2"} {
		got := f.get(path)
		assert.Equal(t, http.StatusOK, got.StatusCode)
		assert.Equal(t, "registry/2.0", got.Header.Get("Docker-Distribution-Api-Version"))
		refusedPing := f.do(sent{path: path, bearer: "none"})
		refused(t, refusedPing, http.StatusUnauthorized, "Unauthenticated")
		assert.Equal(t, []string{`Basic realm="countersign", charset="UTF-8"`}, refusedPing.Header.Values("WWW-Authenticate"))
		assert.Contains(t, refusedPing.body, `"UNAUTHORIZED"`)
	}
	for _, path := range []string{"/v2/_catalog", "/v2/app/manifests/1", "/v2/namespaces/prod/other/x"} {
		got := f.get(path)
		refused(t, got, http.StatusNotFound, "ConnectorUnknown")
		assert.Contains(t, got.body, "namespaces/NAMESPACE/connectors/NAME/REPOSITORY")
		assert.Contains(t, got.body, `"NAME_UNKNOWN"`)
	}
	refused(t, f.do(sent{method: "POST", path: "/v2/"}), http.StatusBadRequest, "InvalidRequest")
}

func explain(f *fixture, query url.Values) (Explanation, answer) {
	f.t.Helper()
	got := f.get("/-/explain?" + query.Encode())
	var e Explanation
	if got.StatusCode == http.StatusOK {
		require.NoError(f.t, json.Unmarshal([]byte(got.body), &e))
	}
	return e, got
}

func TestExplain(t *testing.T) {
	f := start(t)
	touched := false
	f.serve("tool", "git", func(http.ResponseWriter, *http.Request) { touched = true })
	about := func(more ...string) url.Values {
		v := url.Values{"namespace": {"prod"}, "connector": {"tool"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	const push = "/a.git/info/refs?service=git-receive-pack"

	e, _ := explain(f, about("path", push))
	assert.NotEmpty(t, e.ID)
	e.ID = ""
	assert.Equal(t, Explanation{
		Verdict: "deny",
		Document: denial.Document{Title: "Forbidden", Status: 403, Reason: "NoRequest", Detail: "Nobody has asked for this use: ask for an approval.",
			Ask: `kubectl countersign request connector/tool -n prod --reason "..."`, SeenAs: "alice"},
		Operations: []string{"Write (GET /a.git/info/refs)"},
	}, e)

	until := time.Date(2126, 3, 1, 12, 0, 0, 0, time.UTC)
	f.gate.change(func(gate.Use) decision.Verdict {
		return decision.Verdict{Allow: true, Reason: "AllChecksApproved", Until: until, Rules: []decision.RuleRef{{Name: "push", UID: "r", Generation: 1}},
			Request: &decision.Request{Namespace: "dev", Name: "rcr-1"}}
	})
	e, _ = explain(f, about("path", push, "user", "bob", "groups", "a,b"))
	assert.Equal(t, "allow", e.Verdict)
	assert.Equal(t, http.StatusOK, e.Status)
	assert.Equal(t, "the request is allowed until 2126-03-01T12:00:00Z", e.Detail)
	assert.Equal(t, "bob", e.SeenAs)
	assert.Equal(t, "dev/rcr-1", e.Request)
	assert.Equal(t, []ExplainedRule{{Name: "push", UID: "r", Generation: 1}}, e.Rules)
	assert.Equal(t, until, *e.Until)
	assert.Equal(t, []string{"a", "b", "system:authenticated"}, f.gate.lastUse().Identity.Groups)
	assert.False(t, touched)

	e, _ = explain(f, url.Values{"namespace": {"prod"}, "connector": {"none"}})
	assert.Equal(t, "ConnectorUnknown", e.Reason)
	assert.Empty(t, e.Operations)

	e, _ = explain(f, about("method", "POST", "path", "/a%zz"))
	assert.Empty(t, e)
	for name, query := range map[string]url.Values{
		"no connector":    {"namespace": {"prod"}},
		"bad path":        about("path", "/../x"),
		"service account": about("user", "system:serviceaccount:dev:builder"),
	} {
		_, got := explain(f, query)
		assert.Equal(t, http.StatusBadRequest, got.StatusCode, name)
	}
	for _, line := range f.lines(5) {
		assert.Equal(t, "", line["connector"], "explaining is no use of a connector")
		assert.Equal(t, "", line["operation"])
	}
}

func TestOnlySomeMayAskAboutOthers(t *testing.T) {
	f := start(t, func(o *Options) { o.Authorizer = rights{} })
	f.serve("tool", "any", echo)
	_, got := explain(f, url.Values{"namespace": {"prod"}, "connector": {"tool"}, "user": {"bob"}})
	refused(t, got, http.StatusForbidden, "NotPermitted")
	assert.Contains(t, got.body, "verb explain")
	_, got = explain(f, url.Values{"namespace": {"prod"}, "connector": {"none"}, "user": {"bob"}})
	refused(t, got, http.StatusNotFound, "ConnectorUnknown")
}

func TestInbox(t *testing.T) {
	f := start(t)
	created := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for i := range 3 {
		check := &approvalv1alpha1.ApprovalRequest{Spec: approvalv1alpha1.ApprovalRequestSpec{
			Timeout: &metav1.Duration{Duration: time.Hour}, Request: &approvalv1alpha1.CheckRequest{Reason: "promote 1.4.2"},
		}}
		check.Namespace, check.Name, check.UID, check.CreationTimestamp = "prod", fmt.Sprintf("check-%d", i), types.UID(fmt.Sprintf("u-%d", i)), created
		f.gate.pending = append(f.gate.pending, check)
	}
	var names []string
	next := ""
	for page := 0; page == 0 || next != ""; page++ {
		var inbox Inbox
		got := f.get("/-/inbox?limit=2&continue=" + next)
		require.Equal(t, http.StatusOK, got.StatusCode, got.body)
		require.NoError(t, json.Unmarshal([]byte(got.body), &inbox))
		for _, item := range inbox.Items {
			names = append(names, item.Namespace+"/"+item.Name)
			assert.Equal(t, created.Add(time.Hour), item.Deadline.UTC())
			assert.Equal(t, "promote 1.4.2", item.Request.Reason)
		}
		next = inbox.Continue
	}
	assert.Equal(t, []string{"prod/check-0", "prod/check-1", "prod/check-2"}, names)
	for _, limit := range []string{"0", "201", "x"} {
		refused(t, f.get("/-/inbox?limit="+limit), http.StatusBadRequest, "InvalidRequest")
	}
	empty := start(t).get("/-/inbox")
	assert.JSONEq(t, `{"items": []}`, empty.body)
}

func TestRechecksAskForEverythingAgain(t *testing.T) {
	f := start(t)
	f.serve("tool", "any", echo)
	connector, _ := f.gate.Connector("prod", "tool")
	c := &call{Handler: f.handler, bearer: aliceToken, connector: connector}
	c.route.Namespace, c.route.Name = "prod", "tool"
	c.operations, _ = classify(connector, requestFor(t, "GET", "/a"))
	v := c.Judge(context.Background())
	assert.True(t, v.Allow)
	assert.WithinDuration(t, time.Now().Add(time.Hour), v.Until, time.Minute, "the token ends by itself")

	for bearer, want := range map[string]struct {
		reason  string
		unknown bool
	}{"expired": {"Unauthenticated", false}, "unready-token-0123456789": {"NotReady", true}, "nobody-token-0123456789": {"ConnectorUnknown", false}} {
		c.bearer = bearer
		v := c.Judge(context.Background())
		assert.False(t, v.Allow)
		assert.Equal(t, want.reason, v.Reason)
		assert.Equal(t, want.unknown, v.Unknown)
	}
}
