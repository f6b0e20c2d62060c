// Package creates measures what it costs an API server to record who creates an object: without a record, with the
// policies that write it, and with the webhooks that write it where there are no mutating policies. The API server is one
// of its own, so that nothing else asks it.
package creates
