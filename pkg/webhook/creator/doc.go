// Package creator does by webhooks what the mutating admission policies do, in clusters whose API server has none: it
// writes the creator record, keeps what marks a check, and keeps owner references and finalizers the server's.
//
// What each sets, and why, is said by the policies in config/policies: creator-record, request-label and ownership. Both
// ways must end in the same objects; one suite of tests holds both to it. What request-label and ownership set is
// asserted by their validating policies in either case, the record by a validating webhook here.
package creator
