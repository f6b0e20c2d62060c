package rewrite

import (
	"net/url"
	"strings"
)

// MountSource takes the connector's prefix off the source of a cross-repository blob mount (OCI distribution
// specification, "Mounting a blob from another repository"): the client names it as it names the target.
// A source that lies elsewhere cannot be mounted; then mount and from are taken away, and the registry starts a plain upload, which is what
// the specification has for registries that cannot mount. Every other query comes back byte for byte.
func MountSource(rawQuery, repositoryPrefix string) string {
	if repositoryPrefix == "" || !strings.Contains(rawQuery, "mount") {
		return rawQuery
	}
	pairs := strings.Split(rawQuery, "&")
	for i, pair := range pairs {
		if key, _ := split(pair); key != "from" {
			continue
		}
		_, from := split(pair)
		source, inside := strings.CutPrefix(from, repositoryPrefix)
		if !inside {
			return without(pairs, "mount", "from")
		}
		pairs[i] = "from=" + url.QueryEscape(source)
	}
	return strings.Join(pairs, "&")
}

// split decodes a pair; what cannot be decoded is nobody's key.
func split(pair string) (key, value string) {
	rawKey, rawValue, _ := strings.Cut(pair, "=")
	key, err := url.QueryUnescape(rawKey)
	if err != nil {
		return "", ""
	}
	value, err = url.QueryUnescape(rawValue)
	if err != nil {
		return key, ""
	}
	return key, value
}

func without(pairs []string, dropped ...string) string {
	kept := make([]string, 0, len(pairs))
	for _, pair := range pairs {
		key, _ := split(pair)
		if key != dropped[0] && key != dropped[1] {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}
