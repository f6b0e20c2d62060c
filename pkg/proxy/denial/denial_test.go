package denial

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func pending() *Denial {
	return &Denial{
		Reason:     approvalv1alpha1.ReasonChecksPending,
		Detail:     "the push to prod-harbor waits for its owners",
		ID:         "id-1",
		Namespace:  "prod",
		Name:       "prod-harbor",
		Request:    "dev/rcr-abc",
		WaitingFor: []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForGroup, Name: "prod-owners", Missing: 2}, {Kind: duckv1alpha1.WaitingForOther, Name: "window"}},
		SeenAs:     "alice",
	}
}

func noRequest() *Denial {
	return &Denial{
		Reason:    approvalv1alpha1.ReasonNoRequest,
		Detail:    "nobody has asked to write to prod-harbor",
		ID:        "id-2",
		Namespace: "prod",
		Name:      "prod-harbor",
		Ask:       `kubectl countersign request connector/prod-harbor -n prod --in dev --reason "..."`,
		SeenAs:    "system:serviceaccount:dev:builder",
	}
}

func write(d *Denial, method string, dialect Dialect) *http.Response {
	w := httptest.NewRecorder()
	d.Write(w, method, dialect)
	return w.Result()
}

func TestGitPrintsEveryLine(t *testing.T) {
	res := write(pending(), http.MethodGet, Git)
	assert.Equal(t, "text/plain; charset=utf-8", res.Header.Get("Content-Type"))
	body := httptest.NewRecorder()
	pending().Write(body, http.MethodGet, Git)
	assert.Equal(t, `countersign: the push to prod-harbor waits for its owners (ChecksPending)
request for approval: dev/rcr-abc
still to answer: group prod-owners (2 answers), window
you are seen as alice
id id-1
`, body.Body.String())
}

func TestRegistryClientsPrintTheReason(t *testing.T) {
	res := write(noRequest(), http.MethodPost, Registry)
	defer func() { _ = res.Body.Close() }()
	res.Request = httptest.NewRequest(http.MethodPost, "/v2/app/blobs/uploads/", nil)
	err := transport.CheckError(res, http.StatusAccepted)
	assert.ErrorContains(t, err, `DENIED: nobody has asked to write to prod-harbor (NoRequest); to ask: kubectl countersign request connector/prod-harbor -n prod --in dev --reason "..."; you are seen as system:serviceaccount:dev:builder; id id-2`)
}

func TestKubernetesClientsReadAStatus(t *testing.T) {
	d := pending()
	d.Reason, d.RetryAfter = approvalv1alpha1.ReasonOriginPending, 1200*time.Millisecond
	res := write(d, http.MethodGet, Kubernetes)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	assert.Equal(t, "2", res.Header.Get("Retry-After"))
	var status metav1.Status
	require.NoError(t, json.NewDecoder(res.Body).Decode(&status))
	assert.Equal(t, "Status", status.Kind)
	assert.Equal(t, metav1.StatusReasonServiceUnavailable, status.Reason)
	assert.EqualValues(t, http.StatusServiceUnavailable, status.Code)
	assert.Contains(t, status.Message, "the push to prod-harbor waits for its owners (OriginPending)")
	assert.Equal(t, &metav1.StatusDetails{
		Name: "prod-harbor", Group: "connectors.alaudadevops.io", Kind: "connectors", RetryAfterSeconds: 2,
		Causes: []metav1.StatusCause{{Type: causeReason, Message: "OriginPending"}},
	}, status.Details)
}

func TestProblemDocument(t *testing.T) {
	res := write(pending(), http.MethodGet, Problem)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	var got Document
	require.NoError(t, json.NewDecoder(res.Body).Decode(&got))
	assert.Equal(t, Document{
		Title: "Forbidden", Status: 403, Reason: "ChecksPending", Detail: "the push to prod-harbor waits for its owners", ID: "id-1",
		Request: "dev/rcr-abc", WaitingFor: pending().WaitingFor, SeenAs: "alice",
	}, got)
}

func TestEveryAnswerCarriesTheVerdict(t *testing.T) {
	for _, dialect := range []Dialect{Problem, Registry, Kubernetes, Git} {
		res := write(pending(), http.MethodHead, dialect)
		assert.Equal(t, http.StatusForbidden, res.StatusCode)
		assert.Equal(t, VerdictDeny, res.Header.Get(HeaderVerdict))
		assert.Equal(t, "ChecksPending", res.Header.Get(HeaderReason))
		assert.Equal(t, "id-1", res.Header.Get(HeaderRequestID))
		assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		w := httptest.NewRecorder()
		pending().Write(w, http.MethodHead, dialect)
		assert.Empty(t, w.Body.String(), "HEAD has no body")
	}
}

