// Package response admits ApprovalResponses: who answers is captured, and who may not answer is told so at once.
//
// That is courtesy, because it sees one moment; the counting of answers is the law and recomputes eligibility from what
// is stored.
package response
