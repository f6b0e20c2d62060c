package authz

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"
)

// key identifies a question. It is a cryptographic hash, because callers choose some of what goes in.
type key [sha256.Size]byte

func keyOf(user *UserInfo, attrs *ResourceAttributes) key {
	var room [1024]byte
	b := room[:0]
	for _, field := range [...]string{
		attrs.Verb, attrs.Group, attrs.Version, attrs.Resource, attrs.Subresource, attrs.Namespace, attrs.Name,
		user.Username, user.UID,
	} {
		b = appendText(b, field)
	}
	b = appendList(b, user.Groups)
	b = binary.AppendUvarint(b, uint64(len(user.Extra)))
	for _, name := range slices.Sorted(maps.Keys(user.Extra)) {
		b = appendList(appendText(b, name), user.Extra[name])
	}
	return sha256.Sum256(b)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendList(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, text := range list {
		b = appendText(b, text)
	}
	return b
}

type answer struct {
	allowed bool
	reason  string
	until   time.Time
}

// answers are bounded: when the young are full, the old are dropped.
type answers struct {
	mu         sync.RWMutex
	limit      int
	young, old map[key]answer
}

func newAnswers(limit int) *answers {
	return &answers{limit: max(1, limit/2), young: map[key]answer{}}
}

func (a *answers) get(k key, now time.Time) (answer, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	found, ok := a.young[k]
	if !ok {
		found, ok = a.old[k]
	}
	return found, ok && now.Before(found.until)
}

func (a *answers) put(k key, found answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.young) >= a.limit {
		a.young, a.old = map[key]answer{}, a.young
	}
	a.young[k] = found
}
