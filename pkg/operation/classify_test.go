package operation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// request builds a Request from a line such as "GET /v2/app/tags/list?n=1".
func request(t testing.TB, line string) Request {
	t.Helper()
	method, target, found := strings.Cut(line, " ")
	require.True(t, found, line)
	path, query, _ := strings.Cut(target, "?")
	return Request{Method: method, Path: mustParse(t, path), RawQuery: query}
}

func upgraded(r Request) Request {
	r.Upgrade = true
	return r
}

func mustMatch(t testing.TB, methods, paths []string) HTTPMatch {
	t.Helper()
	m, err := NewHTTPMatch(methods, paths)
	require.NoError(t, err)
	return m
}

func describeAll(operations []Operation) []string {
	texts := make([]string, 0, len(operations))
	for _, o := range operations {
		texts = append(texts, o.Describe())
	}
	return texts
}

// verdicts groups request lines by what the table alone says of them.
type verdicts struct{ reads, writes, unknown []string }

func (v verdicts) check(t *testing.T, class string) {
	t.Helper()
	lower := NewClassifier(class, Override{Class: Read})
	for want, lines := range map[string][]string{"read": v.reads, "write": v.writes, "unknown": v.unknown} {
		for _, line := range lines {
			t.Run(want+" "+line, func(t *testing.T) {
				plain, err := NewClassifier(class).Classify(request(t, line))
				require.NoError(t, err)
				assert.Equal(t, want == "read", plain[0].IsRead(), "class without overrides")

				lowered, err := lower.Classify(request(t, line))
				require.NoError(t, err)
				assert.Equal(t, want != "write", lowered[0].IsRead(), "class if the owner lowers all that is unknown")
			})
		}
	}
}

func TestClassifyGit(t *testing.T) {
	verdicts{
		reads: []string{
			"GET /team/app.git/info/refs?service=git-upload-pack",
			"GET /team/app.git/info/refs?service=git%2Dupload-pack",
			"HEAD /team/app.git/info/refs?service=git-upload-pack",
			"GET /team/app.git/info/refs?service=git-upload-pack&x=%zz",
			"GET /team/app.git/info/refs",
			"POST /team/app.git/git-upload-pack",
			"POST /git-upload-pack",
			"GET /team/app.git/HEAD",
			"GET /team/app.git/objects/info/packs",
			"GET /team/app.git/objects/ab/cdef",
			"GET /team/app.git/objects/pack/pack-1.pack",
			"GET /team/app.git/info/lfs/objects/abc",
			"GET /team/app.git/info/lfs/locks",
		},
		writes: []string{
			"GET /team/app.git/info/refs?service=git-receive-pack",
			"HEAD /team/app.git/info/refs?service=git-receive-pack",
			"GET /team/app.git/info/refs?service=git%2Dreceive%2Dpack",
			"GET /team/app.git/info/refs?%73ervice=git-receive-pack",
			"GET /team/app.git/info/refs?x=1&service=git-receive-pack",
			"GET /team/app.git/info/refs?x=1;service=git-receive-pack",
			"GET /team/app.git/info/refs?service=git-upload-pack&service=git-receive-pack",
			"GET /team/app.git/info/refs?service=git-receive-pack&service=git-upload-pack",
			"GET /team/app.git/info/refs?service=git-upload-pack&%zz=1",
			"POST /team/app.git/git-receive-pack",
			"GET /team/app.git/git-receive-pack",
			"POST /team/app.git/git-receive-pack/",
			"POST /team/app.git/git%2Dreceive-pack",
			"GET /team%2Fapp.git/info/refs?service=git-upload-pack",
			"POST /team%2Fapp.git/git-upload-pack",
		},
		unknown: []string{
			"GET /team/app.git/info/refs?service=git-upload-archive",
			"GET /team/app.git/info/refs?service=",
			"POST /team/app.git/info/refs?service=git-upload-pack",
			"GET /team/app.git/info/refs/?service=git-upload-pack",
			"GET /team/app.git/git-upload-pack",
			"PUT /team/app.git/git-upload-pack",
			"post /team/app.git/git-upload-pack",
			"POST /team/app.git/git-upload-pack/",
			"POST /team/app.git/git-upload-archive",
			"POST /team/app.git/info/lfs/objects/batch",
			"POST /team/app.git/info/lfs/locks",
			"PUT /team/app.git/info/lfs/objects/abc",
			"GET /api/v4/projects",
			"MKCOL /team/app.git/objects/ab",
			"OPTIONS /team/app.git/info/refs",
		},
	}.check(t, Git)
}

