package gate

import "sync/atomic"

// changes wakes whoever must decide anew. A waiter takes the channel, decides, and waits for it to close; a
// change between the two is not missed, because the channel was taken first.
type changes struct {
	current atomic.Pointer[chan struct{}]
}

func newChanges() *changes {
	c := &changes{}
	first := make(chan struct{})
	c.current.Store(&first)
	return c
}

// Next returns a channel that closes at the next change.
func (c *changes) Next() <-chan struct{} { return *c.current.Load() }

// Happened closes the present channel.
func (c *changes) Happened() {
	next := make(chan struct{})
	close(*c.current.Swap(&next))
}
