// Package cli is kubectl-countersign: asking for the use of protected objects, answering, waiting and explaining.
//
// Each verb has a file of its own. Whatever the verb, texts that somebody else chose are shown so that they cannot draw,
// and an error is one sentence for people. The exit codes are a contract: see ExitDone and its neighbours.
package cli
