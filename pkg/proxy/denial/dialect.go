package denial

import (
	"net/http"
	"strings"
)

// Dialect is the language of an answer.
type Dialect uint8

// Dialects. Problem is for every client that is none of the others.
const (
	Problem Dialect = iota
	Registry
	Kubernetes
	Git
)

// Classes of connectors whose clients have a language of their own.
const (
	classGit        = "git"
	classOCI        = "oci"
	classHarbor     = "harbor"
	classKubernetes = "k8s"
)

// ForClass is the language of the clients of a connector's class. Harbor has a registry and an API behind one address;
// classes without a language of their own leave it to the request.
func ForClass(class, toolPath string, header http.Header) Dialect {
	switch class {
	case classGit:
		return Git
	case classKubernetes:
		return Kubernetes
	case classOCI, classHarbor:
		if isRegistryPath(toolPath) {
			return Registry
		}
		return Problem
	}
	return Guess(toolPath, header)
}

// Guess reads the language off the request alone. It serves where the connector is unknown, or must stay so: the answer
// must not tell whether it exists.
func Guess(path string, header http.Header) Dialect {
	agent := header.Get("User-Agent")
	switch {
	case isRegistryPath(path):
		return Registry
	case strings.HasPrefix(agent, "git/"), strings.HasPrefix(agent, "git-lfs/"), isGitPath(path):
		return Git
	case strings.HasPrefix(agent, "kubectl/"), isKubernetesPath(path):
		return Kubernetes
	}
	return Problem
}

func isRegistryPath(path string) bool {
	return path == "/v2" || strings.HasPrefix(path, "/v2/")
}

func isGitPath(path string) bool {
	return strings.HasSuffix(path, "/info/refs") || strings.HasSuffix(path, "/git-upload-pack") || strings.HasSuffix(path, "/git-receive-pack")
}

func isKubernetesPath(path string) bool {
	return path == "/api/v1" || strings.HasPrefix(path, "/api/v1/") || path == "/apis" || strings.HasPrefix(path, "/apis/")
}

const (
	basicChallenge  = `Basic realm="countersign", charset="UTF-8"`
	bearerChallenge = `Bearer realm="countersign"`
)

// challenges are what makes clients send their token. Git and registry clients know only Basic: a Bearer challenge would
// send docker to a token service that does not exist. A Kubernetes client sends what its kubeconfig says.
func (d Dialect) challenges() []string {
	switch d {
	case Git, Registry:
		return []string{basicChallenge}
	case Kubernetes:
		return []string{bearerChallenge}
	case Problem:
	}
	return []string{bearerChallenge, basicChallenge}
}

func (d Dialect) render(denial *Denial) (contentType string, body []byte) {
	switch d {
	case Registry:
		return "application/json", denial.registry()
	case Kubernetes:
		return "application/json", denial.kubernetes()
	case Git:
		return "text/plain; charset=utf-8", denial.git()
	case Problem:
	}
	return "application/problem+json", denial.problem()
}
