package quorum

// matching assigns answers to required places, each answer to at most one place. Places are filled in the order in
// which they are added, and a place once filled stays filled: a later one may only move its answer. So the places that
// end up filled are as many as can be, and among equals the earliest.
type matching struct {
	// servedBy[answer] is the place that the answer serves, or -1.
	servedBy []int
	// fits[place] tells which answers may serve the place.
	fits []func(answer int) bool
}

func newMatching(answers int) *matching {
	m := &matching{servedBy: make([]int, answers)}
	for i := range m.servedBy {
		m.servedBy[i] = -1
	}
	return m
}

// add reports whether a new place that takes fitting answers could be filled.
func (m *matching) add(fits func(answer int) bool) bool {
	m.fits = append(m.fits, fits)
	return m.fill(len(m.fits)-1, make([]bool, len(m.servedBy)))
}

// fill looks for an augmenting path from the place (Kuhn's algorithm); tried marks answers seen on the way.
func (m *matching) fill(place int, tried []bool) bool {
	for answer := range m.servedBy {
		if tried[answer] || !m.fits[place](answer) {
			continue
		}
		tried[answer] = true
		if m.servedBy[answer] < 0 || m.fill(m.servedBy[answer], tried) {
			m.servedBy[answer] = place
			return true
		}
	}
	return false
}
