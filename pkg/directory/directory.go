// Package directory looks people up in the organisation's source of people (SSO).
//
// One interface, one folder per implementation: static, ldap, keycloak, scim, openshift. What callers use is a Directory
// wrapped by New, which caches, merges, bounds and counts.
package directory

import (
	"context"
	"errors"
)

// Person is somebody whom the directory knows and who may still log in.
type Person struct {
	// UID is the directory's own identifier, stable when names change; empty if it has none.
	UID string
	// DisplayName and Email are for people; either may be empty.
	DisplayName string
	Email       string
}

// Directory is one source of people. A name is opaque: any UTF-8 text of 1 to 4096 bytes, compared exactly.
type Directory interface {
	// Lookup finds the person with exactly this user name. It returns ErrUnknown when the directory answered that
	// nobody enabled has the name: absent, disabled, deleted, or more than one. Any other error means that the directory
	// did not answer; that is neither a yes nor a no. Its text is one sentence for people, without secrets, and is shown
	// to whoever waits for the answer. An error for which asking again at once is useless or harmful (wrong credentials,
	// "too many requests") is an *UnavailableError with RetryAfter set: then this look-up does not try again. One that
	// concerns no other name is an *UnavailableError with OnlyThis set.
	//
	// It is called concurrently, and should return soon after the context ended.
	Lookup(ctx context.Context, username string) (*Person, error)
}

// ErrUnknown is the directory's answer that it knows no such person.
var ErrUnknown = errors.New("the directory knows no such person")

// UnknownError is ErrUnknown with the directory's reason in one sentence for people, free of other people's data.
type UnknownError struct{ Why string }

// Error implements error.
func (e *UnknownError) Error() string { return e.Why }

// Is makes errors.Is(err, ErrUnknown) true.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }
