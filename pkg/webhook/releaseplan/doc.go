// Package releaseplan admits ReleasePlans: who stands for one, so that he answers for the Releases that programs make by it.
//
// A plan that asks for somebody has the label standing-attribution (in the words of a vocabulary). A person who makes such
// a plan, changes its spec or sets the label stands for it. A program never does: it may propose somebody, who accepts or
// not, and what it changes nobody has seen yet. Whoever stands may take his word back.
//
// The annotation accept is how a person answers. It is an order, not a state: it is taken up and removed. Only "false" from
// whoever stood stays, until somebody stands again: a later step must be able to tell a word that was taken back from
// annotations that a tool left out, which are put back.
package releaseplan
