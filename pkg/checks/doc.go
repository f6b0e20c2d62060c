// Package checks makes and reads checks of any registered kind.
//
// A CheckKind says how: which fields take the question, in which text values are filled in, which fields answering
// writes, and how to read the answer of a kind that does not speak the Check duck type. Compile turns one into a Kind,
// Registry holds the present ones. The package works on unstructured objects and calls no API server.
//
// Reading fails closed: what cannot be understood is an error, never an approval.
package checks
