package origin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// maxHops bounds a climb: owner references may form a circle.
const maxHops = 16

// climbTimeout bounds a climb that several callers wait for.
const climbTimeout = 5 * time.Second

// defaultClimbs is how many climbs are kept.
const defaultClimbs = 32_768

// Climb is the way up from a pod or run.
type Climb struct {
	// Resource is the context: the run that an approval is reused for, or the pod itself.
	Resource *Node
	// Hops begin with the object where the climb began; never empty. They are what was seen when the climb was made:
	// identities stay true, Deleting and Finished do not, so ask the Source for those.
	Hops []Hop
	// Stopped says, in a sentence, why an owner that the last object names does not count; empty if it names none, or
	// if no run can stand above it.
	Stopped string
}

// Hop is one object of a climb.
type Hop struct {
	Node *Node
	// Proven tells that the hop upwards from here is proven by the creator record.
	Proven bool
	// Why says what the proof lacks; empty if there is nothing to prove.
	Why string
	// Detached tells that the climb ends here although a registered controller made the object: so it was made for an
	// owner, and whoever made that one is behind it, but nothing proven leads there. Anybody who may edit the object can
	// take its owner reference off, or have the owner deleted and the object kept.
	Detached bool
}

// Climber climbs. Whole climbs from pods are kept, because creator records never change; concurrent ones are merged.
type Climber struct {
	source Source
	table  *table
	since  func() time.Time
	kept   *generations
	flight singleflight.Group
}

// Option changes a Climber.
type Option func(*Climber)

// WithClimbs sets how many climbs are kept.
func WithClimbs(n int) Option {
	return func(c *Climber) { c.kept = newGenerations(n) }
}

// NewClimber returns a Climber. since returns the moment from which on creator records are believed; zero means none is.
func NewClimber(source Source, config Config, since func() time.Time, options ...Option) *Climber {
	c := &Climber{source: source, table: newTable(config), since: since, kept: newGenerations(defaultClimbs)}
	for _, option := range options {
		option(c)
	}
	return c
}

// Climb finds the context of a pod, known by its UID: the topmost proven run, the lowest one, or the pod itself, as the
// scope says; an unknown scope is the narrowest. The error Is ErrNotFound if the pod is not there, ErrUnobserved if some
// owner could not be seen: then nobody knows the context yet.
func (c *Climber) Climb(ctx context.Context, pod types.NamespacedName, uid types.UID, scope connectorsv1alpha1.ContextScope) (*Climb, error) {
	since := c.since()
	found, ok := c.kept.get(uid, since)
	if !ok {
		var err error
		if found, err = c.merged(ctx, pod, uid, since); err != nil {
			return nil, err
		}
	}
	return found.within(scope), nil
}

// merged climbs once for all who ask at the same time. One caller's hurry must not end the climb of the others.
func (c *Climber) merged(ctx context.Context, pod types.NamespacedName, uid types.UID, since time.Time) (*scoped, error) {
	result := c.flight.DoChan(string(uid)+" "+pod.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), climbTimeout)
		defer cancel()
		climb, err := c.fromPod(ctx, pod, uid, since)
		if err != nil {
			return nil, err
		}
		found := inScopes(c.table, climb)
		c.kept.put(uid, since, found)
		return found, nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("the origin of pod %s is still being looked up: %w", pod, ErrUnobserved)
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*scoped), nil
	}
}

func (c *Climber) fromPod(ctx context.Context, pod types.NamespacedName, uid types.UID, since time.Time) (*Climb, error) {
	node, err := c.source.Get(ctx, PodKind, pod.Namespace, pod.Name)
	if err != nil {
		return nil, err
	}
	if node.UID != uid {
		return nil, fmt.Errorf("the pod %s is another one than the token was made for: %w", pod, ErrNotFound)
	}
	return c.climb(ctx, node, since, c.table.leadsToRun)
}

// ClimbFrom climbs from any object as far as hops are proven, past the context: it shows who created every object that
// a run came from. The Resource is the topmost run on the way, the object itself if there is none. The Source must know
// all kinds of the table: NewLive does, a Cache only those of Config.Kinds.
func (c *Climber) ClimbFrom(ctx context.Context, node *Node) (*Climb, error) {
	everything := func(schema.GroupKind) bool { return true }
	climb, err := c.climb(ctx, node, c.since(), everything)
	if err != nil {
		return nil, err
	}
	return &inScopes(c.table, climb).run, nil
}

// climb goes up while the next kind is wanted.
func (c *Climber) climb(ctx context.Context, node *Node, since time.Time, wanted func(schema.GroupKind) bool) (*Climb, error) {
	climb := &Climb{}
	for len(climb.Hops) < maxHops {
		if node.Owner == nil || !wanted(node.Owner.GroupKind()) {
			climb.Hops = append(climb.Hops, Hop{Node: node, Detached: node.Owner == nil && c.table.makes(node)})
			return climb, nil
		}
		why, proven := c.table.proves(node, since)
		climb.Hops = append(climb.Hops, Hop{Node: node, Proven: proven, Why: why, Detached: !proven && c.table.makes(node)})
		if !proven {
			unprovenHops.Inc()
			climb.Stopped = why
			return climb, nil
		}
		owner, err := c.owner(ctx, node)
		if err != nil {
			return nil, err
		}
		node = owner
	}
	return nil, fmt.Errorf("the owners of %s go up more than %d levels: %w", climb.Hops[0].Node, maxHops, ErrUnobserved)
}

// owner reads a proven owner. One that is not there is either not seen yet or gone, and then garbage collection is on
// its way to the child: either way a narrower context would be wrong.
func (c *Climber) owner(ctx context.Context, child *Node) (*Node, error) {
	name := child.Owner.Kind + " " + child.Namespace + "/" + child.Owner.Name
	owner, err := c.source.Get(ctx, child.Owner.GroupKind(), child.Namespace, child.Owner.Name)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%s, the owner of %s, is gone or %w", name, child, ErrUnobserved)
	}
	if err != nil {
		return nil, err
	}
	if owner.UID != child.Owner.UID {
		return nil, fmt.Errorf("%s is another one than the owner of %s, which is gone or %w", name, child, ErrUnobserved)
	}
	return owner, nil
}

// scoped is one climb with the context of every scope, made once so that a decision allocates nothing.
type scoped struct{ run, task, pod Climb }

// inScopes finds the contexts. Only proven hops lead to what stands behind them, so every object in Hops is on the
// proven way.
func inScopes(t *table, climb *Climb) *scoped {
	climb.Resource = climb.Hops[0].Node
	s := &scoped{run: *climb, task: *climb, pod: *climb}
	lowest := true
	for _, hop := range climb.Hops {
		if !t.runs[hop.Node.GroupKind()] {
			continue
		}
		s.run.Resource = hop.Node
		if lowest {
			s.task.Resource = hop.Node
			lowest = false
		}
	}
	return s
}

func (s *scoped) within(scope connectorsv1alpha1.ContextScope) *Climb {
	switch scope {
	case connectorsv1alpha1.ContextScopeRun, "":
		return &s.run
	case connectorsv1alpha1.ContextScopeTask:
		return &s.task
	}
	return &s.pod
}
