// Package decision says whether a use is allowed now, and folds the answers of checks into a request.
//
// It is pure: no client, no I/O, no clock of its own. What it decides on is compact (Rule, Request), made once from each
// stored object by FromRule and FromRequest, so that Decide neither allocates nor parses when it allows.
//
// A decision reads specs and guarded status, never labels. It fails closed: what cannot be read matches, asks or
// denies.
package decision
