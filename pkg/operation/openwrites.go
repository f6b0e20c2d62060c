package operation

import (
	"fmt"
	"slices"
)

// openWrite is a way to write that a rule with a method list may not have thought of.
type openWrite struct {
	method string
	// paths are where it is done; a rule whose paths do not overlap them is about something else.
	paths []string
	does  string
}

var (
	registryWrites = []openWrite{
		{methodPost, []string{"/v2/**"}, "starts uploads and mounts blobs"},
		{methodPut, []string{"/v2/**"}, "finishes uploads and writes manifests and tags"},
		{methodPatch, []string{"/v2/**"}, "uploads blobs in chunks"},
		{methodDelete, []string{"/v2/**"}, "deletes manifests, tags and blobs"},
	}
	harborWrites = []openWrite{
		{methodPost, []string{"/v2/**", "/api/v2.0/**"}, "starts uploads, mounts blobs, copies artifacts and creates what the API knows"},
		{methodPut, []string{"/v2/**", "/api/v2.0/**"}, "writes manifests and tags and changes what the API knows"},
		{methodPatch, []string{"/v2/**", "/api/v2.0/**"}, "uploads blobs in chunks and changes what the API knows"},
		{methodDelete, []string{"/v2/**", "/api/v2.0/**"}, "deletes manifests, tags, blobs and what the API knows"},
	}
	gitWrites = []openWrite{
		{methodPost, []string{"/**"}, "pushes (git-receive-pack)"},
		{methodPut, []string{"/**"}, "uploads large files (Git LFS)"},
		{methodGet, []string{"/**"}, "begins a push (info/refs?service=git-receive-pack), and only there git shows why it is refused"},
	}
	kubernetesWrites = []openWrite{
		{methodPost, []string{"/api/**", "/apis/**"}, "creates objects, evicts pods, mints tokens and opens exec"},
		{methodPut, []string{"/api/**", "/apis/**"}, "replaces objects"},
		{methodPatch, []string{"/api/**", "/apis/**"}, "patches and applies objects"},
		{methodDelete, []string{"/api/**", "/apis/**"}, "deletes objects, one or a whole collection"},
		{methodGet, []string{
			"/api/*/namespaces/*/pods/*/exec", "/api/*/namespaces/*/pods/*/attach", "/api/*/namespaces/*/pods/*/portforward",
		}, "opens exec, attach and port-forward over a WebSocket"},
		{methodGet, []string{
			"/api/*/namespaces/*/pods/*/proxy/**", "/api/*/namespaces/*/services/*/proxy/**", "/api/*/nodes/*/proxy/**", "/api/*/proxy/**",
		}, "reaches pods, services and kubelets through a proxy"},
		{methodGet, []string{
			"/api/*/secrets/**", "/api/*/namespaces/*/secrets/**", "/api/*/watch/secrets/**", "/api/*/watch/namespaces/*/secrets/**",
		}, "reads secrets, which counts as a Write"},
	}
	anyWrites = []openWrite{
		{methodPost, []string{"/**"}, "creates and triggers"},
		{methodPut, []string{"/**"}, "creates and replaces"},
		{methodPatch, []string{"/**"}, "changes"},
		{methodDelete, []string{"/**"}, "deletes"},
		{methodGet, []string{"/**"}, "upgrades a connection (WebSocket), which counts as a Write"},
	}
)

func writesOf(class string) []openWrite {
	switch class {
	case Git:
		return gitWrites
	case OCI:
		return registryWrites
	case Harbor:
		return harborWrites
	case Kubernetes:
		return kubernetesWrites
	}
	return anyWrites
}

// OpenWrites warns the writer of a rule: one sentence for every known kind of write of the connector class that the
// rule's method list leaves open, within the rule's paths. A rule without a method list leaves none open, and a rule
// that is meant for reads is not warned about.
func OpenWrites(class string, when When) []string {
	if when.Invalid || when.HTTP == nil || when.HTTP.Invalid || len(when.HTTP.Methods) == 0 || !when.isForWrites() {
		return nil
	}
	var warnings []string
	for _, w := range writesOf(class) {
		if !containsMethod(when.HTTP.Methods, w.method) && w.liesIn(when.HTTP) {
			warnings = append(warnings, fmt.Sprintf(
				"%s is left open: it %s; add it to http.methods, or name operations: [Write] in place of methods.", w.method, w.does))
		}
	}
	return warnings
}

// isForWrites goes by the classes and, where none are named, by whether any method is one that writes.
func (w When) isForWrites() bool {
	if len(w.Operations) > 0 {
		return classesMatch(w.Operations, w.HTTP, Operation{Class: Write})
	}
	return slices.ContainsFunc(w.HTTP.Methods, func(method string) bool {
		return !containsMethod([]string{methodGet, methodHead, methodOptions}, method)
	})
}

func (w openWrite) liesIn(m *HTTPMatch) bool {
	return slices.ContainsFunc(w.paths, func(text string) bool {
		// A pattern of this table that did not parse would be the zero Pattern, which overlaps: it would warn.
		pattern, _ := ParsePattern(text)
		return m.overlapsPath(pattern)
	})
}
