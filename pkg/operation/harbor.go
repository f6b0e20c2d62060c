package operation

import "strings"

// harborVerdict is the registry's table on /v2, the token service, and Harbor's own API by method.
func harborVerdict(r *Request) verdict {
	switch {
	case r.Path.isBelow("v2"):
		return registryVerdict(r)
	case r.Path.isBelow("service", "token") && len(r.Path.Segments()) == 2 && r.Method == methodGet:
		return verdictRead
	case r.Path.isBelow("api", "v2.0"):
		if isFetch(r.Method) {
			return verdictRead
		}
		return verdictWrite
	}
	return verdictUnknown
}

// harborSource adds Harbor's own copying of an artifact (POST .../repositories/{name}/artifacts?from=project/name:tag) to the
// registry's mounts: it also writes one repository and reads another.
func harborSource(r *Request) (Path, bool, error) {
	if !isArtifactCopy(r) {
		return mountSource(r)
	}
	from := lookup(r.RawQuery, "from")
	switch {
	case from.unsure:
		return Path{}, false, errCopy
	case from.value == "":
		return Path{}, false, nil
	}
	repository, reference, found := cutReference(from.value)
	if !found {
		return Path{}, false, errCopy
	}
	path, found, err := repositoryPath(repository, "manifests", reference)
	if err != nil {
		return Path{}, false, errCopy
	}
	return path, found, nil
}

var errCopy = refusal{"the copy of an artifact names its source unclearly; send from once, as project/repository:tag or project/repository@digest"}

func isArtifactCopy(r *Request) bool {
	return r.Method == methodPost && r.Path.isBelow("api", "v2.0", "projects") &&
		r.Path.tail(1) == "artifacts" && r.Path.tail(3) == "repositories"
}

// cutReference splits a digest off before a tag, because a digest has a colon too.
func cutReference(name string) (repository, reference string, found bool) {
	if repository, reference, found = strings.Cut(name, "@"); found {
		return repository, reference, found
	}
	i := strings.LastIndex(name, ":")
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}
