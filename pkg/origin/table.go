package origin

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type edge struct{ child, owner schema.GroupKind }

// table is a Config made for look-ups.
type table struct {
	runs        map[schema.GroupKind]bool
	controllers map[edge][]string
	// toRun holds the kinds from which a run can be reached, runs included.
	toRun map[schema.GroupKind]bool
}

func newTable(c Config) *table {
	t := &table{runs: map[schema.GroupKind]bool{}, controllers: map[edge][]string{}, toRun: map[schema.GroupKind]bool{}}
	for _, run := range c.Runs {
		t.runs[run.groupKind()] = true
		t.toRun[run.groupKind()] = true
	}
	for _, hop := range c.Hops {
		e := edge{hop.Child.groupKind(), hop.Owner.groupKind()}
		t.controllers[e] = append(t.controllers[e], hop.Controllers...)
	}
	// A path has at most as many hops as there are edges.
	for range t.controllers {
		for e := range t.controllers {
			if t.toRun[e.owner] {
				t.toRun[e.child] = true
			}
		}
	}
	return t
}

// leadsToRun tells whether a run may stand at the kind or above it.
func (t *table) leadsToRun(kind schema.GroupKind) bool { return t.toRun[kind] }

// makes tells whether the record says that a controller which makes such children for their owners made the object.
func (t *table) makes(child *Node) bool {
	for e, controllers := range t.controllers {
		if e.child == child.GroupKind() && slices.Contains(controllers, child.CreatedBy) {
			return true
		}
	}
	return false
}

// proves tells whether the child's creator record proves the hop to its owner; otherwise why says what it lacks.
func (t *table) proves(child *Node, since time.Time) (why string, ok bool) {
	owner := child.Owner
	controllers, known := t.controllers[edge{child.GroupKind(), owner.GroupKind()}]
	if !known {
		return fmt.Sprintf("no controller is registered that creates a %s for a %s", child.Kind, owner.Kind), false
	}
	creator, believed := child.Creator(since)
	switch {
	case !believed:
		return fmt.Sprintf("%s has no creator record that can be relied on", child), false
	case !slices.Contains(controllers, creator):
		return fmt.Sprintf("%s was created by %q, not by the controller of %s", child, creator, owner.Kind), false
	case child.CreatedFor != owner.UID:
		return fmt.Sprintf("%s was not created for the %s that it now names as its owner", child, owner.Kind), false
	}
	return "", true
}
