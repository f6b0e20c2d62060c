package token

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func entryUntil(until time.Time) *cacheEntry {
	return &cacheEntry{identity: &Identity{Username: "ada"}, until: until}
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache(64)
	for i := range 10_000 {
		c.put(fmt.Sprint("token-", i), entryUntil(epoch.Add(time.Hour)), epoch)
	}
	kept := 0
	for i := range 10_000 {
		if c.get(fmt.Sprint("token-", i), epoch) != nil {
			kept++
		}
	}
	assert.Equal(t, 64, kept)
}

func TestCachePrefersWhatIsUsed(t *testing.T) {
	c := newCache(ways)
	for i := range ways {
		c.put(fmt.Sprint("token-", i), entryUntil(epoch.Add(time.Hour)), epoch)
	}
	require.NotNil(t, c.get("token-0", epoch))
	for i := range ways - 1 {
		c.put(fmt.Sprint("new-", i), entryUntil(epoch.Add(time.Hour)), epoch)
	}
	assert.NotNil(t, c.get("token-0", epoch), "the one that was used stays")
	assert.Nil(t, c.get("token-1", epoch))
}

func TestCacheGivesExpiredPlacesAway(t *testing.T) {
	c := newCache(ways)
	for i := range ways {
		until := epoch.Add(time.Hour)
		if i == 3 {
			until = epoch.Add(time.Minute)
		}
		c.put(fmt.Sprint("token-", i), entryUntil(until), epoch)
	}
	later := epoch.Add(2 * time.Minute)
	c.put("new", entryUntil(epoch.Add(time.Hour)), later)
	for i := range ways {
		assert.Equal(t, i != 3, c.get(fmt.Sprint("token-", i), later) != nil, "token-%d", i)
	}
	assert.NotNil(t, c.get("new", later))
}

func TestCacheReplacesTheSameToken(t *testing.T) {
	c := newCache(ways)
	c.put("token", entryUntil(epoch.Add(time.Minute)), epoch)
	later := epoch.Add(2 * time.Minute)
	assert.Nil(t, c.get("token", later))
	c.put("token", entryUntil(epoch.Add(time.Hour)), later)
	assert.NotNil(t, c.get("token", later))
}

func TestCacheComparesTheWholeToken(t *testing.T) {
	c := newCache(1)
	c.put("token", entryUntil(epoch.Add(time.Hour)), epoch)
	// An equal hash must not be enough.
	for i := range c.sets[0].entries {
		if e := c.sets[0].entries[i].Load(); e != nil {
			e.token = newBearer("tokem")
		}
	}
	assert.Nil(t, c.get("token", epoch))
}

func TestCacheUnderConcurrency(t *testing.T) {
	c := newCache(64)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 2000 {
				name := fmt.Sprint("token-", (i*7+worker)%200)
				e := entryUntil(epoch.Add(time.Hour))
				e.identity = &Identity{Username: name}
				c.put(name, e, epoch)
				if id := c.get(name, epoch); id != nil && id.Username != name {
					t.Errorf("%s yields %s", name, id.Username)
				}
			}
		})
	}
	all.Wait()
}
