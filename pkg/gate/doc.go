// Package gate is the one place where token, origin, fingerprint, rules and requests meet. Whoever enforces
// an answer (the proxy, a volume mount, a release) asks it on every use.
//
// It answers from its own copy-on-write index, which reflectors feed: a decision takes no lock that a writer
// holds, and talks to nobody but, for a permission not seen lately, the API server. Whatever is missing,
// stale or unguarded closes it, with the reason.
package gate
