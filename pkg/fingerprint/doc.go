// Package fingerprint computes the canonical identity of a question: which object, whose use, in which context.
//
// Whoever decides computes it from what was authenticated; nobody reads it from a label. The package is pure: no
// client, no I/O, no clock.
//
// A fingerprint is SHA-256 over a version tag and length-prefixed fields, so that no two different questions share one
// by moving a character from one field into the next. Kinds enter by group and kind, never by version, because the same
// object is reached through several versions.
package fingerprint
