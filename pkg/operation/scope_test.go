package operation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func httpMatch(t testing.TB, methods, paths []string) *HTTPMatch {
	t.Helper()
	m := mustMatch(t, methods, paths)
	return &m
}

func TestNewHTTPMatch(t *testing.T) {
	t.Run("accepts", func(t *testing.T) {
		m, err := NewHTTPMatch([]string{"POST", "put", "PROPFIND", "M-SEARCH"}, []string{"/v2/**"})
		require.NoError(t, err)
		assert.False(t, m.Invalid)
		assert.Len(t, m.Paths, 1)
	})
	refused := map[string]struct{ methods, paths []string }{
		"star as a method":  {methods: []string{"*"}},
		"empty method":      {methods: []string{""}},
		"method with space": {methods: []string{"GET POST"}},
		"control character": {methods: []string{"GET\n"}},
		"bad path":          {paths: []string{"/v2/**", "v2"}},
	}
	for name, tc := range refused {
		t.Run("refuses "+name, func(t *testing.T) {
			m, err := NewHTTPMatch(tc.methods, tc.paths)
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "\n")
			assert.True(t, m.Invalid, "a caller that keeps the value still fails closed")

			o := Operation{Class: Write, Method: "PUT", Path: mustParse(t, "/x")}
			assert.True(t, When{HTTP: &m}.Matches(o))
			assert.False(t, Use{HTTP: &m}.Covers(o))
			assert.True(t, Overlaps(When{HTTP: &m}, Use{HTTP: httpMatch(t, nil, []string{"/y"})}))
		})
	}
}

