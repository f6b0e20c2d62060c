package route

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/operation"
)

var router = NewRouter([]string{"connectors.local", ".svc.cluster.local."})

func TestRoute(t *testing.T) {
	type want struct {
		form                     Form
		namespace, name, ext     string
		path, query              string
		prefix, repositoryPrefix string
	}
	tests := map[string]struct {
		host, target string
		want         want
	}{
		"path form": {"proxy", "/namespaces/prod/connectors/gitea/a/b?x=1&y",
			want{Path, "prod", "gitea", "", "/a/b", "x=1&y", "/namespaces/prod/connectors/gitea", ""}},
		"path form with nothing behind": {"proxy", "/namespaces/prod/connectors/gitea",
			want{Path, "prod", "gitea", "", "/", "", "/namespaces/prod/connectors/gitea", ""}},
		"escapes stay as they are": {"proxy", "/namespaces/prod/connectors/gitea/a%2Fb/%41",
			want{Path, "prod", "gitea", "", "/a%2Fb/%41", "", "/namespaces/prod/connectors/gitea", ""}},
		"extension": {"proxy", "/namespaces/prod/connectors/gitea/-ext/lfs/objects/1",
			want{Path, "prod", "gitea", "lfs", "/objects/1", "", "/namespaces/prod/connectors/gitea/-ext/lfs", ""}},
		"extension with nothing behind": {"proxy", "/namespaces/prod/connectors/gitea/-ext/lfs",
			want{Path, "prod", "gitea", "lfs", "/", "", "/namespaces/prod/connectors/gitea/-ext/lfs", ""}},
		"no extension's name": {"proxy", "/namespaces/prod/connectors/gitea/-ext/L_FS/x",
			want{Path, "prod", "gitea", "", "/-ext/L_FS/x", "", "/namespaces/prod/connectors/gitea", ""}},
		"registry form": {"proxy:8443", "/v2/namespaces/prod/connectors/harbor/team/app/manifests/1",
			want{Registry, "prod", "harbor", "", "/v2/team/app/manifests/1", "", "/namespaces/prod/connectors/harbor", "namespaces/prod/connectors/harbor/"}},
		"registry form of the catalog": {"proxy", "/v2/namespaces/prod/connectors/harbor/_catalog?n=5",
			want{Registry, "prod", "harbor", "", "/v2/_catalog", "n=5", "/namespaces/prod/connectors/harbor", "namespaces/prod/connectors/harbor/"}},
		"registry form has no extensions": {"proxy", "/v2/namespaces/prod/connectors/harbor/-ext/x/manifests/1",
			want{Registry, "prod", "harbor", "", "/v2/-ext/x/manifests/1", "", "/namespaces/prod/connectors/harbor", "namespaces/prod/connectors/harbor/"}},
		"host form": {"c-gitea.prod.connectors.local:8443", "/-/explain",
			want{Host, "prod", "gitea", "", "/-/explain", "", "", ""}},
		"host form in capitals with a final dot": {"C-Gitea.Prod.Connectors.Local.", "/a",
			want{Host, "prod", "gitea", "", "/a", "", "", ""}},
		"host form of a second suffix": {"c-gitea.prod.svc.cluster.local", "/namespaces/x/connectors/y/z",
			want{Host, "prod", "gitea", "", "/namespaces/x/connectors/y/z", "", "", ""}},
		"registry ping":            {"proxy", "/v2/", want{form: Own, path: "/v2/"}},
		"catalog of the root":      {"proxy", "/v2/_catalog", want{form: Own, path: "/v2/_catalog"}},
		"a path that begins alike": {"proxy", "/v22/namespaces/prod/connectors/harbor/app", want{form: Own, path: "/v22/namespaces/prod/connectors/harbor/app"}},
		"own endpoint":             {"proxy", "/-/inbox", want{form: Own, path: "/-/inbox"}},
		"three labels":             {"c-a.b.c.connectors.local", "/a", want{form: Own, path: "/a"}},
		"other domain":             {"c-gitea.prod.example.org", "/a", want{form: Own, path: "/a"}},
		"suffix alone":             {"connectors.local", "/a", want{form: Own, path: "/a"}},
		"no mark":                  {"gitea.prod.connectors.local", "/a", want{form: Own, path: "/a"}},
		"escaped prefix":           {"proxy", "/%6eamespaces/prod/connectors/gitea/a", want{form: Own, path: "/%6eamespaces/prod/connectors/gitea/a"}},
		"namespace no label":       {"proxy", "/namespaces/Prod/connectors/gitea/a", want{form: Own, path: "/namespaces/Prod/connectors/gitea/a"}},
		"name too long": {"proxy", "/namespaces/prod/connectors/" + strings.Repeat("a", 62) + "/a",
			want{form: Own, path: "/namespaces/prod/connectors/" + strings.Repeat("a", 62) + "/a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := router.Route(test.host, test.target)
			require.NoError(t, err)
			assert.Equal(t, test.want, want{got.Form, got.Namespace, got.Name, got.Extension, got.Path.String(), got.RawQuery,
				got.Prefix(), got.RepositoryPrefix()})
		})
	}
}