var registryVerdicts = verdicts{
	reads: []string{
		"GET /v2/",
		"GET /v2",
		"HEAD /v2/",
		"GET /v2/_catalog?n=100",
		"GET /v2/app/tags/list",
		"GET /v2/team/app/tags/list?n=1000",
		"GET /v2/app/manifests/latest",
		"HEAD /v2/team/sub/app/manifests/sha256:ab",
		"GET /v2/team/app/blobs/sha256:ab",
		"HEAD /v2/team/app/blobs/sha256:ab",
		"GET /v2/team/app/referrers/sha256:ab",
		"GET /v2/team/uploads/manifests/1",
		"GET /v2/blobs/uploads/tags/list",
	},
	writes: []string{
		"POST /v2/team/app/blobs/uploads/",
		"POST /v2/team/app/blobs/uploads",
		"POST /v2/team/app/blobs/uploads/?digest=sha256:ab",
		"PATCH /v2/team/app/blobs/uploads/id",
		"PUT /v2/team/app/blobs/uploads/id?digest=sha256:ab",
		"GET /v2/team/app/blobs/uploads/id",
		"DELETE /v2/team/app/blobs/uploads/id",
		"PUT /v2/team/app/manifests/latest",
		"DELETE /v2/team/app/manifests/sha256:ab",
		"DELETE /v2/team/app/blobs/sha256:ab",
		"GET /v2/team%2Fapp/manifests/1",
	},
	unknown: []string{
		"OPTIONS /v2/",
		"POST /v2/",
		"PATCH /v2/app/manifests/latest",
		"POST /v2/app/manifests/latest",
		"PUT /v2/app/blobs/sha256:ab",
		"DELETE /v2/app/tags/list",
		"GET /v2/app/tags/other",
		"GET /v2/manifests/latest",
		"GET /v2/tags/list",
		"GET /v2/app/_oci/ext/discover",
		"get /v2/app/manifests/latest",
		"GET /v1/search",
		"GET /",
	},
}

func TestClassifyRegistry(t *testing.T) {
	registryVerdicts.check(t, OCI)

	verdicts{unknown: []string{"GET /api/v2.0/projects", "GET /service/token"}}.check(t, OCI)
}

func TestClassifyHarbor(t *testing.T) {
	registryVerdicts.check(t, Harbor)

	verdicts{
		reads: []string{
			"GET /service/token?service=harbor-registry&scope=repository:team/app:pull,push",
			"GET /api/v2.0/projects?page=1",
			"HEAD /api/v2.0/projects?project_name=team",
			"GET /api/v2.0/projects/team/repositories/a%252Fb/artifacts",
		},
		writes: []string{
			"POST /api/v2.0/projects",
			"DELETE /api/v2.0/projects/team/repositories/app/artifacts/1.0",
			"PATCH /api/v2.0/robots/1",
			"OPTIONS /api/v2.0/projects",
			"GET /api/v2.0/projects/team/repositories/a%2Fb/artifacts",
		},
		unknown: []string{
			"POST /service/token",
			"GET /service/token/other",
			"GET /c/log_out",
			"GET /api/chartrepo/health",
			"GET /api/v2.1/projects",
		},
	}.check(t, Harbor)
}

