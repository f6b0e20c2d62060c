package decision

import (
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// applicable is the rules that apply to the operation: count of them, all between first and last.
type applicable struct {
	in                 *Input
	first, last, count int
}

func (in *Input) applicable() applicable {
	a := applicable{in: in}
	for i := range in.Rules {
		if !in.Rules[i].When.Matches(in.Operation) {
			continue
		}
		if a.count == 0 {
			a.first = i
		}
		a.last = i
		a.count++
	}
	return a
}

// next is the first applicable rule at or after i; nil if there is none.
func (a applicable) next(i int) (*Rule, int) {
	whole := a.last-a.first+1 == a.count
	for i = max(i, a.first); i <= a.last; i++ {
		if whole || a.in.Rules[i].When.Matches(a.in.Operation) {
			return &a.in.Rules[i], i
		}
	}
	return nil, i
}

func (a applicable) notReady() *Rule {
	for rule, i := a.next(0); rule != nil; rule, i = a.next(i + 1) {
		if rule.NotReady != "" {
			return rule
		}
	}
	return nil
}

func (a applicable) refs() []RuleRef {
	if len(a.in.Refs) == len(a.in.Rules) && a.last-a.first+1 == a.count {
		return a.in.Refs[a.first : a.last+1 : a.last+1]
	}
	refs := make([]RuleRef, 0, a.count)
	for rule, i := a.next(0); rule != nil; rule, i = a.next(i + 1) {
		refs = append(refs, rule.RuleRef)
	}
	return refs
}

// fault is why a request does not allow the operation; its zero value is that it does.
type fault struct {
	reason string
	rule   RuleRef
	result *Result
}

func (a applicable) fault(r *Request) fault {
	if r == nil {
		return fault{reason: approvalv1alpha1.ReasonNoRequest}
	}
	if reason := a.in.requestFault(r); reason != "" {
		return fault{reason: reason}
	}
	if f := a.worstResult(r); f.reason != "" {
		return f
	}
	return fault{reason: a.in.validityFault(r)}
}

// requestFault is what is wrong with a request before any of its results is looked at.
func (in *Input) requestFault(r *Request) string {
	if e, ended := r.endAt(in.Now); ended {
		return e.reason
	}
	switch {
	case in.ContextEnded != "":
		return approvalv1alpha1.ReasonContextEnded
	case !r.Use.Covers(in.Operation):
		return approvalv1alpha1.ReasonOutsideRequest
	case r.Follows != "", r.ObjectUID == "":
		return approvalv1alpha1.ReasonChecksPending
	case r.ObjectUID != in.Object.UID || r.ObjectGeneration != in.Object.Generation:
		return approvalv1alpha1.ReasonObjectChanged
	}
	return ""
}

// severity orders what may be wrong with results, so that people first hear of what they cannot wait for.
var severity = []string{
	approvalv1alpha1.ReasonChecksRejected, approvalv1alpha1.ReasonExpired, approvalv1alpha1.ReasonObjectChanged,
	approvalv1alpha1.ReasonRulesChanged, approvalv1alpha1.ReasonError, approvalv1alpha1.ReasonChecksPending,
}

func (a applicable) worstResult(r *Request) fault {
	var worst fault
	for rule, i := a.next(0); rule != nil; rule, i = a.next(i + 1) {
		result := r.result(rule)
		f := fault{reason: r.since(resultFault(rule, result, a.in.Now)), rule: rule.RuleRef, result: result}
		if f.reason != "" && (worst.reason == "" || rank(f.reason) < rank(worst.reason)) {
			worst = f
		}
	}
	return worst
}

// since tells a question that is asked again from one that was never answered: who had been let in reads what changed,
// until the new question is answered.
func (r *Request) since(reason string) string {
	if reason != approvalv1alpha1.ReasonChecksPending || r.NotAfter.IsZero() {
		return reason
	}
	if r.AskedAgain == approvalv1alpha1.ReasonObjectChanged {
		return r.AskedAgain
	}
	return approvalv1alpha1.ReasonRulesChanged
}

func rank(reason string) int {
	for i, known := range severity {
		if known == reason {
			return i
		}
	}
	return len(severity)
}

func (r *Request) result(rule *Rule) *Result {
	for i := range r.Results {
		if r.Results[i].UID == rule.UID {
			return &r.Results[i]
		}
	}
	return nil
}

// resultFault is empty only for an approval of the rule as it is now.
func resultFault(rule *Rule, result *Result, now time.Time) string {
	switch {
	case result == nil || result.Generation != rule.Generation:
		return approvalv1alpha1.ReasonRulesChanged
	case result.State == duckv1alpha1.CheckApproved && !passed(result.NotAfter, now):
		return ""
	}
	switch result.State {
	case duckv1alpha1.CheckRejected:
		return approvalv1alpha1.ReasonChecksRejected
	case duckv1alpha1.CheckPending, "":
		return approvalv1alpha1.ReasonChecksPending
	case duckv1alpha1.CheckApproved, duckv1alpha1.CheckCancelled:
		return approvalv1alpha1.ReasonExpired
	}
	return approvalv1alpha1.ReasonError
}

// validityFault is asked once every rule that applies has approved; others of the request may still be open, and then
// nothing is granted yet.
func (in *Input) validityFault(r *Request) string {
	switch {
	case r.NotAfter.IsZero():
		return approvalv1alpha1.ReasonChecksPending
	case in.Now.Before(r.NotBefore):
		return approvalv1alpha1.ReasonNotYetValid
	}
	return ""
}

// until is the end of the grant, or that of a result that ends before it.
func (a applicable) until(r *Request) time.Time {
	end := r.NotAfter
	for rule, i := a.next(0); rule != nil; rule, i = a.next(i + 1) {
		if own := r.result(rule).NotAfter; !own.IsZero() && own.Before(end) {
			end = own
		}
	}
	return end
}
