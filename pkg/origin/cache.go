package origin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// recheckEvery is how often kinds that are not installed are looked for.
const recheckEvery = 15 * time.Second

// Change is one change of an object that a Cache saw; Old is nil when it appeared, New when it vanished.
type Change struct{ Old, New *Node }

// Cache is a Source that watches. It keeps one Node for each object of the kinds that climbs read. A kind whose CRD
// appears later is picked up without a restart.
type Cache struct {
	client   dynamic.Interface
	mapper   apimeta.RESTMapper
	clock    clock.WithTicker
	kinds    []schema.GroupKind
	stores   map[schema.GroupKind]*store
	handlers []func(Change)
	recheck  chan struct{}
	// looked tells that every kind was looked up once, so that it is known which must be synced.
	looked atomic.Bool
	// synced stays once it is true.
	synced atomic.Bool
}

// NewCache returns a Cache for the kinds of the table. The mapper must find kinds that were installed after it was made.
func NewCache(clock clock.WithTicker, client dynamic.Interface, mapper apimeta.RESTMapper, config Config) *Cache {
	c := &Cache{
		client: client, mapper: mapper, clock: clock, kinds: config.Kinds(),
		stores: map[schema.GroupKind]*store{}, recheck: make(chan struct{}, 1),
	}
	for _, kind := range c.kinds {
		c.stores[kind] = newStore(c.changed)
	}
	return c
}

// OnChange registers a handler. It must be called before Start; handlers are called in order, one change of a kind at a
// time, and must not block.
func (c *Cache) OnChange(handler func(Change)) { c.handlers = append(c.handlers, handler) }

func (c *Cache) changed(change Change) {
	for _, handler := range c.handlers {
		handler(change)
	}
}

// Get implements Source from what was watched. It is ErrNotFound if the object has not been seen, although it may exist
// by now, and ErrUnobserved while its kind is not synced or not watched at all.
func (c *Cache) Get(_ context.Context, kind schema.GroupKind, namespace, name string) (*Node, error) {
	s, watched := c.stores[kind]
	if !watched || !s.synced.Load() {
		return nil, fmt.Errorf("%s %s/%s: %w", kind.Kind, namespace, name, ErrUnobserved)
	}
	node, ok := s.get(namespace, name)
	if !ok {
		return nil, fmt.Errorf("%s %s/%s: %w", kind.Kind, namespace, name, ErrNotFound)
	}
	return node, nil
}

// HasSynced tells that every kind that was installed at the start has been listed once. A kind that is installed later
// does not take that back, even if it can never be listed: Get says ErrUnobserved of it alone, and all else goes on.
func (c *Cache) HasSynced() bool {
	if c.synced.Load() {
		return true
	}
	if !c.looked.Load() {
		return false
	}
	for _, s := range c.stores {
		if s.started.Load() && !s.synced.Load() {
			return false
		}
	}
	c.synced.Store(true)
	return true
}

// Refresh looks for missing kinds now: to be called when a CRD appeared.
func (c *Cache) Refresh() {
	select {
	case c.recheck <- struct{}{}:
	default:
	}
}

// NeedLeaderElection tells a manager that every replica watches.
func (*Cache) NeedLeaderElection() bool { return false }

// Start watches until the context ends. It implements manager.Runnable.
func (c *Cache) Start(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	ticker := c.clock.NewTicker(recheckEvery)
	defer ticker.Stop()
	for {
		c.lookUp(ctx, &watching)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		case <-c.recheck:
		}
	}
}

// lookUp starts watching the kinds that have been installed since. A kind that cannot be looked up now counts as
// installed, because it may be.
func (c *Cache) lookUp(ctx context.Context, watching *sync.WaitGroup) {
	sure := true
	for _, kind := range c.kinds {
		s := c.stores[kind]
		if s.started.Load() {
			continue
		}
		mapping, err := c.mapper.RESTMapping(kind)
		switch {
		case err == nil:
			s.started.Store(true)
			watching.Go(func() { s.watch(ctx, c.client, mapping) })
		case !apimeta.IsNoMatchError(err):
			ctrl.LoggerFrom(ctx).Error(err, "a kind of runs could not be looked up", "kind", kind.String())
			sure = false
		}
	}
	if sure {
		c.looked.Store(true)
	}
}
