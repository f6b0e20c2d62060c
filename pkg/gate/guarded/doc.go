// Package guarded watches whether the admission policies of this release are in force, and since when.
//
// A Watcher compares the live policies and bindings with the shipped ones. A Keeper, which the controller runs on
// its leader, writes down since when they have been in force without a gap: the epoch. An EpochReader gives
// every consumer that moment, and only while the record fits the policies that its own Watcher sees.
package guarded
