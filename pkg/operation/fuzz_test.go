package operation

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
)

// FuzzParse holds what the rest of the product relies on in a path that was accepted.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"/", "/v2/", "/v2/%61pp/manifests/1", "/a%2Fb/c", "/a%252Fb", "/a;b", "/..;/x", "/%2e%2e/x", "/caf%C3%A9", "/%c0%af", "//", "/a//b", "/a%00", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := Parse(raw)
		if err != nil {
			if p.Known() {
				t.Fatalf("%q: refused and known", raw)
			}
			return
		}
		if p.String() != raw {
			t.Fatalf("%q became %q", raw, p.String())
		}
		checkForwarded(t, raw)
		for _, s := range p.Segments() {
			if checkText(s) != nil {
				t.Fatalf("%q: segment %q", raw, s)
			}
		}
		if cleaned := path.Clean(raw); cleaned != strings.TrimSuffix(raw, "/") && raw != "/" {
			t.Fatalf("%q is not clean: %q", raw, cleaned)
		}
		checkAfter(t, p)
		checkPatterns(t, p)
		classifyAll(t, p)
	})
}

// checkForwarded: Go's client sends exactly the bytes that were judged.
func checkForwarded(t *testing.T, raw string) {
	u, err := url.ParseRequestURI(raw)
	if err != nil {
		t.Fatalf("%q is accepted here and refused by net/url: %v", raw, err)
	}
	if u.EscapedPath() != raw {
		t.Fatalf("%q is forwarded as %q", raw, u.EscapedPath())
	}
}

func checkAfter(t *testing.T, p Path) {
	for n := range len(p.Segments()) + 1 {
		rest, ok := p.After(n)
		if !ok || !strings.HasSuffix(p.String(), rest.String()) && rest.String() != "/" {
			t.Fatalf("%q after %d is %q", p, n, rest)
		}
		if !slices.Equal(rest.Segments(), p.Segments()[n:]) {
			t.Fatalf("%q after %d has %q", p, n, rest.Segments())
		}
	}
}

func checkPatterns(t *testing.T, p Path) {
	if everything := mustPattern(t, "/**"); !everything.Match(p) || !everything.Includes(p) {
		t.Fatalf("%q escapes /**", p)
	}
	if p.EncodedSlash() && !mustPattern(t, "/no/such/path").Match(p) {
		t.Fatalf("%q has an encoded slash and does not match everything", p)
	}
}

func classifyAll(t *testing.T, p Path) {
	for _, class := range []string{Git, OCI, Harbor, Kubernetes, Any} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			operations, err := NewClassifier(class).Classify(Request{Method: method, Path: p})
			if err != nil || len(operations) == 0 {
				t.Fatalf("%s %s %q: %v, %v", class, method, p, operations, err)
			}
			if operations[0].IsRead() && (p.EncodedSlash() || method == http.MethodDelete) {
				t.Fatalf("%s: %s", class, operations[0].Describe())
			}
		}
	}
}

// FuzzPattern holds the relations between matching, including, overlapping and covering.
func FuzzPattern(f *testing.F) {
	f.Add("/v2/**", "/v2/*/tags", "/v2/app/tags")
	f.Add("/*/app", "/v2/*", "/v2/app")
	f.Add("/**", "/", "/a%2Fb")
	f.Add("/a/*/**", "/a/**", "/a/b%252Fc/d")
	f.Add("/a/b", "/a/b/", "/a/%62")
	f.Add("/a/*", "/a/b/c", "/a/b%252Fc")
	f.Fuzz(func(t *testing.T, textA, textB, raw string) {
		a, errA := ParsePattern(textA)
		b, errB := ParsePattern(textB)
		if a.Valid() == (errA != nil) || b.Valid() == (errB != nil) {
			t.Fatal("a pattern is valid if and only if it parsed")
		}
		checkRelations(t, a, b)
		checkRelations(t, b, a)
		p, _ := Parse(raw)
		checkMatches(t, a, b, p)
		checkMatches(t, b, a, p)
	})
}