func TestClassifyKubernetes(t *testing.T) {
	verdicts{
		reads: []string{
			"GET /api", "GET /api/", "GET /api/v1", "GET /apis", "GET /apis/apps", "GET /apis/apps/v1", "HEAD /api",
			"GET /version", "GET /openapi/v2?timeout=32s", "GET /openapi/v3/apis/apps/v1",
			"GET /healthz", "GET /livez/ping", "GET /readyz?verbose",
			"GET /api/v1/pods",
			"GET /api/v1/namespaces",
			"GET /api/v1/namespaces/n",
			"GET /api/v1/namespaces/n/status",
			"GET /api/v1/namespaces/proxy/pods/proxy",
			"GET /api/v1/namespaces/secrets/pods/secrets",
			"GET /api/v1/namespaces/status/pods",
			"GET /api/v1/namespaces/n/pods?limit=500",
			"GET /api/v1/namespaces/n/pods?watch=true",
			"HEAD /api/v1/namespaces/n/pods/p",
			"GET /api/v1/namespaces/n/pods/p/status",
			"GET /api/v1/namespaces/n/pods/p/log?container=c&follow=true",
			"GET /api/v1/watch/namespaces/n/pods",
			"GET /api/v1/watch/pods",
			"GET /apis/apps/v1/namespaces/n/deployments/d",
			"GET /apis/apps/v1/namespaces/n/deployments/d/scale",
			"GET /apis/metrics.k8s.io/v1beta1/namespaces/n/pods",
			"GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
			"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			"POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
			"POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
		},
		writes: []string{
			"GET /api/v1/secrets",
			"GET /api/v1/secrets/",
			"GET /api/v1/Secrets",
			"GET /api/v1/namespaces/n/secrets",
			"GET /api/v1/namespaces/n/secrets/s",
			"HEAD /api/v1/namespaces/n/secrets/s",
			"GET /api/v1/namespaces/n/secrets/s/status",
			"GET /api/v1/namespaces/n/%73ecrets",
			"GET /api/v1/namespaces/n/%2573ecrets",
			"GET /api/v1/namespaces/n/secrets;x",
			"GET /api/v1/namespaces/n%2Fsecrets",
			"GET /api/v1/namespaces/n/secrets?watch=true",
			"GET /api/v1/watch/secrets",
			"GET /api/v1/watch/namespaces/n/secrets/s",
			"GET /apis/other.example/v1/namespaces/n/secrets",
			"GET /api/v1/namespaces/n/pods/p/exec?command=sh",
			"POST /api/v1/namespaces/n/pods/p/exec?command=sh",
			"GET /api/v1/namespaces/n/pods/p/attach",
			"GET /api/v1/namespaces/n/pods/p/portforward",
			"GET /api/v1/namespaces/n/pods/p/proxy",
			"GET /api/v1/namespaces/n/pods/p/proxy/status",
			"GET /api/v1/namespaces/n/services/https:s:443/proxy/admin",
			"GET /api/v1/nodes/node/proxy/run/n/p/c",
			"GET /api/v1/proxy/namespaces/n/pods/p",
			"GET /api/v1/proxy/nodes/node/logs",
			"GET /api/v1/proxy",
			"GET /api/v1/watch",
			"GET /api/v1/namespaces/n/proxy",
			"GET /api/v1/watch/namespaces/n/pods/p/log",
			"GET /api/v1/namespaces/n/pods/p/log/more",
			"GET /api/v1/namespaces/n/finalize",
			"GET /api/v1/namespaces/n/pods/p/ephemeralcontainers",
			"GET /apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachineinstances/v/console",
			"OPTIONS /api/v1/namespaces/n/pods",
			"get /api/v1/namespaces/n/pods",
			"POST /api",
			"POST /api/v1/namespaces/n/pods",
			"POST /api/v1/namespaces/n/pods?dryRun=All",
			"PUT /api/v1/namespaces/n/pods/p/status",
			"PATCH /apis/apps/v1/namespaces/n/deployments/d/scale",
			"DELETE /api/v1/namespaces/n/pods",
			"POST /api/v1/namespaces/n/serviceaccounts/s/token",
			"POST /api/v1/namespaces/n/pods/p/eviction",
			"POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
			"POST /apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews",
			"POST /apis/authentication.k8s.io/v1/tokenreviews",
			"POST /apis/other.example/v1/selfsubjectaccessreviews",
			"POST /apis/authorization.k8s.io/v1/selfsubjectreviews",
			"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x",
		},
		unknown: []string{
			"GET /", "GET /metrics", "GET /logs/syslog", "GET /.well-known/openid-configuration",
			"GET /version/x", "POST /version", "GET /oapi/v1/namespaces/n/pods", "GET /apiserver",
		},
	}.check(t, Kubernetes)
}

