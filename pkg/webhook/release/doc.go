// Package release admits Releases: who made one, and what it stands on, are recorded while the API server knows it.
//
// Three annotations are the truth, and two labels show it to people and other tools, in the words of a vocabulary. Whatever
// a client sends there has no effect; what was recorded when the Release was made never changes. A Release that says that
// a program made it has no author of its own, so only the programs that are configured may say so.
//
// The objects of other installations of this kind have fields that are not known here. They are left as they are.
package release
