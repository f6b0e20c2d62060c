package operation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenWrites(t *testing.T) {
	postPut := []string{"POST", "PUT"}
	tests := map[string]struct {
		class string
		when  When
		want  []string // methods named, in order
	}{
		"registry, the seed's rule":        {OCI, When{HTTP: httpMatch(t, postPut, nil)}, []string{"PATCH", "DELETE"}},
		"registry, below a path":           {OCI, When{HTTP: httpMatch(t, postPut, []string{"/v2/prod/**"})}, []string{"PATCH", "DELETE"}},
		"registry, elsewhere":              {OCI, When{HTTP: httpMatch(t, postPut, []string{"/token"})}, nil},
		"harbor, its API":                  {Harbor, When{HTTP: httpMatch(t, postPut, []string{"/api/v2.0/**"})}, []string{"PATCH", "DELETE"}},
		"registry, all":                    {OCI, When{HTTP: httpMatch(t, []string{"POST", "put", "PATCH", "delete"}, nil)}, nil},
		"git, push only":                   {Git, When{HTTP: httpMatch(t, []string{"POST"}, nil)}, []string{"PUT", "GET"}},
		"kubernetes":                       {Kubernetes, When{HTTP: httpMatch(t, postPut, nil)}, []string{"PATCH", "DELETE", "GET", "GET", "GET"}},
		"kubernetes, apps only":            {Kubernetes, When{HTTP: httpMatch(t, postPut, []string{"/apis/apps/**"})}, []string{"PATCH", "DELETE"}},
		"kubernetes, one namespace's pods": {Kubernetes, When{HTTP: httpMatch(t, postPut, []string{"/api/v1/namespaces/n/pods/*/exec"})}, []string{"PATCH", "DELETE", "GET"}},
		"any":                              {"nexus", When{HTTP: httpMatch(t, postPut, nil)}, []string{"PATCH", "DELETE", "GET"}},
		"writes, with methods":             {OCI, When{Operations: []Class{Write}, HTTP: httpMatch(t, []string{"DELETE"}, nil)}, []string{"POST", "PUT", "PATCH"}},
		"writes by GET":                    {Git, When{Operations: []Class{Write}, HTTP: httpMatch(t, []string{"GET"}, nil)}, []string{"POST", "PUT"}},
		"reads":                            {OCI, When{Operations: []Class{Read}, HTTP: httpMatch(t, []string{"GET"}, nil)}, nil},
		"meant for reads":                  {OCI, When{HTTP: httpMatch(t, []string{"GET", "HEAD"}, nil)}, nil},
		"no method list":                   {OCI, When{HTTP: httpMatch(t, nil, []string{"/v2/**"})}, nil},
		"no http":                          {OCI, When{Operations: []Class{Write}}, nil},
		"absent":                           {OCI, When{}, nil},
		"invalid":                          {OCI, When{HTTP: httpMatch(t, postPut, nil), Invalid: true}, nil},
		"invalid http":                     {OCI, When{HTTP: &HTTPMatch{Methods: postPut, Invalid: true}}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var methods []string
			for _, warning := range OpenWrites(tc.class, tc.when) {
				method, rest, found := strings.Cut(warning, " is left open: it ")
				require.True(t, found, warning)
				assert.Contains(t, rest, "; add it to http.methods")
				methods = append(methods, method)
			}
			assert.Equal(t, tc.want, methods)
		})
	}
}

// The table must not warn of what the classifier lets pass, nor hold a pattern that does not parse.
func TestOpenWritesAreWrites(t *testing.T) {
	samples := map[string]string{
		"/v2/**": "/v2/team/app/blobs/uploads/id", "/api/v2.0/**": "/api/v2.0/projects/p", "/api/**": "/api/v1/namespaces/n/pods/p",
		"/apis/**": "/apis/apps/v1/namespaces/n/deployments/d",
	}
	for _, class := range []string{Git, OCI, Harbor, Kubernetes, Any} {
		for _, w := range writesOf(class) {
			for _, text := range w.paths {
				path, found := samples[text]
				if !found {
					path = strings.ReplaceAll(strings.ReplaceAll(text, "/**", "/x"), "*", "y")
				}
				r := request(t, w.method+" "+path)
				if class == Git && w.method == "GET" {
					r = request(t, "GET /app.git/info/refs?service=git-receive-pack")
				}
				r.Upgrade = class == Any && w.method == "GET"
				require.True(t, mustPattern(t, text).Match(r.Path))
				operations, err := NewClassifier(class).Classify(r)
				require.NoError(t, err)
				assert.False(t, operations[0].IsRead(), "%s: %s", class, operations[0].Describe())
			}
		}
	}
}
