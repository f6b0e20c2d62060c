package chain

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxLives bounds how many objects of a name are told apart.
const maxLives = 10_000

// Finder finds the objects that had a name, in logs and archives.
type Finder struct {
	// Word names the kind as people do: its kind or plural, in any case. Group is empty for any.
	Word, Group     string
	Namespace, Name string

	byUID  map[types.UID]*life
	births []*Event
}

// life is one object that had the name. Created is zero if it is not known.
type life struct {
	Object
	first, last time.Time
}

// AddObject takes up an object, or a reference to one, that has the name. at is when it was there.
func (f *Finder) AddObject(o *Object, at time.Time) {
	if o.UID == "" || !f.matches(o) {
		return
	}
	if f.byUID == nil {
		f.byUID = map[types.UID]*life{}
	}
	l := f.byUID[o.UID]
	if l == nil && len(f.byUID) >= maxLives {
		return
	}
	if l == nil {
		l = &life{Object: *o, first: at, last: at}
		f.byUID[o.UID] = l
	}
	if l.Created.IsZero() && !o.Created.IsZero() || l.Kind == "" {
		l.Object = *o
	}
	if at.Before(l.first) {
		l.first = at
	}
	if at.After(l.last) {
		l.last = at
	}
}

// AddEvent takes up an event about the name.
func (f *Finder) AddEvent(e *Event) {
	o := e.Object
	if o == nil {
		o = &Object{Group: e.Group, Resource: e.Resource, Kind: kindOf(e.Resource), Namespace: e.Namespace, Name: e.Name, UID: e.UID}
	}
	switch {
	case e.UID != "":
		f.AddObject(o, e.At)
	case e.Deed == Created && f.matches(o):
		if len(f.births) >= maxLives { // the last ones are asked for
			f.births = slices.Delete(f.births, 0, maxLives/2)
		}
		f.births = append(f.births, e)
	}
}

func (f *Finder) matches(o *Object) bool {
	return o.Name == f.Name && o.Is(f.Word) && (f.Group == "" || o.Group == f.Group) &&
		(o.Namespace == f.Namespace || o.Namespace == "")
}

// Lives are the objects that had the name, in the order of their creation. An object without a UID is known by a
// creation in the log only; its creation time is that of the event.
func (f *Finder) Lives() []*Object {
	slices.SortStableFunc(f.births, func(a, b *Event) int { return a.At.Compare(b.At) })
	taken := make([]bool, len(f.births))
	begun := map[*Object]time.Time{}
	var lives []*Object
	for _, uid := range slices.Sorted(maps.Keys(f.byUID)) {
		l := f.byUID[uid]
		if at := f.birthOf(l); at >= 0 {
			taken[at] = true
			if l.Created.IsZero() {
				l.Created = f.births[at].At
			}
		}
		lives = append(lives, &l.Object)
		begun[&l.Object] = l.first
	}
	for i, birth := range f.births {
		if !taken[i] {
			lives = append(lives, f.nameless(birth))
		}
	}
	slices.SortStableFunc(lives, func(a, b *Object) int {
		return cmp.Or(a.Created.Compare(b.Created), begun[a].Compare(begun[b]))
	})
	return lives
}

// birthOf is the creation that a life began with: the one in its second, else the last before it was seen.
func (f *Finder) birthOf(l *life) int {
	found := -1
	for i, birth := range f.births {
		if birth.Group != l.Group {
			continue
		}
		if !l.Created.IsZero() {
			if birth.brackets(l.Created) {
				return i
			}
			continue
		}
		if !birth.At.After(l.first) {
			found = i
		}
	}
	return found
}

func (f *Finder) nameless(birth *Event) *Object {
	return &Object{
		Group: birth.Group, Resource: birth.Resource, Namespace: birth.Namespace, Name: birth.Name,
		Kind: kindOf(birth.Resource), Created: birth.At,
	}
}

// Groups are the API groups of the objects found, sorted; with several the name is ambiguous.
func Groups(lives []*Object) []string {
	groups := map[string]bool{}
	for _, o := range lives {
		groups[o.Group] = true
	}
	return slices.Sorted(maps.Keys(groups))
}
