// Package request admits ResourceCheckRequests: it settles whose use is asked for and in which context, from what the
// API server authenticated and what stands in the cluster. What a client sends of that has no effect or is refused.
//
// The validating step works everything out once more and refuses an object that differs.
package request
