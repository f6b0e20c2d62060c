// Package quorum says who may answer an ApprovalRequest, and what the answers come to.
//
// Admission uses Eligible out of courtesy, to refuse at once what would not count; Count is the law, and recomputes
// eligibility from what is stored. The package is pure: no client, no I/O, no clock.
//
// Count keeps three promises: the order in which answers are handed in does not matter; a further Approve never takes a
// policy's approvals away; and what was decided stays decided, except that an approval can be revoked.
package quorum