func TestClassifyAny(t *testing.T) {
	v := verdicts{
		reads:   []string{"GET /", "HEAD /x", "OPTIONS /x/", "GET /rest;v=1/a"},
		writes:  []string{"GET /a%2Fb", "OPTIONS /a%2fb", "POST /a%2Fb"},
		unknown: []string{"POST /", "PUT /x", "PATCH /x", "DELETE /x", "get /x", "TRACE /x", "CONNECT /x", "PROPFIND /x"},
	}
	v.check(t, Any)
	v.check(t, "nexus")
	v.check(t, "")

	t.Run("zero Classifier", func(t *testing.T) {
		operations, err := Classifier{}.Classify(request(t, "GET /x"))
		require.NoError(t, err)
		assert.Equal(t, []string{"Read (GET /x)"}, describeAll(operations))
	})
	t.Run("unknown path", func(t *testing.T) {
		for _, class := range []string{Git, OCI, Harbor, Kubernetes, Any} {
			operations, err := NewClassifier(class, Override{Class: Read}).Classify(Request{Method: "GET"})
			require.NoError(t, err)
			assert.Equal(t, []string{"Write (GET any path)"}, describeAll(operations))
		}
	})
}

func TestClassifyUpgrade(t *testing.T) {
	tests := map[string]struct {
		class, line string
		want        Class
	}{
		"any":                         {Any, "GET /socket", Write},
		"registry":                    {OCI, "GET /v2/app/manifests/1", Write},
		"harbor":                      {Harbor, "GET /api/v2.0/projects", Write},
		"git":                         {Git, "GET /app.git/info/refs?service=git-upload-pack", Write},
		"watch":                       {Kubernetes, "GET /api/v1/namespaces/n/pods?watch=true", Read},
		"watch by number":             {Kubernetes, "GET /api/v1/pods?watch=1", Read},
		"watch in the path":           {Kubernetes, "GET /api/v1/watch/namespaces/n/pods", Read},
		"log following":               {Kubernetes, "GET /api/v1/namespaces/n/pods/p/log?follow=true", Read},
		"log":                         {Kubernetes, "GET /api/v1/namespaces/n/pods/p/log", Write},
		"log, follow off":             {Kubernetes, "GET /api/v1/namespaces/n/pods/p/log?follow=false", Write},
		"log, follow given twice":     {Kubernetes, "GET /api/v1/namespaces/n/pods/p/log?follow=true&follow=false", Write},
		"log with watch":              {Kubernetes, "GET /api/v1/namespaces/n/pods/p/log?watch=true", Write},
		"list":                        {Kubernetes, "GET /api/v1/namespaces/n/pods", Write},
		"watch off":                   {Kubernetes, "GET /api/v1/namespaces/n/pods?watch=0", Write},
		"watch with an odd word":      {Kubernetes, "GET /api/v1/namespaces/n/pods?watch=yes", Write},
		"one object with watch":       {Kubernetes, "GET /api/v1/namespaces/n/pods/p?watch=true", Write},
		"status with watch":           {Kubernetes, "GET /api/v1/namespaces/n/pods/p/status?watch=true", Write},
		"exec with watch":             {Kubernetes, "GET /api/v1/namespaces/n/pods/p/exec?watch=true", Write},
		"watch of secrets":            {Kubernetes, "GET /api/v1/namespaces/n/secrets?watch=true", Write},
		"discovery":                   {Kubernetes, "GET /api?watch=true", Write},
		"self review":                 {Kubernetes, "POST /apis/authentication.k8s.io/v1/selfsubjectreviews?watch=true", Write},
		"unknown, lowered, is raised": {Kubernetes, "GET /metrics", Write},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := NewClassifier(tc.class, Override{Class: Read})
			operations, err := c.Classify(upgraded(request(t, tc.line)))
			require.NoError(t, err)
			assert.Equal(t, tc.want, operations[0].Class)
		})
	}
}

func TestClassifyRefusesMethodOverride(t *testing.T) {
	for _, class := range []string{Git, OCI, Harbor, Kubernetes, Any} {
		r := request(t, "GET /x")
		r.MethodOverride = true
		operations, err := NewClassifier(class).Classify(r)
		require.ErrorIs(t, err, ErrBadRequest)
		assert.ErrorContains(t, err, "method-override header; send the method that is meant")
		assert.Nil(t, operations)
	}
}

