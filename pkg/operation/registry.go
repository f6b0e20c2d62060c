package operation

import (
	"net/url"
	"strings"
)

var errMount = refusal{"the mount of a blob names its source unclearly; send mount and from once each, percent-encoded"}

// registryVerdict knows the OCI distribution API below /v2/. Repository names have any number of segments, so it reads from
// the end; an upload is recognised first, because it is a Write whatever its method.
func registryVerdict(r *Request) verdict {
	if !r.Path.isBelow("v2") {
		return verdictUnknown
	}
	if isUpload(r.Path) {
		return verdictWrite
	}
	switch kind := registryKind(r.Path); {
	case kind != notRegistry && isFetch(r.Method):
		return verdictRead
	case kind == registryManifest && (r.Method == methodPut || r.Method == methodDelete):
		return verdictWrite
	case kind == registryBlob && r.Method == methodDelete:
		return verdictWrite
	}
	return verdictUnknown
}

type registryPart uint8

const (
	notRegistry registryPart = iota
	// registryListing: the version check, the catalogue, tags and referrers.
	registryListing
	registryManifest
	registryBlob
)

// The number of segments: v2, one for the shortest repository name, then what is asked of it.
const (
	shortestItem   = 4 // v2 / name / manifests / reference
	shortestUpload = 5 // v2 / name / blobs / uploads / id
)

func registryKind(p Path) registryPart {
	switch n := len(p.Segments()); {
	case n == 1, n == 2 && p.tail(1) == "_catalog":
		return registryListing
	case n < shortestItem:
		return notRegistry
	case p.tail(2) == "manifests":
		return registryManifest
	case p.tail(2) == "blobs":
		return registryBlob
	case p.tail(2) == "referrers", p.tail(2) == "tags" && p.tail(1) == "list":
		return registryListing
	}
	return notRegistry
}

// isUpload is true of blobs/uploads/ and of blobs/uploads/{id}.
func isUpload(p Path) bool {
	return startsUpload(p) ||
		len(p.Segments()) >= shortestUpload && p.tail(2) == "uploads" && p.tail(3) == "blobs"
}

func startsUpload(p Path) bool {
	return len(p.Segments()) >= shortestItem && p.tail(1) == "uploads" && p.tail(2) == "blobs"
}

// mountSource finds the repository that a blob mount reads from. Registries in Go take the parameters of a form in the
// body before those of the query, and without "from" a registry may look for the blob everywhere.
func mountSource(r *Request) (Path, bool, error) {
	if r.Method != methodPost || !r.Path.isBelow("v2") || !startsUpload(r.Path) {
		return Path{}, false, nil
	}
	if r.FormBody {
		return Path{}, true, nil
	}
	mount, from := lookup(r.RawQuery, "mount"), lookup(r.RawQuery, "from")
	switch {
	case mount.unsure || from.unsure:
		return Path{}, false, errMount
	case mount.value == "":
		return Path{}, false, nil
	case from.value == "":
		return Path{}, true, nil
	}
	return repositoryPath(from.value, "blobs", mount.value)
}

// repositoryPath is the path at which the item would be read: so the rules for reading it apply as written.
func repositoryPath(repository, kind, item string) (Path, bool, error) {
	raw := strings.Builder{}
	raw.WriteString("/v2")
	for name := range strings.SplitSeq(repository, "/") {
		raw.WriteString("/" + url.PathEscape(name))
	}
	raw.WriteString("/" + kind + "/" + url.PathEscape(item))
	path, err := Parse(raw.String())
	if err != nil {
		return Path{}, false, errMount
	}
	return path, true, nil
}
