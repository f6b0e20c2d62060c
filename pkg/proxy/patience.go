package proxy

import (
	"net/http"
	"time"
)

// leave keeps a caller from holding the connection by what is left of a body that nobody reads: net/http waits for it
// before it answers. Reading the next request sets a deadline of its own.
func (c *call) leave() {
	if c.r.ContentLength == 0 || c.stalled.Load() || c.cut.Load() != nil {
		return
	}
	// A connection that knows no deadlines is none of net/http's, or was upgraded.
	_ = http.NewResponseController(c.ResponseWriter).SetReadDeadline(time.Now().Add(c.patience))
}

// hasten writes an answer of our own, which no stream supervises: a caller that does not accept it is left. net/http takes
// the deadline back when the answer has been sent.
func (c *call) hasten(write func()) {
	// Twice, because the answer is sent only after what is left of the body.
	_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(time.Now().Add(2 * c.patience))
	write()
}
