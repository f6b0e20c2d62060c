// Package operation says what an HTTP request to a protected tool is: a Read or a Write, of which path.
//
// Everything that is decided about a request starts from one Parse of its raw path, so the choice of the
// connector, the class, the rules that apply and the bytes that are forwarded cannot disagree. The package is pure:
// no client, no I/O, no clock. Every function here fails closed, and closed means two different things:
//
//   - What may ask for a check (Pattern.Match, When.Matches, Overlaps) says yes when unsure.
//   - What may give something away (Pattern.Includes, Use.Covers, Pattern.Covers, lowering to Read) says no when unsure.
//
// Zero values are unsure: a zero Path is an unknown path, a zero Pattern one that could not be parsed.
package operation
