package operation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mustPattern(t testing.TB, s string) Pattern {
	t.Helper()
	p, err := ParsePattern(s)
	require.NoError(t, err, s)
	return p
}

// patternOrZero keeps "" for the pattern that could not be parsed.
func patternOrZero(t testing.TB, s string) Pattern {
	t.Helper()
	if s == "" {
		return Pattern{}
	}
	return mustPattern(t, s)
}

func pathOrZero(t testing.TB, s string) Path {
	t.Helper()
	if s == "" {
		return Path{}
	}
	return mustParse(t, s)
}

func TestParsePattern(t *testing.T) {
	for _, s := range []string{"/", "/**", "/*", "/v2/**", "/v2/", "/v2/*/manifests/*", "/caf%C3%A9", "/literal%2Astar", "/a:b"} {
		t.Run("accepts "+s, func(t *testing.T) {
			p := mustPattern(t, s)
			assert.Equal(t, s, p.String())
			assert.True(t, p.Valid())
		})
	}
	refused := map[string]struct {
		text      string
		wantError string
	}{
		"empty":               {"", "does not begin with a slash"},
		"relative":            {"v2/**", "does not begin with a slash"},
		"star in a segment":   {"/v2/app*", "a star is a whole segment"},
		"double star inside":  {"/v2/**/manifests", "only the last one"},
		"three stars":         {"/v2/***", "a star is a whole segment"},
		"dot segment":         {"/v2/../x", "dot segment"},
		"encoded dot segment": {"/v2/%2e%2e", "dot segment"},
		"empty segment":       {"/v2//x", "is empty"},
		"query":               {"/v2?x=1", "0x3f unescaped"},
		"encoded slash":       {"/v2/a%2Fb", "encoded slash"},
		"double escape":       {"/v2/a%252Fb", "escape in an escape"},
		"semicolon":           {"/v2/a;b", "semicolon"},
		"invalid escape":      {"/v2/%", "invalid escape"},
	}
	for name, tc := range refused {
		t.Run("refuses "+name, func(t *testing.T) {
			p, err := ParsePattern(tc.text)
			require.Error(t, err)
			assert.ErrorContains(t, err, tc.wantError)
			assert.NotErrorIs(t, err, ErrBadRequest)
			assert.False(t, p.Valid())
		})
	}
}

func TestPatternMatchAndIncludes(t *testing.T) {
	tests := map[string]struct {
		pattern, path string
		wantMatch     bool
		wantIncludes  bool
	}{
		"same":                                 {"/v2/app", "/v2/app", true, true},
		"other segment":                        {"/v2/app", "/v2/lib", false, false},
		"case differs":                         {"/v2/app", "/v2/App", false, false},
		"shorter":                              {"/v2/app", "/v2", false, false},
		"longer":                               {"/v2/app", "/v2/app/x", false, false},
		"escaped in the path":                  {"/v2/app", "/v2/%61pp", true, true},
		"escaped in the pattern":               {"/v2/%61pp", "/v2/app", true, true},
		"trailing slash in the path":           {"/v2/app", "/v2/app/", true, true},
		"trailing slash in the pattern":        {"/v2/app/", "/v2/app", true, true},
		"star":                                 {"/v2/*/tags", "/v2/app/tags", true, true},
		"star is one segment":                  {"/v2/*/tags", "/v2/a/b/tags", false, false},
		"star is not none":                     {"/v2/*", "/v2/", false, false},
		"literal star":                         {"/v2/%2A", "/v2/app", false, false},
		"literal star matches itself":          {"/v2/%2A", "/v2/*", true, true},
		"a star in a path is literal":          {"/v2/app", "/v2/*", false, false},
		"double star":                          {"/v2/**", "/v2/a/b/c", true, true},
		"double star is none too":              {"/v2/**", "/v2", true, true},
		"double star keeps its prefix":         {"/v2/**", "/v1/a", false, false},
		"everything":                           {"/**", "/", true, true},
		"root":                                 {"/", "/", true, true},
		"root is not everything":               {"/", "/a", false, false},
		"encoded slash matches everything":     {"/other/thing", "/v2/a%2Fb", true, false},
		"encoded slash behind double star":     {"/v2/**", "/v2/a%2Fb", true, true},
		"encoded slash before double star":     {"/v2/*/**", "/v2/a%2Fb/c", true, false},
		"encoded slash under star":             {"/v2/*", "/v2/a%2Fb", true, false},
		"double escape, same prefix":           {"/v2/*/x", "/v2/a%252Fb/x", true, false},
		"double escape, could be split":        {"/v2/a/b/x", "/v2/a%252Fb/x", true, false},
		"double escape, other prefix":          {"/v1/**", "/v2/a%252Fb/x", false, false},
		"double escape, pattern too short":     {"/v2/a", "/v2/a%252Fb/x", false, false},
		"double escape behind double star":     {"/v2/**", "/v2/a%252Fb/x", true, true},
		"double escape in the literal's place": {"/v2/secret", "/v2/%2573ecret", true, false},
		"parameter in the literal's place":     {"/admin/**", "/admin;x/users", true, false},
		"parameter behind double star":         {"/repo/**", "/repo/a;p=1", true, true},
		"unknown path":                         {"/v2/**", "", true, false},
		"unknown path, everything":             {"/**", "", true, false},
		"unparsed pattern":                     {"", "/v2/app", true, false},
		"unparsed pattern, unknown path":       {"", "", true, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pattern, path := patternOrZero(t, tc.pattern), pathOrZero(t, tc.path)
			assert.Equal(t, tc.wantMatch, pattern.Match(path), "match")
			assert.Equal(t, tc.wantIncludes, pattern.Includes(path), "includes")
		})
	}
}

