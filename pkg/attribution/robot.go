package attribution

import "strings"

const (
	// systemPrefix begins the names that Kubernetes reserves for its own; no authenticator gives them to people.
	systemPrefix = "system:"
	// serviceAccountPrefix is the one structure of user names that is reserved. Any other name is opaque.
	serviceAccountPrefix = systemPrefix + "serviceaccount:"
)

// shared are the exact names of the administrators' credentials that installers make: whoever holds the file is that
// user, so they say nothing about a person. OpenShift's kubeadmin authenticates as kube:admin; kubeadm writes the other two
// into certificates.
var shared = map[string]bool{
	"kube:admin":             true,
	"kubernetes-admin":       true,
	"kubernetes-super-admin": true,
}

// ServiceAccount tells which service account a user name stands for.
func ServiceAccount(username string) (namespace, name string, ok bool) {
	rest, found := strings.CutPrefix(username, serviceAccountPrefix)
	if !found {
		return "", "", false
	}
	namespace, name, found = strings.Cut(rest, ":")
	if !found || namespace == "" || name == "" || strings.Contains(name, ":") {
		return "", "", false
	}
	return namespace, name, true
}

// IsRobot tells of a name that it is never a person, whatever a directory says: the empty name, names beginning with
// "system:", service accounts among them, and the shared credentials of installers, in exactly their spelling.
func IsRobot(username string) bool {
	return username == "" || strings.HasPrefix(username, systemPrefix) || shared[username]
}
