package origin

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// generations keeps climbs by pod UID, bounded: when the young generation is full, the old one is dropped. A climb that
// is used again moves back among the young.
type generations struct {
	mu         sync.RWMutex
	limit      int
	since      time.Time
	young, old map[types.UID]*scoped
}

func newGenerations(limit int) *generations {
	return &generations{limit: max(1, limit/2), young: map[types.UID]*scoped{}}
}

// get returns a climb that was made with the same trust in creator records.
func (g *generations) get(uid types.UID, since time.Time) (*scoped, bool) {
	g.mu.RLock()
	same := g.since.Equal(since)
	climb, ok := g.young[uid]
	aged, isOld := g.old[uid]
	g.mu.RUnlock()
	switch {
	case !same:
		return nil, false
	case ok:
		return climb, true
	case isOld:
		g.put(uid, since, aged)
	}
	return aged, isOld
}

func (g *generations) put(uid types.UID, since time.Time, climb *scoped) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.since.Equal(since) {
		g.since, g.young, g.old = since, map[types.UID]*scoped{}, nil
	}
	if len(g.young) >= g.limit {
		g.young, g.old = map[types.UID]*scoped{}, g.young
	}
	g.young[uid] = climb
}
