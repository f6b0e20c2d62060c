// Package guarded watches whether the admission policies of this release are in force, and since when.
//
// A Watcher compares the live policies and bindings with the shipped ones, and the webhook configurations that stand
// in for some of them where the API server has no mutating policies. What a binding of the creator record selects may
// be wider than shipped, not narrower. A Keeper, which the controller runs on its leader, writes down since when they
// have been in force without a gap: the epoch. An EpochReader gives every consumer that moment, and only while the
// record fits the policies that its own Watcher sees.
package guarded
