package gate

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
)

// shards is a power of two: a write copies one shard, so at 100,000 entries it copies about a hundred.
const shards = 1024

// cowMap is a map whose readers take no lock: each shard is replaced as a whole.
type cowMap[K comparable, V any] struct {
	seed   maphash.Seed
	mu     sync.Mutex
	shards [shards]atomic.Pointer[map[K]V]
}

func newCowMap[K comparable, V any]() *cowMap[K, V] {
	return &cowMap[K, V]{seed: maphash.MakeSeed()}
}

func (m *cowMap[K, V]) shard(key K) *atomic.Pointer[map[K]V] {
	return &m.shards[maphash.Comparable(m.seed, key)&(shards-1)]
}

// Get returns the value of a key.
func (m *cowMap[K, V]) Get(key K) (V, bool) {
	if current := m.shard(key).Load(); current != nil {
		value, ok := (*current)[key]
		return value, ok
	}
	var zero V
	return zero, false
}

// Update replaces the value of a key by what change returns; false removes the key.
func (m *cowMap[K, V]) Update(key K, change func(old V) (V, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	shard := m.shard(key)
	next := map[K]V{}
	if current := shard.Load(); current != nil {
		next = maps.Clone(*current)
	}
	if value, keep := change(next[key]); keep {
		next[key] = value
	} else {
		delete(next, key)
	}
	shard.Store(&next)
}

// Set sets the value of a key.
func (m *cowMap[K, V]) Set(key K, value V) {
	m.Update(key, func(V) (V, bool) { return value, true })
}

// Delete removes a key.
func (m *cowMap[K, V]) Delete(key K) {
	m.Update(key, func(old V) (V, bool) { return old, false })
}

// Each visits every entry, in no order, as each shard stands when it is reached.
func (m *cowMap[K, V]) Each(visit func(K, V)) {
	for i := range m.shards {
		if current := m.shards[i].Load(); current != nil {
			for key, value := range *current {
				visit(key, value)
			}
		}
	}
}
