// Package archive writes evidence: one self-contained JSON line for each request that leaves the cluster.
//
// A line is written and flushed before anything is deleted, and again if the controller stopped in between: readers
// must expect a line more than once, and can tell by the request's UID. Lines hold what people wrote and who they are,
// no tokens and no secrets.
package archive