func TestNothingIsSaidTwice(t *testing.T) {
	d := pending()
	d.Detail = "Request dev/rcr-abc waits for the answer to rule push from group prod-owners (2 answers) or window."
	assert.Equal(t, "Request dev/rcr-abc waits for the answer to rule push from group prod-owners (2 answers) or window (ChecksPending); you are seen as alice; id id-1", d.sentence())
}

func TestAToolThatFailsIsNoDenial(t *testing.T) {
	res := write(&Denial{Reason: approvalv1alpha1.ReasonToolTimeout, Passed: true}, http.MethodPut, Problem)
	assert.Equal(t, http.StatusGatewayTimeout, res.StatusCode)
	assert.Equal(t, VerdictAllow, res.Header.Get(HeaderVerdict))
}

func TestChallenges(t *testing.T) {
	tests := map[string]struct {
		dialect Dialect
		want    []string
	}{
		"registry clients send a password": {Registry, []string{basicChallenge}},
		"git sends a password":             {Git, []string{basicChallenge}},
		"kubectl has its own ways":         {Kubernetes, []string{bearerChallenge}},
		"others may choose":                {Problem, []string{bearerChallenge, basicChallenge}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := &Denial{Reason: approvalv1alpha1.ReasonUnauthenticated, Detail: "no token", ID: "1"}
			res := write(d, http.MethodGet, test.dialect)
			assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
			assert.Equal(t, test.want, res.Header.Values("WWW-Authenticate"))
		})
	}
}

func TestStatusCode(t *testing.T) {
	tests := map[string]int{
		approvalv1alpha1.ReasonInvalidRequest:   400,
		approvalv1alpha1.ReasonUnauthenticated:  401,
		approvalv1alpha1.ReasonNotPermitted:     403,
		approvalv1alpha1.ReasonNoRequest:        403,
		approvalv1alpha1.ReasonNoRules:          403,
		"SomethingNew":                          403,
		approvalv1alpha1.ReasonConnectorUnknown: 404,
		approvalv1alpha1.ReasonToolUnreachable:  502,
		approvalv1alpha1.ReasonToolRefused:      502,
		approvalv1alpha1.ReasonStale:            503,
		approvalv1alpha1.ReasonUnguarded:        503,
		approvalv1alpha1.ReasonNotReady:         503,
		approvalv1alpha1.ReasonOriginPending:    503,
		approvalv1alpha1.ReasonToolTimeout:      504,
	}
	for reason, want := range tests {
		assert.Equal(t, want, StatusCode(reason), reason)
	}
}

func TestTextsOfOthersCannotDraw(t *testing.T) {
	d := pending()
	d.Detail = "rejected: \x1b[2J\u202eok"
	d.SeenAs = "a\nb"
	d.WaitingFor = []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForUser, Name: "c\rd"}}
	for _, dialect := range []Dialect{Problem, Registry, Kubernetes, Git} {
		w := httptest.NewRecorder()
		d.Write(w, http.MethodGet, dialect)
		body := w.Body.String()
		assert.NotContains(t, body, "\x1b")
		assert.NotContains(t, body, `\u001b`, "nor after JSON is decoded")
		assert.NotContains(t, body, "\u202e")
		assert.NotContains(t, body, "a\nb")
		assert.NotContains(t, body, "c\rd")
	}
}

func TestDialects(t *testing.T) {
	agent := func(s string) http.Header { return http.Header{"User-Agent": {s}} }
	tests := map[string]struct{ got, want Dialect }{
		"git by class":              {ForClass("git", "/anything", nil), Git},
		"registry by class":         {ForClass("oci", "/v2/app/tags/list", nil), Registry},
		"harbor's registry":         {ForClass("harbor", "/v2/", nil), Registry},
		"harbor's API":              {ForClass("harbor", "/api/v2.0/projects", nil), Problem},
		"kubernetes by class":       {ForClass("k8s", "/version", nil), Kubernetes},
		"other class, git's path":   {ForClass("gitea", "/a/b.git/info/refs", nil), Git},
		"other class":               {ForClass("jira", "/rest/api", nil), Problem},
		"registry by path":          {Guess("/v2/a/manifests/1", agent("curl/8")), Registry},
		"git by agent":              {Guess("/a", agent("git/2.47")), Git},
		"git by path":               {Guess("/a.git/git-receive-pack", agent("")), Git},
		"kubectl by agent":          {Guess("/version", agent("kubectl/v1.37")), Kubernetes},
		"kubernetes by path":        {Guess("/apis/apps/v1", agent("")), Kubernetes},
		"harbor's API is no kube's": {Guess("/api/v2.0/projects", agent("curl")), Problem},
	}
	for name, test := range tests {
		assert.Equal(t, test.want, test.got, name)
	}
}