func TestRouteRefuses(t *testing.T) {
	tests := map[string]string{
		"absolute form":                   "https://tool/a",
		"asterisk form":                   "*",
		"dot segments":                    "/namespaces/prod/connectors/gitea/../harbor/a",
		"dot segments before":             "/x/../namespaces/prod/connectors/gitea/a",
		"encoded dot segments":            "/namespaces/prod/connectors/gitea/%2e%2e/harbor",
		"empty segment":                   "/namespaces/prod/connectors/gitea//a",
		"backslash":                       `/namespaces/prod/connectors/gitea/a\b`,
		"fragment in the path":            "/namespaces/prod/connectors/gitea/a#b",
		"fragment in the query":           "/namespaces/prod/connectors/gitea/a?service=git-receive-pack#&service=git-upload-pack",
		"blank in the query":              "/namespaces/prod/connectors/gitea/a?x= HTTP/1.1",
		"byte beyond ASCII in the query":  "/namespaces/prod/connectors/gitea/a?x=\u00e4",
		"encoded dot segments after /v2/": "/v2/namespaces/prod/connectors/harbor/%2e%2e/x/manifests/1",
	}
	for name, target := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := router.Route("proxy", target)
			assert.ErrorIs(t, err, operation.ErrBadRequest)
		})
	}
}

func FuzzRoute(f *testing.F) {
	f.Add("c-gitea.prod.connectors.local", "/a/b?x=1")
	f.Add("proxy", "/namespaces/prod/connectors/gitea/-ext/lfs/a")
	f.Add("proxy", "/v2/namespaces/prod/connectors/harbor/app/blobs/uploads/?mount=x&from=y")
	f.Fuzz(func(t *testing.T, host, target string) {
		got, err := router.Route(host, target)
		if err != nil {
			assert.ErrorIs(t, err, operation.ErrBadRequest)
			return
		}
		raw := got.Path.String()
		switch got.Form {
		case Own, Host:
		case Path:
			raw = strings.TrimSuffix(got.Prefix()+raw, "/")
		case Registry:
			raw = strings.TrimSuffix("/v2"+got.Prefix()+strings.TrimPrefix(raw, "/v2"), "/")
		}
		sent, query, _ := strings.Cut(target, "?")
		if got.Form == Path || got.Form == Registry {
			sent = strings.TrimSuffix(sent, "/")
		}
		assert.Equal(t, sent, raw, "nothing is lost or added between the prefix and the tool's path")
		assert.Equal(t, query, got.RawQuery)
		if got.Form != Own {
			assert.True(t, isLabel(got.Namespace, maxNamespace) && isLabel(got.Name, maxName))
		}
	})
}

func BenchmarkRoute(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := router.Route("proxy.example.org:8443", "/namespaces/prod/connectors/gitea/team/app/info/refs?service=git-upload-pack"); err != nil {
			b.Fatal(err)
		}
	}
}