func checkRelations(t *testing.T, a, b Pattern) {
	if a.Covers(b) && !a.Overlaps(b) {
		t.Fatalf("%q covers %q and does not overlap", a, b)
	}
	if a.Overlaps(b) != b.Overlaps(a) {
		t.Fatalf("%q and %q overlap one way only", a, b)
	}
	if a.Valid() && (!a.Covers(a) || !a.Overlaps(a)) {
		t.Fatalf("%q does not cover itself", a)
	}
	if a.Valid() && b.Valid() && a.Equal(b) != (a.Covers(b) && b.Covers(a)) {
		t.Fatalf("%q and %q: equal is not covering both ways", a, b)
	}
}

func checkMatches(t *testing.T, a, b Pattern, p Path) {
	if a.Includes(p) && !a.Match(p) {
		t.Fatalf("%q includes %q and does not match", a, p)
	}
	if p.Exact() && a.Valid() && a.Includes(p) != a.Match(p) {
		t.Fatalf("%q is unsure of %q", a, p)
	}
	if a.Covers(b) && b.Match(p) && !a.Match(p) {
		t.Fatalf("%q covers %q but does not match %q", a, b, p)
	}
	if a.Covers(b) && b.Includes(p) && !a.Includes(p) {
		t.Fatalf("%q covers %q but does not include %q", a, b, p)
	}
	if p.Exact() && a.Match(p) && b.Match(p) && !a.Overlaps(b) {
		t.Fatalf("%q and %q both match %q and do not overlap", a, b, p)
	}
	checkReading(t, a, p)
}

// checkReading compares with what a tool sees that decodes everything: a path that a pattern includes stays inside it,
// and a path that is inside it for such a tool was matched.
func checkReading(t *testing.T, a Pattern, p Path) {
	if p.Exact() || !p.Known() || strings.Contains(p.String(), ";") || strings.Contains(strings.ToLower(p.String()), "%3b") {
		return
	}
	text := strings.TrimSuffix(p.String(), "/")
	for hasEscape(text) {
		decoded, err := url.PathUnescape(text)
		if err != nil {
			return // "100%25" next to "%2541" decodes no further as a whole
		}
		text = decoded
	}
	seen := Path{raw: text, decoded: strings.Split(text[1:], "/")}
	seen.segments = make([]segment, len(seen.decoded))
	seen.unsure = len(seen.segments)
	if a.Includes(p) && !a.Includes(seen) {
		t.Fatalf("%q includes %q but not its reading %q", a, p, text)
	}
	if a.Includes(seen) && !a.Match(p) {
		t.Fatalf("%q does not match %q, which may be read as %q", a, p, text)
	}
}

// FuzzClassify: no query and no method makes a Read of what the path says is a Write, and nothing panics.
func FuzzClassify(f *testing.F) {
	f.Add("GET", "/app.git/info/refs", "service=git-upload-pack", false)
	f.Add("POST", "/v2/app/blobs/uploads/", "mount=sha256:ab&from=base", false)
	f.Add("GET", "/api/v1/namespaces/n/pods/p/log", "follow=true", true)
	f.Add("POST", "/api/v2.0/projects/p/repositories/r/artifacts", "from=a/b:1", false)
	f.Fuzz(func(t *testing.T, method, raw, query string, upgrade bool) {
		p, err := Parse(raw)
		if err != nil {
			return
		}
		for _, class := range []string{Git, OCI, Harbor, Kubernetes, Any} {
			operations, err := NewClassifier(class).Classify(Request{Method: method, Path: p, RawQuery: query, Upgrade: upgrade})
			if err != nil {
				continue
			}
			for _, o := range operations {
				checkDescription(t, o.Describe())
			}
			if first := operations[0]; first.IsRead() && (isGuarded(class, p) || !isKnownReadMethod(method)) {
				t.Fatalf("%s: %s", class, first.Describe())
			}
		}
	})
}

func isKnownReadMethod(method string) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost}, method)
}

func isGuarded(class string, p Path) bool {
	switch class {
	case Git:
		return p.tail(1) == receivePack
	case Kubernetes:
		return slices.ContainsFunc([]string{"/exec", "/attach", "/portforward"}, func(end string) bool {
			return strings.HasPrefix(p.String(), "/api/v1/namespaces/n/pods/p"+end)
		})
	}
	return false
}

func checkDescription(t *testing.T, text string) {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			t.Fatalf("description draws: %q", text)
		}
	}
}
