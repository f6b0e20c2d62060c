// Package token turns a bearer token into an identity, offline.
//
// Two kinds of issuer are known. The cluster's own issuer yields service accounts, with the pod that
// a token is bound to. The issuers of an AuthenticationConfiguration, the same file that the API
// server reads (KEP-3331), yield people; from them no user name and no group beginning "system:" is
// accepted. Both give the user name, uid, groups and extra that the API server itself would give, so
// that a SubjectAccessReview about the identity answers for the real user.
//
// A [Verifier] checks tokens against cached key sets without asking anybody. A [Reviewer] asks the
// API server about each token instead. [Reviewer.CompareReading] shows where the two disagree.
//
// What is not done here: whether the pod and the service account of a token still exist is for the
// caller, who watches them. Tokens bound to anything that nobody here watches are refused.
package token
