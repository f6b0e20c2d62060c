// Package chain works out who caused what: users, runs, pods, requests, answers and uses, and how far each link between
// them can be relied on.
//
// Facts come from creator records and owner references of objects, from the API server's audit log, from archived
// evidence and from the proxy's access log, in any order and as often as they are read. The package is pure: its callers
// read, feed Facts and print the Chain.
//
// One object is one UID. What happened to another object of the same name is kept apart; what a log tells without a UID
// is never more than inferred.
package chain
