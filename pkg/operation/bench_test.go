package operation

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hotPath is what the gate asks of every request for every rule and every live grant.
func hotPath(tb testing.TB) map[string]func() bool {
	when := When{Operations: []Class{Write}, HTTP: httpMatch(tb, []string{"POST", "put"}, []string{"/v1/**", "/v2/*/app/**"})}
	use := Use{Operations: []Class{Read, Write}, HTTP: httpMatch(tb, []string{"POST", "PUT"}, []string{"/v2/team/**"})}
	push := Operation{Class: Write, Method: "PUT", Path: mustParse(tb, "/v2/team/app/manifests/1.0")}
	hidden := Operation{Class: Write, Method: "PUT", Path: mustParse(tb, "/v2/team/a%2Fb")}
	pattern, other := mustPattern(tb, "/v2/*/app/**"), mustPattern(tb, "/v2/team/**")
	return map[string]func() bool{
		"Pattern.Match":                 func() bool { return pattern.Match(push.Path) },
		"Pattern.Match, encoded slash":  func() bool { return pattern.Match(hidden.Path) },
		"Pattern.Includes":              func() bool { return pattern.Includes(push.Path) },
		"Pattern.Overlaps":              func() bool { return pattern.Overlaps(other) },
		"Pattern.Covers":                func() bool { return !pattern.Covers(other) },
		"When.Matches":                  func() bool { return when.Matches(push) },
		"When.Matches, absent":          func() bool { return When{}.Matches(push) },
		"Use.Covers":                    func() bool { return use.Covers(push) },
		"Use.Covers, encoded slash":     func() bool { return use.Covers(hidden) },
		"Overlaps":                      func() bool { return Overlaps(when, use) },
		"lookup in a query of the path": func() bool { return lookup("a=1&service=git-upload-pack", "service").found },
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	for name, ask := range hotPath(t) {
		t.Run(name, func(t *testing.T) {
			require.True(t, ask())
			assert.Zero(t, testing.AllocsPerRun(100, func() { ask() }))
		})
	}
}

func BenchmarkHotPath(b *testing.B) {
	for name, ask := range hotPath(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, raw := range []string{"/v2/team/app/manifests/1.0", "/api/v2.0/projects/p/repositories/a%252Fb/artifacts"} {
		b.Run(raw, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Parse(raw)
			}
		})
	}
}

func BenchmarkClassify(b *testing.B) {
	header := http.Header{"Accept": {"*/*"}, "User-Agent": {"x"}, "Accept-Encoding": {"gzip"}, "Content-Type": {"application/json"}, "Authorization": {"x"}}
	for class, raw := range map[string]string{OCI: "/v2/team/app/manifests/1.0", Kubernetes: "/api/v1/namespaces/n/pods/p/log", Git: "/team/app.git/info/refs"} {
		b.Run(class, func(b *testing.B) {
			c, path := NewClassifier(class), mustParse(b, raw)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.Classify(NewRequest("GET", path, "service=git-upload-pack", header))
			}
		})
	}
}
