package operation

const (
	uploadPack  = "git-upload-pack"  // the server uploads: clone and fetch
	receivePack = "git-receive-pack" // the server receives: push
)

// gitVerdict knows git's smart and dumb HTTP protocols (gitprotocol-http) and the reads of Git LFS. An LFS batch says only in
// its body whether it downloads or uploads, so it is unknown. A forge's own API and pages are unknown too.
func gitVerdict(r *Request) verdict {
	last := r.Path.tail(1)
	switch {
	case last == receivePack:
		return verdictWrite
	case r.Path.TrailingSlash():
		return verdictUnknown
	case last == uploadPack && r.Method == methodPost:
		return verdictRead
	case last == "refs" && r.Path.tail(2) == "info":
		return gitAdvertisement(r)
	case isFetch(r.Method) && (isDumbGit(r.Path) || isLFS(r.Path)):
		return verdictRead
	}
	return verdictUnknown
}

// gitAdvertisement is info/refs: the first request of every clone and of every push. Without a service it is the dumb
// protocol, which only reads here (its pushes are WebDAV's methods).
func gitAdvertisement(r *Request) verdict {
	service := lookup(r.RawQuery, "service")
	switch {
	case service.unsure, service.value == receivePack:
		return verdictWrite
	case isFetch(r.Method) && (!service.found || service.value == uploadPack):
		return verdictRead
	}
	return verdictUnknown
}

// isDumbGit is HEAD, objects/info/packs, objects/pack/*.pack and objects/ab/cdef...
func isDumbGit(p Path) bool {
	return p.tail(1) == "HEAD" || p.tail(3) == "objects"
}

// isLFS is info/lfs/objects/{id} and info/lfs/locks.
func isLFS(p Path) bool {
	locks := p.tail(1) == "locks" && p.tail(2) == "lfs" && p.tail(3) == "info"
	object := p.tail(2) == "objects" && p.tail(3) == "lfs" && p.tail(4) == "info"
	return locks || object
}
