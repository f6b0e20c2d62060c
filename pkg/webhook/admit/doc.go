// Package admit is what the admission webhooks of all kinds share: who calls, how a refusal is put, and how an object
// is completed or put back without touching what the client wrote.
//
// Every kind is admitted twice: a mutating step completes the object, a validating one asserts the same again, because
// another webhook may have changed it in between.
package admit
