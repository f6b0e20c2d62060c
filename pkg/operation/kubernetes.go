package operation

import (
	"slices"
	"strings"
)

// kubernetesVerdict knows the Kubernetes API, whose paths it takes apart as the API server does: /api/{version} or
// /apis/{group}/{version}, a verb in the path (watch, proxy), namespaces/{name}, resource, name, subresource.
//
// Of an API only what is listed is a Read, and nothing is unknown: the owner cannot lower an exec. Dry runs are Writes,
// since admission and its side effects run. Paths outside the API that are not discovery are unknown.
func kubernetesVerdict(r *Request) verdict {
	segments := r.Path.Segments()
	switch {
	case !r.Path.Exact():
		return verdictWrite
	case isKubernetesDiscovery(segments) && isFetch(r.Method):
		return verdictRead
	case !isKubernetesAPI(segments):
		return verdictUnknown
	case isFetch(r.Method) && parseKubernetes(segments).isReadable():
		return verdictRead
	case r.Method == methodPost && isSelfReview(segments):
		return verdictRead
	}
	return verdictWrite
}

// kubernetesStreams are a watch and a log that is followed; exec, attach and port-forward are no reads to begin with.
func kubernetesStreams(r *Request) bool {
	if r.Method != methodGet {
		return false
	}
	q := parseKubernetes(r.Path.Segments())
	if q.subresource == "log" {
		return lookup(r.RawQuery, "follow").on()
	}
	return q.verb == "watch" || q.resource != "" && q.name == "" && lookup(r.RawQuery, "watch").on()
}

func isKubernetesAPI(segments []string) bool {
	return len(segments) > 0 && (segments[0] == "api" || segments[0] == "apis")
}

// isKubernetesDiscovery covers what every client asks before anything else, and the health endpoints.
func isKubernetesDiscovery(segments []string) bool {
	if len(segments) == 0 {
		return false
	}
	switch segments[0] {
	case "api":
		return len(segments) <= 2
	case "apis":
		return len(segments) <= 3
	case "version":
		return len(segments) == 1
	case "openapi", "healthz", "livez", "readyz":
		return true
	}
	return false
}

// kubernetesQuery is a resource path; the zero value is none.
type kubernetesQuery struct {
	verb        string // watch or proxy, from the path
	resource    string
	name        string
	subresource string
	rest        int // segments after the subresource
}

func parseKubernetes(segments []string) kubernetesQuery {
	var q kubernetesQuery
	parts := cutKubernetesGroup(segments)
	if len(parts) > 1 && (parts[0] == "watch" || parts[0] == "proxy") {
		q.verb, parts = parts[0], parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	for i, field := range []*string{&q.resource, &q.name, &q.subresource} {
		if i < len(parts) {
			*field = parts[i]
		}
	}
	q.rest = max(0, len(parts)-3)
	return q
}

// cutKubernetesGroup takes off the prefix, the group and the version; nothing is left of what is no resource path.
func cutKubernetesGroup(segments []string) []string {
	switch {
	case len(segments) >= 3 && segments[0] == "api":
		return segments[2:]
	case len(segments) >= 4 && segments[0] == "apis":
		return segments[3:]
	}
	return nil
}

// isReadable tells whether get, list and watch of this are Reads.
func (q kubernetesQuery) isReadable() bool {
	if q.verb == "proxy" || !isReadableResource(q.resource) || q.rest > 0 {
		return false
	}
	switch q.subresource {
	case "":
		return true
	case "status", "scale", "log":
		return q.verb == ""
	}
	return false
}

// isReadableResource refuses what the path has in place of a resource when a verb has nothing behind it.
func isReadableResource(resource string) bool {
	switch resource {
	case "", "proxy", "watch":
		return false
	}
	return !strings.EqualFold(resource, "secrets")
}

// isSelfReview knows the reviews that tell a caller about itself. They are created, but nothing is stored.
func isSelfReview(segments []string) bool {
	if len(segments) != 4 || segments[0] != "apis" {
		return false
	}
	switch segments[1] {
	case "authorization.k8s.io":
		return slices.Contains([]string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}, segments[3])
	case "authentication.k8s.io":
		return segments[3] == "selfsubjectreviews"
	}
	return false
}
