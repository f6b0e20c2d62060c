package source

// Choice finds the only one among the entries that a directory hands out for a name. T is what a look-up needs of an entry.
type Choice[T any] struct {
	seen     map[string]bool
	accepted []T
	refused  error
}

// errRepeated is no answer: the entries moved between two pages, or there is but one page, shown again and again.
var errRepeated = Senseless("the directory showed the same entry twice in one list, so the list may lack another one")

// See counts an entry that the directory handed out under a name that it takes for the one that was asked for.
func (c *Choice[T]) See(id string) error {
	if c.seen[id] {
		return errRepeated
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.seen[id] = true
	return nil
}

// Seen is how many entries were counted.
func (c *Choice[T]) Seen() int { return len(c.seen) }

// Accept takes an entry that has exactly the name.
func (c *Choice[T]) Accept(entry T) { c.accepted = append(c.accepted, entry) }

// Refuse notes why an entry that has exactly the name does not count. It is the answer if no other counts.
func (c *Choice[T]) Refuse(why error) { c.refused = why }

// Twice tells that further entries change nothing.
func (c *Choice[T]) Twice() bool { return len(c.accepted) > 1 }

// Full tells that the directory hands out more than makes sense.
func (c *Choice[T]) Full() bool { return c.Seen() >= MaxCandidates }

// One is the answer when everything was seen, or Twice.
func (c *Choice[T]) One() (T, error) {
	var none T
	switch {
	case len(c.accepted) == 1:
		return c.accepted[0], nil
	case len(c.accepted) > 1:
		return none, ErrDuplicate
	case c.refused != nil:
		return none, c.refused
	case c.Seen() > 0:
		return none, ErrSpelling
	}
	return none, ErrAbsent
}
