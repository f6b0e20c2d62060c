package rewrite

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/proxy/route"
)

func parse(t testing.TB, s string) *url.URL {
	u, err := url.Parse(s)
	require.NoError(t, err)
	return u
}

func newMap(t testing.TB, form route.Form, asked string) *Map {
	return &Map{
		Route:   &route.Route{Form: form, Namespace: "prod", Name: "tool"},
		Request: parse(t, asked),
		Targets: []route.Target{
			{URL: parse(t, "https://tool.example:8443/base")},
			{Extension: "lfs", URL: parse(t, "https://lfs.example")},
		},
	}
}

func TestURL(t *testing.T) {
	const asked = "https://tool.example:8443/base/v2/app/blobs/uploads/"
	tests := map[string]struct {
		form            route.Form
		public          string
		reference, want string
		foreign         bool
	}{
		"host: absolute path":            {form: route.Host, reference: "/base/a?x=1#f", want: "/a?x=1#f"},
		"host: absolute URL":             {form: route.Host, reference: "https://tool.example:8443/base/a", want: "/a"},
		"host: the base itself":          {form: route.Host, reference: "https://tool.example:8443/base", want: "/"},
		"host: other scheme":             {form: route.Host, reference: "http://tool.example:8443/base/a", want: "/a"},
		"host: other case":               {form: route.Host, reference: "https://TOOL.example:8443/base/a", want: "/a"},
		"host: relative":                 {form: route.Host, reference: "id?_state=x", want: "/v2/app/blobs/uploads/id?_state=x"},
		"host: extension":                {form: route.Host, public: "https://proxy", reference: "https://lfs.example/o/1", want: "https://proxy/namespaces/prod/connectors/tool/-ext/lfs/o/1"},
		"host: extension, no own URL":    {form: route.Host, reference: "https://lfs.example/o/1", foreign: true},
		"path: absolute path":            {form: route.Path, reference: "/base/a", want: "/namespaces/prod/connectors/tool/a"},
		"path: relative":                 {form: route.Path, reference: "../x", want: "/namespaces/prod/connectors/tool/v2/app/blobs/x"},
		"path: extension":                {form: route.Path, reference: "//lfs.example/o/1", want: "/namespaces/prod/connectors/tool/-ext/lfs/o/1"},
		"path: extension's default port": {form: route.Path, reference: "https://lfs.example:443/o/1", want: "/namespaces/prod/connectors/tool/-ext/lfs/o/1"},
		"path: escapes stay":             {form: route.Path, reference: "/base/a%2Fb", want: "/namespaces/prod/connectors/tool/a%2Fb"},
		"registry: upload":               {form: route.Registry, reference: "https://tool.example:8443/base/v2/app/blobs/uploads/1?_state=x", want: "/v2/namespaces/prod/connectors/tool/app/blobs/uploads/1?_state=x"},
		"registry: absolute path":        {form: route.Registry, reference: "/base/v2/app/manifests/1", want: "/v2/namespaces/prod/connectors/tool/app/manifests/1"},
		"registry: not the registry's":   {form: route.Registry, reference: "/base/storage/1", want: "/namespaces/prod/connectors/tool/storage/1"},
		"registry: extension":            {form: route.Registry, reference: "https://lfs.example/v2/1", want: "/namespaces/prod/connectors/tool/-ext/lfs/v2/1"},
		"foreign host":                   {form: route.Path, reference: "https://bucket.example/x?sig=1", foreign: true},
		"other port":                     {form: route.Path, reference: "https://tool.example/base/a", foreign: true},
		"outside the base":               {form: route.Path, reference: "https://tool.example:8443/login", foreign: true},
		"beside the base":                {form: route.Path, reference: "https://tool.example:8443/baseball", foreign: true},
		"climbs out of the base":         {form: route.Path, reference: "/base/../login", foreign: true},
		"path that would be a host":      {form: route.Host, reference: "https://tool.example:8443/base//evil.example/x", foreign: true},
		"user in the URL":                {form: route.Host, reference: "https://u:p@tool.example:8443/base/a", foreign: true},
		"no URL":                         {form: route.Host, reference: "http://[", foreign: true},
		"other scheme altogether":        {form: route.Host, reference: "mailto:a@b", foreign: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMap(t, test.form, asked)
			m.PublicURL = test.public
			got, ok := m.URL(test.reference)
			assert.Equal(t, !test.foreign, ok)
			if test.foreign {
				test.want = test.reference
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestLink(t *testing.T) {
	m := newMap(t, route.Registry, "https://tool.example:8443/base/v2/_catalog")
	tests := map[string]struct{ give, want string }{
		"next page":  {`</base/v2/_catalog?last=a&n=1>; rel="next"`, `</v2/namespaces/prod/connectors/tool/_catalog?last=a&n=1>; rel="next"`},
		"several":    {`</base/a>; rel=x, <https://other/b>; rel=y`, `</namespaces/prod/connectors/tool/a>; rel=x, <https://other/b>; rel=y`},
		"not closed": {`<abc`, `<abc`},
		"nothing":    {``, ``},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, m.Link(test.give)) })
	}
}

func TestMountSource(t *testing.T) {
	const prefix = "namespaces/prod/connectors/tool/"
	tests := map[string]struct{ query, prefix, want string }{
		"own repository":      {"mount=sha256:ab&from=namespaces/prod/connectors/tool/team/app", prefix, "mount=sha256:ab&from=team%2Fapp"},
		"escaped":             {"from=namespaces%2Fprod%2Fconnectors%2Ftool%2Fapp&mount=sha256%3Aab", prefix, "from=app&mount=sha256%3Aab"},
		"other connector":     {"mount=sha256:ab&from=namespaces/prod/connectors/other/app&x=1", prefix, "x=1"},
		"other namespace":     {"mount=sha256:ab&from=namespaces/dev/connectors/tool/app", prefix, ""},
		"no prefix":           {"mount=sha256:ab&from=library/x", prefix, ""},
		"garbled source":      {"mount=sha256:ab&from=%zz", prefix, ""},
		"no mount":            {"digest=sha256:ab", prefix, "digest=sha256:ab"},
		"not a registry form": {"mount=sha256:ab&from=library/x", "", "mount=sha256:ab&from=library/x"},
		"without a source":    {"mount=sha256:ab", prefix, "mount=sha256:ab"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, MountSource(test.query, test.prefix)) })
	}
}

