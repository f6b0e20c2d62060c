package token

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// ways is how many tokens with the same low hash bits are kept.
const ways = 8

// cache keeps verified tokens in a table of fixed size. A look-up takes no lock and allocates
// nothing; it compares the whole token, so the hash decides nothing and need not resist more than
// flooding, for which its seed is random.
type cache struct {
	seed maphash.Seed
	mask uint64
	sets []cacheSet
}

type cacheSet struct {
	entries [ways]atomic.Pointer[cacheEntry]

	mu   sync.Mutex // serializes put
	hand int        // where the search for a victim goes on
}

// cacheEntry is one known token with everything that can end it.
type cacheEntry struct {
	hash      uint64
	token     bearer
	identity  *Identity
	validFrom time.Time
	until     time.Time
	// key and keys are nil if the identity rests on no key.
	key  *key
	keys *keySet
	used atomic.Bool
}

// newCache makes room for at least size tokens.
func newCache(size int) *cache {
	sets := uint64(1)
	for sets*ways < uint64(size) {
		sets *= 2
	}
	return &cache{seed: maphash.MakeSeed(), mask: sets - 1, sets: make([]cacheSet, sets)}
}

// get returns the identity of a known token that still counts, or nil.
func (c *cache) get(token string, now time.Time) *Identity {
	hash := maphash.String(c.seed, token)
	set := &c.sets[hash&c.mask]
	for i := range set.entries {
		e := set.entries[i].Load()
		if e == nil || e.hash != hash || !e.token.is(token) {
			continue
		}
		if !e.counts(now) {
			return nil
		}
		if !e.used.Load() {
			e.used.Store(true)
		}
		return e.identity
	}
	return nil
}

// counts reports whether the entry may still be used: its time, its key, and the age of its keys.
func (e *cacheEntry) counts(now time.Time) bool {
	if !now.Before(e.until) || now.Before(e.validFrom) {
		return false
	}
	return e.key == nil || !e.key.withdrawn.Load() && e.keys.fresh(now)
}

// put adds a token, in the place of what is known of it already, of an entry that no longer counts,
// or of one that was not used lately.
func (c *cache) put(token string, e *cacheEntry, now time.Time) {
	e.token = newBearer(token)
	e.hash = maphash.String(c.seed, token)
	set := &c.sets[e.hash&c.mask]
	set.mu.Lock()
	defer set.mu.Unlock()
	set.entries[set.place(e.hash, token, now)].Store(e)
}

func (s *cacheSet) place(hash uint64, token string, now time.Time) int {
	free := -1
	for i := range s.entries {
		known := s.entries[i].Load()
		switch {
		case known == nil:
			free = i
		case known.hash == hash && known.token.is(token):
			return i
		case !known.counts(now):
			free = i
		}
	}
	if free >= 0 {
		return free
	}
	return s.victim()
}

// victim gives every used entry a second chance.
func (s *cacheSet) victim() int {
	for {
		i := s.hand
		s.hand = (s.hand + 1) % ways
		if !s.entries[i].Load().used.Swap(false) {
			return i
		}
	}
}
