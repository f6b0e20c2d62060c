// Package rule admits ResourceCheckRules: who may have which checks asked, and what a rule will do that its writer may
// not expect.
//
// A rule may come before its object, its check kind or that kind's CRD, because GitOps applies in any order. What is
// missing is warned about, never refused; such a rule denies until it can ask.
package rule
