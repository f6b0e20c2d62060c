package directory

import "time"

// UnavailableError says that the directory did not answer: neither a yes nor a no, so whoever asked waits.
type UnavailableError struct {
	// Why is one sentence for people, without secrets.
	Why string
	// RetryAfter is when asking again makes sense; zero is left to the caller. Cached always sets it.
	RetryAfter time.Duration
	// OnlyThis says that the directory works, but not for this name: others are asked for all the same.
	OnlyThis bool

	cause error
}

// Error implements error.
func (e *UnavailableError) Error() string { return e.Why }

// Unwrap is what the implementation or the context said; nil if there is no more to say than Why.
func (e *UnavailableError) Unwrap() error { return e.cause }
