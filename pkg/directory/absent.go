package directory

import (
	"context"
	"time"
)

// absentRetry is how soon it may be worth asking a directory that is not there.
const absentRetry = time.Minute

// Absent is a Directory that never answers; its text says why.
type Absent string

// Lookup implements Directory.
func (a Absent) Lookup(context.Context, string) (*Person, error) {
	return nil, &UnavailableError{Why: string(a), RetryAfter: absentRetry}
}
