// Package origin says what a pod runs for: it climbs from the pod over controller owners to the run that started it.
//
// An owner reference is only a claim, because whoever may create or update a pod may write one. A hop upwards counts
// only if the API server recorded, when the child was created, that the controller registered for such owners created
// it, and for which owner (by UID). An unproven hop stops the climb, so the context is narrower, never wider. What an
// owner's status lists proves nothing: Tekton adopts forged children into it.
//
// What could not be observed whole is an error, never a narrower context.
package origin