func TestClassifySource(t *testing.T) {
	const target = "POST /v2/team/app/blobs/uploads/"
	copyArtifact := "POST /api/v2.0/projects/team/repositories/app/artifacts"
	tests := map[string]struct {
		class, line string
		formBody    bool
		want        []string // the operations behind the first
	}{
		"mount":                       {class: OCI, line: target + "?from=team%2Fbase&mount=sha256%3Aab&origin=r.example", want: []string{"Read (GET /v2/team/base/blobs/sha256:ab)"}},
		"mount at harbor":             {class: Harbor, line: target + "?mount=sha256:ab&from=base", want: []string{"Read (GET /v2/base/blobs/sha256:ab)"}},
		"mount with escaped keys":     {class: OCI, line: target + "?m%6funt=sha256:ab&%66rom=base", want: []string{"Read (GET /v2/base/blobs/sha256:ab)"}},
		"mount with the same twice":   {class: OCI, line: target + "?mount=sha256:ab&from=base&from=base", want: []string{"Read (GET /v2/base/blobs/sha256:ab)"}},
		"mount from everywhere":       {class: OCI, line: target + "?mount=sha256:ab", want: []string{"Read (GET any path)"}},
		"mount in a form body":        {class: OCI, line: target, formBody: true, want: []string{"Read (GET any path)"}},
		"form body before the query":  {class: OCI, line: target + "?mount=sha256:ab&from=base", formBody: true, want: []string{"Read (GET any path)"}},
		"digest that hides a slash":   {class: OCI, line: target + "?mount=a%2Fb&from=base", want: []string{"Write (GET /v2/base/blobs/a%2Fb)"}},
		"upload":                      {class: OCI, line: target},
		"upload in one request":       {class: OCI, line: target + "?digest=sha256:ab"},
		"from alone":                  {class: OCI, line: target + "?from=base"},
		"mount of nothing":            {class: OCI, line: target + "?mount=&from=base"},
		"mount by another method":     {class: OCI, line: "PUT /v2/team/app/blobs/uploads/id?mount=sha256:ab&from=base"},
		"mount at another class":      {class: Any, line: target + "?mount=sha256:ab&from=base"},
		"form body elsewhere":         {class: OCI, line: "POST /v2/app/manifests/1", formBody: true},
		"copy of a tag":               {class: Harbor, line: copyArtifact + "?from=lib/sub/base:1.0", want: []string{"Read (GET /v2/lib/sub/base/manifests/1.0)"}},
		"copy of a digest":            {class: Harbor, line: copyArtifact + "?from=lib%2Fbase%40sha256:ab", want: []string{"Read (GET /v2/lib/base/manifests/sha256:ab)"}},
		"no copy":                     {class: Harbor, line: copyArtifact},
		"no copy by another method":   {class: Harbor, line: "GET /api/v2.0/projects/team/repositories/app/artifacts?from=lib/base:1"},
		"copying is Harbor's own API": {class: OCI, line: copyArtifact + "?from=lib/base:1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := request(t, tc.line)
			r.FormBody = tc.formBody
			operations, err := NewClassifier(tc.class).Classify(r)
			require.NoError(t, err)
			require.Equal(t, r.Path, operations[0].Path)
			if tc.want == nil {
				tc.want = []string{}
			}
			assert.Equal(t, tc.want, describeAll(operations[1:]))
		})
	}

	refused := map[string]struct{ class, line string }{
		"two sources":               {OCI, target + "?mount=sha256:ab&from=base&from=secret"},
		"two digests":               {OCI, target + "?mount=sha256:ab&mount=sha256:cd&from=base"},
		"second behind a semicolon": {OCI, target + "?mount=sha256:ab&from=base;from=secret"},
		"invalid escape":            {OCI, target + "?mount=sha256:ab&from=%zz"},
		"invalid key":               {OCI, target + "?mount=sha256:ab&%zz=base"},
		"source with dots":          {OCI, target + "?mount=sha256:ab&from=../secret"},
		"source with empty names":   {OCI, target + "?mount=sha256:ab&from=a//b"},
		"source with a control":     {OCI, target + "?mount=sha256:ab&from=a%00b"},
		"copy from two":             {Harbor, copyArtifact + "?from=lib/a:1&from=lib/b:1"},
		"copy without reference":    {Harbor, copyArtifact + "?from=lib/base"},
		"copy of a dot segment":     {Harbor, copyArtifact + "?from=lib/..:1"},
	}
	for name, tc := range refused {
		t.Run("refuses "+name, func(t *testing.T) {
			operations, err := NewClassifier(tc.class).Classify(request(t, tc.line))
			require.ErrorIs(t, err, ErrBadRequest)
			assert.ErrorContains(t, err, "; send ")
			assert.Nil(t, operations)
		})
	}
}

