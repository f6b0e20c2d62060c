package upstream

import (
	"net/http"
	"slices"
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// scopesOf are the scopes (distribution specification, "Requesting a token") that the operations of one request need.
func scopesOf(operations []operation.Operation) []string {
	var scopes []string
	for _, o := range operations {
		if scope := scopeOf(o); scope != "" && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// scopeOf is empty for what belongs to no repository, such as /v2/.
func scopeOf(o operation.Operation) string {
	segments := o.Path.Segments()
	if len(segments) < 2 || segments[0] != "v2" {
		return ""
	}
	if len(segments) == 2 && segments[1] == "_catalog" {
		return "registry:catalog:*"
	}
	repository := repositoryOf(segments[1:])
	if !isRepository(repository) {
		return ""
	}
	return "repository:" + repository + ":" + actions(o)
}

// isRepository keeps out the signs that part scopes: by them a name would ask for more than itself. No repository has
// them (distribution specification, "Pulling manifests").
func isRepository(name string) bool {
	foreign := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-/", r)
	}
	return name != "" && !strings.ContainsFunc(name, foreign)
}

// repositoryOf reads from the end, because repositories and tags may be called like the words of the API.
func repositoryOf(segments []string) string {
	n := len(segments)
	switch {
	case n >= 4 && segments[n-3] == "blobs" && segments[n-2] == "uploads":
		return strings.Join(segments[:n-3], "/")
	case n < 3:
		return ""
	}
	switch segments[n-2] {
	case "manifests", "blobs", "tags", "referrers":
		return strings.Join(segments[:n-2], "/")
	}
	return ""
}

func actions(o operation.Operation) string {
	switch {
	case o.IsRead():
		return "pull"
	case o.Method == http.MethodDelete:
		return "pull,delete"
	}
	return "pull,push"
}
