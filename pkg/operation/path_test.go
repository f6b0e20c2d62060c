package operation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mustParse(t testing.TB, raw string) Path {
	t.Helper()
	p, err := Parse(raw)
	require.NoError(t, err, raw)
	return p
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		raw          string
		want         []string
		wantRaw      []string // want, if nil
		wantTrailing bool
		wantSlash    bool
		wantInexact  bool
	}{
		"root":                           {raw: "/", want: nil},
		"registry check":                 {raw: "/v2/", want: []string{"v2"}, wantTrailing: true},
		"manifest":                       {raw: "/v2/team/app/manifests/1.0", want: []string{"v2", "team", "app", "manifests", "1.0"}},
		"digest":                         {raw: "/v2/app/blobs/sha256:ab", want: []string{"v2", "app", "blobs", "sha256:ab"}},
		"service with port":              {raw: "/api/v1/namespaces/n/services/https:s:443", want: []string{"api", "v1", "namespaces", "n", "services", "https:s:443"}},
		"escaped letter":                 {raw: "/v2/%61pp", want: []string{"v2", "app"}, wantRaw: []string{"v2", "%61pp"}},
		"escaped UTF-8":                  {raw: "/caf%C3%A9", want: []string{"café"}, wantRaw: []string{"caf%C3%A9"}},
		"escaped percent sign":           {raw: "/100%25", want: []string{"100%"}, wantRaw: []string{"100%25"}},
		"dots in names":                  {raw: "/a..b/.c/...", want: []string{"a..b", ".c", "..."}},
		"plus is a plus":                 {raw: "/a+b", want: []string{"a+b"}},
		"brackets":                       {raw: "/[::1]", want: []string{"[::1]"}},
		"encoded slash":                  {raw: "/api/v4/projects/a%2Fb/x", want: []string{"api", "v4", "projects", "a/b", "x"}, wantRaw: []string{"api", "v4", "projects", "a%2Fb", "x"}, wantSlash: true, wantInexact: true},
		"encoded slash, lower case":      {raw: "/a%2fb", want: []string{"a/b"}, wantRaw: []string{"a%2fb"}, wantSlash: true, wantInexact: true},
		"doubly encoded slash":           {raw: "/repositories/a%252Fb", want: []string{"repositories", "a%2Fb"}, wantRaw: []string{"repositories", "a%252Fb"}, wantInexact: true},
		"semicolon":                      {raw: "/repo/path;prop=1", want: []string{"repo", "path;prop=1"}, wantInexact: true},
		"encoded semicolon":              {raw: "/repo%3Bx", want: []string{"repo;x"}, wantRaw: []string{"repo%3Bx"}, wantInexact: true},
		"trailing slash after a segment": {raw: "/a/b/", want: []string{"a", "b"}, wantTrailing: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := mustParse(t, tc.raw)
			wantRaw := tc.wantRaw
			if wantRaw == nil {
				wantRaw = tc.want
			}
			assert.Empty(t, cmp.Diff(tc.want, p.Segments(), cmpopts.EquateEmpty()))
			assert.Empty(t, cmp.Diff(wantRaw, p.RawSegments(), cmpopts.EquateEmpty()))
			assert.Equal(t, tc.raw, p.String())
			assert.Equal(t, tc.wantTrailing, p.TrailingSlash())
			assert.Equal(t, tc.wantSlash, p.EncodedSlash())
			assert.Equal(t, tc.wantInexact, !p.Exact())
			assert.True(t, p.Known())
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct {
		raw       string
		wantError string
	}{
		"empty":                           {"", "does not begin with a slash"},
		"relative":                        {"v2/app", "does not begin with a slash"},
		"asterisk form":                   {"*", "does not begin with a slash"},
		"authority form":                  {"host:443", "does not begin with a slash"},
		"dot":                             {"/a/./b", "segment 2 of the path is a dot segment"},
		"dot dot":                         {"/a/../b", "segment 2 of the path is a dot segment"},
		"dot dot at the end":              {"/a/..", "dot segment"},
		"dot dot with a trailing slash":   {"/a/../", "dot segment"},
		"encoded dot dot":                 {"/a/%2e%2e/b", "dot segment"},
		"half encoded dot dot":            {"/a/.%2E/b", "dot segment"},
		"encoded dot":                     {"/a/%2e/b", "dot segment"},
		"doubly encoded dot dot":          {"/a/%252e%252e/b", "dot segment"},
		"trebly encoded dot dot":          {"/a/%25252e%25252e/b", "dot segment"},
		"dot dot before a semicolon":      {"/a/..;/b", "dot segment"},
		"dot dot before a parameter":      {"/a/..;x=1/b", "dot segment"},
		"dot dot before an encoded one":   {"/a/..%3Bx/b", "dot segment"},
		"dot dot behind an encoded slash": {"/a/x%2F..%2F..%2Fb", "dot segment"},
		"dot dot behind a doubly encoded": {"/a/x%252F..%252Fb", "dot segment"},
		"empty segment":                   {"/a//b", "segment 2 of the path is empty"},
		"empty segment at the start":      {"//a", "segment 1 of the path is empty"},
		"two slashes alone":               {"//", "is empty"},
		"two trailing slashes":            {"/a//", "is empty"},
		"only a parameter":                {"/a/;x/b", "is empty"},
		"encoded slash makes it empty":    {"/a/%2F/b", "is empty"},
		"encoded slash at the end":        {"/a/b%2F", "is empty"},
		"backslash":                       {`/a\b`, "has a backslash"},
		"encoded backslash":               {"/a%5Cb", "decodes to a backslash"},
		"doubly encoded backslash":        {"/a%255Cb", "decodes to a backslash"},
		"line feed":                       {"/a\nb", "control character (0x0a)"},
		"delete":                          {"/a\x7fb", "control character (0x7f)"},
		"NUL":                             {"/a\x00b", "control character (0x00)"},
		"encoded NUL":                     {"/a%00b", "decodes to a control character"},
		"encoded line feed":               {"/a%0Ab", "decodes to a control character"},
		"encoded delete":                  {"/a%7f", "decodes to a control character"},
		"encoded C1 control":              {"/a%C2%9B", "decodes to a control character"},
		"doubly encoded NUL":              {"/a%2500b", "decodes to a control character"},
		"invalid escape":                  {"/a%zz", "invalid escape"},
		"cut escape":                      {"/a%2", "invalid escape"},
		"lone percent sign":               {"/a%", "invalid escape"},
		"invalid escape inside an escape": {"/a%2541%25zz", "decodes to an invalid escape"},
		"encoded over and over":           {"/a%2525252541", "encoded over and over"},
		"overlong slash":                  {"/a%c0%afb", "does not decode to UTF-8"},
		"overlong dots":                   {"/%c0%ae%c0%ae/b", "does not decode to UTF-8"},
		"Latin-1":                         {"/caf%E9", "does not decode to UTF-8"},
		"space":                           {"/a b", "byte 0x20 unescaped"},
		"raw UTF-8":                       {"/café", "byte 0xc3 unescaped"},
		"query":                           {"/a?b", "byte 0x3f unescaped"},
		"fragment":                        {"/a#b", "byte 0x23 unescaped"},
		"byte that Go would escape":       {"/a%2Fb|c", "byte 0x7c unescaped"},
		"error text stays short":          {"/a/../" + strings.Repeat("x", 5000), "dot segment"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := Parse(tc.raw)
			require.ErrorIs(t, err, ErrBadRequest)
			assert.ErrorContains(t, err, tc.wantError)
			assert.Contains(t, err.Error(), "; ", "the sentence says what to do next")
			assert.Less(t, len(err.Error()), 200)
			assert.False(t, p.Known())
		})
	}
}