func TestWhenMatches(t *testing.T) {
	push := Operation{Class: Write, Method: "PUT", Path: mustParse(t, "/v2/app/manifests/1")}
	pull := Operation{Class: Read, Method: "GET", Path: mustParse(t, "/v2/app/manifests/1")}
	hidden := Operation{Class: Write, Method: "PUT", Path: mustParse(t, "/v2/a%2Fb")}
	release := Operation{Class: Write}
	odd := Operation{Class: "Execute", Method: "PUT", Path: mustParse(t, "/v2/app/manifests/1")}
	tests := map[string]struct {
		when When
		want map[string]bool
	}{
		"absent":                    {When{}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": true, "odd": true}},
		"empty http is like none":   {When{HTTP: &HTTPMatch{}}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": true, "odd": true}},
		"writes":                    {When{Operations: []Class{Write}}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": true, "odd": true}},
		"reads":                     {When{Operations: []Class{Read}}, map[string]bool{"push": false, "pull": true, "hidden": false, "release": false, "odd": false}},
		"both":                      {When{Operations: []Class{Read, Write}}, map[string]bool{"push": true, "pull": true, "hidden": true, "release": true, "odd": true}},
		"methods":                   {When{HTTP: httpMatch(t, []string{"POST", "PUT"}, nil)}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": true, "odd": true}},
		"methods in lower case":     {When{HTTP: httpMatch(t, []string{"put"}, nil)}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": true, "odd": true}},
		"paths are of every class":  {When{HTTP: httpMatch(t, nil, []string{"/v2/app/**"})}, map[string]bool{"push": true, "pull": true, "hidden": true, "release": true, "odd": true}},
		"other paths":               {When{HTTP: httpMatch(t, nil, []string{"/x", "/y/**"})}, map[string]bool{"push": false, "pull": false, "hidden": true, "release": true, "odd": false}},
		"all parts must match":      {When{Operations: []Class{Write}, HTTP: httpMatch(t, []string{"GET"}, []string{"/v2/**"})}, map[string]bool{"push": false, "pull": false, "hidden": false, "release": true, "odd": false}},
		"reads of a path":           {When{Operations: []Class{Read}, HTTP: httpMatch(t, nil, []string{"/v2/**"})}, map[string]bool{"push": false, "pull": true, "hidden": false, "release": false, "odd": false}},
		"invalid":                   {When{Operations: []Class{Read}, Invalid: true}, map[string]bool{"push": true, "pull": true, "hidden": true, "release": true, "odd": true}},
		"a class that is not known": {When{Operations: []Class{"Execute"}}, map[string]bool{"push": true, "pull": true, "hidden": true, "release": true, "odd": true}},
		"a path that did not parse": {When{HTTP: &HTTPMatch{Paths: []Pattern{{}}}}, map[string]bool{"push": true, "pull": true, "hidden": true, "release": true, "odd": true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]bool{
				"push": tc.when.Matches(push), "pull": tc.when.Matches(pull), "hidden": tc.when.Matches(hidden),
				"release": tc.when.Matches(release), "odd": tc.when.Matches(odd),
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestUseCovers(t *testing.T) {
	push := Operation{Class: Write, Method: "PUT", Path: mustParse(t, "/v2/app/manifests/1")}
	pull := Operation{Class: Read, Method: "GET", Path: mustParse(t, "/v2/app/manifests/1")}
	hidden := Operation{Class: Write, Method: "PUT", Path: mustParse(t, "/v2/a%2Fb")}
	release := Operation{Class: Write}
	tests := map[string]struct {
		use  Use
		want map[string]bool
	}{
		"absent":                    {Use{}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": true}},
		"empty http is like none":   {Use{HTTP: &HTTPMatch{}}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": true}},
		"writes":                    {Use{Operations: []Class{Write}}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": true}},
		"reads":                     {Use{Operations: []Class{Read}}, map[string]bool{"push": false, "pull": true, "hidden": false, "release": false}},
		"methods":                   {Use{HTTP: httpMatch(t, []string{"put"}, nil)}, map[string]bool{"push": true, "pull": false, "hidden": true, "release": false}},
		"paths":                     {Use{HTTP: httpMatch(t, nil, []string{"/v2/app/**"})}, map[string]bool{"push": true, "pull": true, "hidden": false, "release": false}},
		"paths that hold it anyhow": {Use{HTTP: httpMatch(t, nil, []string{"/v2/**"})}, map[string]bool{"push": true, "pull": true, "hidden": true, "release": false}},
		"all paths":                 {Use{HTTP: httpMatch(t, nil, []string{"/**"})}, map[string]bool{"push": true, "pull": true, "hidden": true, "release": false}},
		"all parts must cover":      {Use{Operations: []Class{Write}, HTTP: httpMatch(t, nil, []string{"/v2/app/**"})}, map[string]bool{"push": true, "pull": false, "hidden": false, "release": false}},
		"invalid":                   {Use{Invalid: true}, map[string]bool{"push": false, "pull": false, "hidden": false, "release": false}},
		"a class that is not known": {Use{Operations: []Class{"Execute"}}, map[string]bool{"push": false, "pull": false, "hidden": false, "release": false}},
		"a path that did not parse": {Use{HTTP: &HTTPMatch{Paths: []Pattern{{}}}}, map[string]bool{"push": false, "pull": false, "hidden": false, "release": false}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]bool{
				"push": tc.use.Covers(push), "pull": tc.use.Covers(pull),
				"hidden": tc.use.Covers(hidden), "release": tc.use.Covers(release),
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestUseClasses(t *testing.T) {
	tests := map[string]struct {
		use  Use
		want []Class
	}{
		"absent":    {Use{}, []Class{Write}},
		"reads":     {Use{Operations: []Class{Read}}, []Class{Read}},
		"both":      {Use{Operations: []Class{Write, Read}}, []Class{Read, Write}},
		"http only": {Use{HTTP: httpMatch(t, []string{"PUT"}, nil)}, []Class{Read, Write}},
		"unknown":   {Use{Operations: []Class{"Execute"}}, []Class{Read, Write}},
		"invalid":   {Use{Operations: []Class{Read}, Invalid: true}, []Class{Read, Write}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, tc.use.Classes())
		})
	}
}

func TestOverlaps(t *testing.T) {
	paths := func(patterns ...string) *HTTPMatch { return httpMatch(t, nil, patterns) }
	methods := func(methods ...string) *HTTPMatch { return httpMatch(t, methods, nil) }
	tests := map[string]struct {
		when When
		use  Use
		want bool
	}{
		"both absent":                {When{}, Use{}, true},
		"absent and reads":           {When{}, Use{Operations: []Class{Read}}, false},
		"reads and absent":           {When{Operations: []Class{Read}}, Use{}, false},
		"writes and absent":          {When{Operations: []Class{Write}}, Use{}, true},
		"classes differ":             {When{Operations: []Class{Read}}, Use{Operations: []Class{Write}}, false},
		"one class shared":           {When{Operations: []Class{Read, Write}}, Use{Operations: []Class{Write}}, true},
		"use without http":           {When{HTTP: paths("/v2/x")}, Use{Operations: []Class{Write}}, true},
		"rule without http":          {When{Operations: []Class{Write}}, Use{Operations: []Class{Write}, HTTP: paths("/v2/x")}, true},
		"paths overlap":              {When{HTTP: paths("/v2/**")}, Use{HTTP: paths("/v2/app/**")}, true},
		"paths differ":               {When{HTTP: paths("/v2/a/**", "/v2/b/**")}, Use{HTTP: paths("/v2/c/**")}, false},
		"one of the paths overlaps":  {When{HTTP: paths("/v2/a/**", "/v2/b/**")}, Use{HTTP: paths("/v2/c/**", "/v2/*/x")}, true},
		"methods overlap":            {When{HTTP: methods("POST", "PUT")}, Use{HTTP: methods("put")}, true},
		"methods differ":             {When{HTTP: methods("POST")}, Use{HTTP: methods("PUT")}, false},
		"methods and paths":          {When{HTTP: methods("POST")}, Use{HTTP: paths("/v2/x")}, true},
		"methods overlap, paths not": {When{HTTP: httpMatch(t, []string{"PUT"}, []string{"/a"})}, Use{HTTP: httpMatch(t, []string{"PUT"}, []string{"/b"})}, false},
		"paths overlap, methods not": {When{HTTP: httpMatch(t, []string{"PUT"}, []string{"/a"})}, Use{HTTP: httpMatch(t, []string{"GET"}, []string{"/a"})}, false},
		"classes differ, http same":  {When{Operations: []Class{Read}, HTTP: paths("/a")}, Use{Operations: []Class{Write}, HTTP: paths("/a")}, false},
		"http alone meets reads":     {When{Operations: []Class{Read}}, Use{HTTP: paths("/a")}, true},
		"invalid rule":               {When{Operations: []Class{Read}, Invalid: true}, Use{}, true},
		"invalid use":                {When{Operations: []Class{Read}}, Use{Invalid: true}, true},
		"a class that is not known":  {When{Operations: []Class{"Execute"}}, Use{Operations: []Class{Read}}, true},
		"use of an unknown class":    {When{Operations: []Class{Read}}, Use{Operations: []Class{"Execute"}}, true},
		"a path that did not parse":  {When{HTTP: &HTTPMatch{Paths: []Pattern{{}}}}, Use{HTTP: paths("/a")}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, Overlaps(tc.when, tc.use))
		})
	}
}

// A rule that applies to what a use covers must have been asked, or approved requests would be refused for good.
func TestWhatIsCoveredAndGuardedIsAsked(t *testing.T) {
	classes := [][]Class{nil, {Read}, {Write}, {Read, Write}}
	matches := []*HTTPMatch{
		nil, {}, httpMatch(t, []string{"PUT"}, nil), httpMatch(t, []string{"GET", "PUT"}, []string{"/v2/*/x"}),
		httpMatch(t, nil, []string{"/v2/**"}), httpMatch(t, nil, []string{"/v2/a/x", "/v2/b"}),
	}
	var operations []Operation
	for _, class := range []Class{Read, Write} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			for _, path := range []string{"/", "/v2/", "/v2/a/x", "/v2/b", "/v2/a/x/y"} {
				operations = append(operations, Operation{Class: class, Method: method, Path: mustParse(t, path)})
			}
		}
	}
	for _, ruleClasses := range classes {
		for _, ruleHTTP := range matches {
			when := When{Operations: ruleClasses, HTTP: ruleHTTP}
			for _, useClasses := range classes {
				for _, useHTTP := range matches {
					use := Use{Operations: useClasses, HTTP: useHTTP}
					for _, o := range operations {
						if when.Matches(o) && use.Covers(o) {
							require.True(t, Overlaps(when, use), "%+v %+v %s", when, use, o.Describe())
						}
					}
				}
			}
		}
	}
}