func TestCheckRequest(t *testing.T) {
	for _, name := range []string{"Impersonate-User", "impersonate-group", "Impersonate-Extra-X", "X-Original-URL", "X-Rewrite-URL", "Destination"} {
		h := http.Header{}
		h.Set(name, "x")
		assert.Error(t, CheckRequest(h), name)
	}
	assert.NoError(t, CheckRequest(http.Header{"Accept": {"*/*"}, "Authorization": {"x"}}))
}

func TestS11_CallersCredentialsAndIdentityNeverReachTheTool(t *testing.T) {
	h := http.Header{}
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "Cookie", "X-Remote-User", "X-Remote-Group", "X-Remote-Extra-Scopes", "X-Forwarded-User",
		"X-Forwarded-For", "X-Forwarded-Client-Cert", "Forwarded", "X-Auth-Request-Email", "X-WEBAUTH-USER", "Private-Token", "Job-Token", "X-Real-IP",
		"X_Remote_User", "X-Authorization", "Client-Cert", "X-Client-Cert-Subject", "X-Username", "X-Envoy-Original-Path", "X-Original-Host", "X-MS-Client-Principal-Name", "X-Goog-Iap-Jwt-Assertion", "X-Consumer-Username", "X-Proxy-User",
		"X-Remote_User", "Remote-User", "Ssl-Client-Verify", "Countersign-Verdict",
	} {
		h.Set(name, "secret")
	}
	h.Set("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0")
	h.Set("Accept", "application/json")
	h.Set("X-Requested-With", "x")
	ToTool(h)
	assert.Equal(t, http.Header{"Accept": {"application/json"}, "X-Requested-With": {"x"}}, h)
}

func TestWebsocketProtocolsStayWithoutTheToken(t *testing.T) {
	h := http.Header{"Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io", "v4.channel.k8s.io"}}
	ToTool(h)
	assert.Equal(t, http.Header{"Sec-Websocket-Protocol": {"v5.channel.k8s.io, v4.channel.k8s.io"}}, h)
}

func TestS11_ToolsCredentialsAndChallengesNeverReachTheCaller(t *testing.T) {
	h := http.Header{}
	for _, name := range []string{"Set-Cookie", "WWW-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Countersign-Verdict", "Alt-Svc", "X-Auth-Token", "X-Csrf-Token", "X-Accel-Redirect"} {
		h.Set(name, "secret")
	}
	h.Set("Docker-Content-Digest", "sha256:ab")
	FromTool(h)
	assert.Equal(t, http.Header{"Docker-Content-Digest": {"sha256:ab"}}, h)
}

func FuzzURL(f *testing.F) {
	f.Add("https://tool.example:8443/base//evil/x")
	f.Add("/base/v2/a?b#c")
	f.Add("//lfs.example/\\evil")
	f.Fuzz(func(t *testing.T, reference string) {
		for _, form := range []route.Form{route.Host, route.Path, route.Registry} {
			got, ok := newMap(t, form, "https://tool.example:8443/base/v2/app/").URL(reference)
			if !ok {
				assert.Equal(t, reference, got)
				continue
			}
			u := parse(t, got)
			assert.Empty(t, u.Host, "a translated reference stays on the proxy's host")
			assert.Empty(t, u.Scheme)
			assert.Equal(t, uint8('/'), got[0])
		}
	})
}