func TestPathAfter(t *testing.T) {
	tests := map[string]struct {
		raw  string
		n    int
		want string // "" if there is none
	}{
		"prefix":                {"/namespaces/n/connectors/c/v2/app", 4, "/v2/app"},
		"trailing slash stays":  {"/namespaces/n/connectors/c/v2/", 4, "/v2/"},
		"bytes stay":            {"/p/%61pp%2Fx/y", 1, "/%61pp%2Fx/y"},
		"escapes in the prefix": {"/%70/app", 1, "/app"},
		"nothing follows":       {"/namespaces/n", 2, "/"},
		"only a slash follows":  {"/namespaces/n/", 2, "/"},
		"no prefix":             {"/a/b/", 0, "/a/b/"},
		"root":                  {"/", 0, "/"},
		"too short":             {"/a", 2, ""},
		"negative":              {"/a", -1, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := mustParse(t, tc.raw).After(tc.n)
			assert.Equal(t, tc.want != "", ok)
			if ok {
				assert.Equal(t, mustParse(t, tc.want), got, "as if it had been parsed alone")
			}
		})
	}

	t.Run("flags of the prefix do not stay", func(t *testing.T) {
		got, ok := mustParse(t, "/a%2Fb/c").After(1)
		require.True(t, ok)
		assert.False(t, got.EncodedSlash())
		assert.True(t, got.Exact())
	})
	t.Run("an unknown path has nothing behind it", func(t *testing.T) {
		_, ok := Path{}.After(0)
		assert.False(t, ok)
	})
}

func TestPathEqual(t *testing.T) {
	assert.True(t, mustParse(t, "/a").Equal(mustParse(t, "/a")))
	assert.False(t, mustParse(t, "/a").Equal(mustParse(t, "/%61")))
	assert.False(t, mustParse(t, "/").Equal(Path{}))
}
