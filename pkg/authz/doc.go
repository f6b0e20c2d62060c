// Package authz asks the API server whether somebody may do something, by SubjectAccessReview with all that is known of
// him, and remembers the answer for a short and bounded time.
//
// An error is a no: whoever cannot be shown to be allowed is not.
package authz
