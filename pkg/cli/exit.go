package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Exit codes of every verb.
const (
	// ExitDone means that what was asked for is done: asked, answered, granted, allowed.
	ExitDone = 0
	// ExitError is everything that has no code of its own.
	ExitError = 1
	// ExitUsage means that the command line cannot be understood; nothing was done.
	ExitUsage = 2
	// ExitDenied means that the server refused, a check rejected, or the request ended without a grant.
	ExitDenied = 3
	// ExitPending means that the answer is still open.
	ExitPending = 4
	// ExitNotFound means that nothing of that name is there.
	ExitNotFound = 5
)

// codes are exit codes with what they mean.
type codes map[int]string

// commonCodes are those that every verb may return, in words for a verb that has none of its own.
var commonCodes = codes{ExitDone: "done", ExitError: "error", ExitUsage: "usage", ExitDenied: "refused"}

// exits is the last line of a help text: the common codes, and those that a verb has its own words for.
func exits(own codes) string {
	all := maps.Clone(commonCodes)
	maps.Copy(all, own)
	texts := make([]string, 0, len(all))
	for _, code := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, fmt.Sprintf("%d %s", code, all[code]))
	}
	return "\n\nExit codes: " + strings.Join(texts, ", ") + "."
}

// failure is an error with an exit code. An empty text means that the user was told already.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

func fail(code int, format string, args ...any) error {
	return &failure{code: code, text: fmt.Sprintf(format, args...)}
}

func usage(format string, args ...any) error { return fail(ExitUsage, format, args...) }

// told ends the program with a code after the user has read why.
func told(code int) error {
	if code == ExitDone {
		return nil
	}
	return &failure{code: code}
}

// asFailure gives every error of a verb a code and one sentence.
func asFailure(err error) error {
	var known *failure
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &failure{code: codeOf(err), text: sentence(err)}
}

func codeOf(err error) int {
	var known *failure
	switch {
	case errors.As(err, &known):
		return known.code
	case apierrors.IsNotFound(err):
		return ExitNotFound
	case apierrors.IsForbidden(err), refusedByAdmission(err):
		return ExitDenied
	}
	return ExitError
}