func TestClassifyOverrides(t *testing.T) {
	match := func(methods, paths []string) HTTPMatch { return mustMatch(t, methods, paths) }
	searchIsRead := Override{Class: Read, HTTP: match([]string{"POST"}, []string{"/api/search/**"})}
	adminIsWrite := Override{Class: Write, HTTP: match(nil, []string{"/api/admin/**"})}
	tests := map[string]struct {
		class     string
		overrides []Override
		line      string
		upgrade   bool
		want      Class
	}{
		"lowers what is unknown":                {class: Any, overrides: []Override{searchIsRead}, line: "POST /api/search/users", want: Read},
		"lowers only its paths":                 {class: Any, overrides: []Override{searchIsRead}, line: "POST /api/users", want: Write},
		"lowers only its methods":               {class: Any, overrides: []Override{searchIsRead}, line: "PUT /api/search/users", want: Write},
		"lowers nothing that is a Write":        {class: Kubernetes, overrides: []Override{{Class: Read}}, line: "GET /api/v1/namespaces/n/pods/p/exec", want: Write},
		"lowers no push":                        {class: Git, overrides: []Override{{Class: Read}}, line: "POST /app.git/git-receive-pack", want: Write},
		"lowers no encoded slash":               {class: Any, overrides: []Override{{Class: Read}}, line: "POST /api/search/a%2Fb", want: Write},
		"lowers no upgrade":                     {class: Any, overrides: []Override{{Class: Read}}, line: "GET /api/search/a", upgrade: true, want: Write},
		"lowers what surely lies below":         {class: Any, overrides: []Override{searchIsRead}, line: "POST /api/search/a%252Fb", want: Read},
		"lowers nothing that may lie elsewhere": {class: Any, overrides: []Override{searchIsRead}, line: "POST /api/search;x/a", want: Write},
		"raises a Read":                         {class: Any, overrides: []Override{adminIsWrite}, line: "GET /api/admin/reindex", want: Write},
		"raises what may lie there":             {class: Any, overrides: []Override{adminIsWrite}, line: "GET /api/admin;x/reindex", want: Write},
		"raises only there":                     {class: Any, overrides: []Override{adminIsWrite}, line: "GET /api/users", want: Read},
		"raises everything":                     {class: OCI, overrides: []Override{{Class: Write}}, line: "GET /v2/", want: Write},
		"an unknown class raises":               {class: Any, overrides: []Override{{Class: "Execute"}}, line: "GET /x", want: Write},
		"Write wins, whatever the order":        {class: Any, overrides: []Override{{Class: Write}, {Class: Read}}, line: "POST /x", want: Write},
		"Write wins, the other order":           {class: Any, overrides: []Override{{Class: Read}, {Class: Write}}, line: "POST /x", want: Write},
		"an invalid Read lowers nothing":        {class: Any, overrides: []Override{{Class: Read, HTTP: HTTPMatch{Invalid: true}}}, line: "POST /x", want: Write},
		"an invalid Write raises":               {class: Any, overrides: []Override{{Class: Write, HTTP: HTTPMatch{Invalid: true}}}, line: "GET /x", want: Write},
		"a Read with an unparsed path":          {class: Any, overrides: []Override{{Class: Read, HTTP: HTTPMatch{Paths: []Pattern{{}}}}}, line: "POST /x", want: Write},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := request(t, tc.line)
			r.Upgrade = tc.upgrade
			operations, err := NewClassifier(tc.class, tc.overrides...).Classify(r)
			require.NoError(t, err)
			assert.Equal(t, tc.want, operations[0].Class)
		})
	}

	t.Run("a mount's source is raised too", func(t *testing.T) {
		secret := Override{Class: Write, HTTP: match(nil, []string{"/v2/secret/**"})}
		for from, want := range map[string]string{
			"secret": "Write (GET /v2/secret/blobs/sha256:ab)",
			"open":   "Read (GET /v2/open/blobs/sha256:ab)",
			"":       "Write (GET any path)",
		} {
			operations, err := NewClassifier(OCI, secret).Classify(request(t, "POST /v2/app/blobs/uploads/?mount=sha256:ab&from="+from))
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff([]string{want}, describeAll(operations[1:])))
		}
	})
}
