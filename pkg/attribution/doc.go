// Package attribution decides who is accountable for a resource, from what admission recorded.
//
// It is part of the pure core: it asks no directory, reads no clock and no object. Whether the author that it names is a
// person whom the organisation knows is for the caller to find out.
//
// Its source is the ADR "Release Objects Attribution Tracking and Propagation" (2023-04-25) and its older wording, in
// which attribution is called authorization.
package attribution
