package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// MendRetry is how long to wait after an error that only a person can mend.
const MendRetry = 30 * time.Second

// maxReason cuts what an error of the network says, in runes.
const maxReason = 400

// The answers that every directory gives in the same words.
var (
	ErrAbsent    error = &directory.UnknownError{Why: "the directory has no entry with this name"}
	ErrDisabled  error = &directory.UnknownError{Why: "the directory has disabled the entry with this name"}
	ErrDuplicate error = &directory.UnknownError{Why: "the directory has more than one entry with this name: leave the name to one of them"}
	ErrSpelling  error = &directory.UnknownError{Why: "the directory holds this name only in another spelling: names are compared exactly, unless caseInsensitive is set"}
)

// ErrTooMany is no answer: the directory handed out MaxCandidates entries for one name, and has more.
var ErrTooMany error = &directory.UnavailableError{OnlyThis: true, RetryAfter: MendRetry, Why: "the directory hands out too many entries for one name: check that it searches by the configured attribute, and that this attribute tells people apart"}

// Mend is no answer, and there will be none before somebody does what the sentence says.
func Mend(format string, arguments ...any) error {
	return &directory.UnavailableError{Why: fmt.Sprintf(format, arguments...), RetryAfter: MendRetry}
}

// Unanswered says that the context ended first.
func Unanswered(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil {
		cause = context.DeadlineExceeded // a call saw the deadline before the context did
	}
	return fmt.Errorf("the directory did not answer in time: %w", cause)
}

// Unreachable is no answer, for a reason of the network: asking again may help.
func Unreachable(format string, arguments ...any) error {
	return &directory.UnavailableError{Why: plaintext.Line(fmt.Sprintf(format, arguments...), maxReason)}
}

// Senseless is no answer, but the directory gave one: what it said of this name cannot be used. Asking again may help.
func Senseless(format string, arguments ...any) error {
	return &directory.UnavailableError{Why: plaintext.Line(fmt.Sprintf(format, arguments...), maxReason), OnlyThis: true}
}

// Answered tells whether the directory said yes or no.
func Answered(err error) bool { return err == nil || errors.Is(err, directory.ErrUnknown) }
