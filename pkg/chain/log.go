package chain

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds on what is kept of logs.
const (
	maxDeeds  = 1024
	maxNamed  = 4096
	maxMoment = 64
)

// deed is one event, or several of the same user after each other.
type deed struct {
	Sighting
	what  Deed
	first time.Time
	count int
	// generation of the object after it, zero if the log does not tell.
	generation int64
	// owner is the controller owner that the object had when it was created.
	owner types.UID
	// received is when the API server got a creation; with At it brackets the object's creation time.
	received time.Time
}

func deedFrom(e *Event, match Match) deed {
	d := deed{Sighting: e.sighting(match), what: e.Deed, first: e.At, count: 1, received: e.Received}
	if e.Object != nil {
		d.generation = e.Object.Generation
		if e.Object.Owner != nil && e.Object.Controller {
			d.owner = e.Object.Owner.UID
		}
	}
	return d
}

// same tells whether two deeds are told as one.
func (d *deed) same(other *deed) bool {
	return d.what == Changed && other.what == Changed && d.User == other.User && d.As == other.As &&
		d.Match == other.Match && d.generation == other.generation
}

// appendDeed adds a deed to the last one if it is the same; false if there is no room.
func appendDeed(to *[]deed, d deed, most int) bool {
	if n := len(*to); n > 0 && (*to)[n-1].same(&d) {
		(*to)[n-1].At = d.At
		(*to)[n-1].count++
		return true
	}
	if len(*to) >= most {
		return false
	}
	*to = append(*to, d)
	return true
}

// nameLog is what happened to a name, over all objects that had it.
type nameLog struct{ deeds []deed }

// AddEvent takes up an event that is about an object of the chain, or may be.
func (f *Facts) AddEvent(e *Event) {
	switch {
	case e.UID != "":
		f.addCertain(e)
	case e.Name != "":
		f.addNamed(e)
	case e.Deed == Created:
		f.addUnnamed(e)
	}
}

func (f *Facts) addCertain(e *Event) {
	switch {
	case e.Request != nil:
		f.AddRequest(e.Request, Logged)
	case e.Answer != nil:
		f.AddAnswer(e.Answer, Logged)
	case e.Object != nil:
		f.AddObject(e.Object, Logged)
	}
	n := f.byUID[e.UID]
	if n == nil {
		if (nameKey{e.Group, e.Resource, e.Namespace, e.Name}) == f.target.key() && e.Object == nil {
			f.seeLife(&Object{Group: e.Group, Resource: e.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID})
		}
		return
	}
	if e.Deed == told {
		return
	}
	if !appendDeed(&n.events, deedFrom(e, ByUID), maxDeeds) {
		f.Note("Of the changes to %s only the first %d are shown.", n.title(), maxDeeds)
	}
}

func (f *Facts) addNamed(e *Event) {
	key := nameKey{e.Group, e.Resource, e.Namespace, e.Name}
	if len(f.names[key]) == 0 {
		return
	}
	log := f.log[key]
	if log == nil {
		log = &nameLog{}
		f.log[key] = log
	}
	if !appendDeed(&log.deeds, deedFrom(e, ByName), maxNamed) {
		f.Note("Of the events about the name %s only the first %d are regarded.", e.Name, maxNamed)
	}
}

func (f *Facts) addUnnamed(e *Event) {
	for _, n := range f.kinds[nameKey{e.Group, e.Resource, e.Namespace, ""}] {
		if n.Created.IsZero() || !e.brackets(n.Created) {
			continue
		}
		if !appendDeed(&n.events, deedFrom(e, ByTime), maxMoment) {
			f.Note("More than %d objects like %s were created in its second.", maxMoment, n.title())
		}
	}
}

// deeds are all that the log tells of an object: what has its UID, what has its name while it was there, and the
// creations without a name in its second.
func (f *Facts) deeds(n *entry) []deed {
	all := slices.Clone(n.events)
	if log := f.log[n.key()]; log != nil {
		all = append(all, f.within(n, log)...)
	}
	return all
}

// within are the deeds of a name that fall into the life of one of the objects that had it.
func (f *Facts) within(n *entry, log *nameLog) []deed {
	deeds := slices.Clone(log.deeds)
	slices.SortStableFunc(deeds, func(a, b deed) int { return a.first.Compare(b.first) })
	birth, begin := f.birth(n, deeds)
	if begin.IsZero() {
		return nil
	}
	var found []deed
	end := f.nextLife(n, deeds, birth, begin)
	for i, d := range deeds {
		born := i == birth || d.what == Created && !n.Created.IsZero() && d.brackets(n.Created)
		lived := d.what != Created && !d.first.Before(begin) && (end.IsZero() || d.first.Before(end))
		if born || lived {
			found = append(found, d)
		}
	}
	return found
}

// birth is the creation of the name that made the object, -1 if the log does not have it, and when the object's life
// begins, zero if that cannot be told.
func (f *Facts) birth(n *entry, deeds []deed) (int, time.Time) {
	birth := -1
	for i := range deeds {
		d := &deeds[i]
		switch {
		case d.what != Created:
		case !n.Created.IsZero():
			if d.brackets(n.Created) {
				birth = i
			}
		case !n.alive.IsZero() && !d.first.Truncate(time.Second).After(n.alive):
			birth = i
		}
	}
	if birth < 0 {
		return -1, n.Created
	}
	return birth, deeds[birth].At
}

func (d *deed) brackets(created time.Time) bool {
	return !created.Before(d.received.Truncate(time.Second)) && !created.After(d.At)
}

// nextLife is when another object took the name; zero if none is known to have.
func (f *Facts) nextLife(n *entry, deeds []deed, birth int, begin time.Time) time.Time {
	var end time.Time
	earlier := func(t time.Time) {
		if t.After(begin) && (end.IsZero() || t.Before(end)) {
			end = t
		}
	}
	for i, d := range deeds {
		if i != birth && d.what == Created {
			earlier(d.first)
		}
	}
	for _, other := range f.names[n.key()] {
		if other != n {
			earlier(other.Created)
		}
	}
	if n == f.target {
		for _, created := range f.lives {
			earlier(created)
		}
	}
	return end
}