func TestPatternOverlapsAndCovers(t *testing.T) {
	tests := map[string]struct {
		a, b         string
		wantOverlaps bool
		wantCovers   bool // a covers b
		wantCovered  bool // b covers a
	}{
		"same":                       {"/v2/app", "/v2/app", true, true, true},
		"same but written otherwise": {"/v2/app", "/v2/%61pp/", true, true, true},
		"fixed segment differs":      {"/v2/app", "/v2/lib", false, false, false},
		"star and literal":           {"/v2/*", "/v2/app", true, true, false},
		"star and star":              {"/v2/*", "/v2/*", true, true, true},
		"crossing stars":             {"/*/app", "/v2/*", true, false, false},
		"crossing stars, then not":   {"/*/app/x", "/v2/*/y", false, false, false},
		"lengths differ":             {"/v2/*", "/v2/*/x", false, false, false},
		"double star and longer":     {"/v2/**", "/v2/a/b", true, true, false},
		"double star and its prefix": {"/v2/**", "/v2", true, true, false},
		"double star and shorter":    {"/v2/a/**", "/v2", false, false, false},
		"double star and star":       {"/v2/**", "/v2/*", true, true, false},
		"two double stars, nested":   {"/v2/**", "/v2/team/**", true, true, false},
		"two double stars, crossing": {"/v2/*/x/**", "/v2/team/**", true, false, false},
		"two double stars, apart":    {"/v2/a/**", "/v2/b/**", false, false, false},
		"star before double star":    {"/v2/*/**", "/v2/**", true, false, true},
		"everything":                 {"/**", "/v2/app", true, true, false},
		"everything and root":        {"/**", "/", true, true, false},
		"root and star":              {"/", "/*", false, false, false},
		"literal star is no star":    {"/v2/%2A", "/v2/app", false, false, false},
		"unparsed":                   {"", "/v2/app", true, false, false},
		"unparsed and everything":    {"", "/**", true, false, false},
		"both unparsed":              {"", "", true, false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := patternOrZero(t, tc.a), patternOrZero(t, tc.b)
			assert.Equal(t, tc.wantOverlaps, a.Overlaps(b), "overlaps")
			assert.Equal(t, tc.wantOverlaps, b.Overlaps(a), "overlaps the other way round")
			assert.Equal(t, tc.wantCovers, a.Covers(b), "covers")
			assert.Equal(t, tc.wantCovered, b.Covers(a), "is covered")
			if a.Valid() {
				assert.Equal(t, tc.wantCovers && tc.wantCovered, a.Equal(b), "equal")
			}
		})
	}
}
