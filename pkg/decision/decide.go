package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// Object is the protected object as it is now.
type Object struct {
	Kind, Namespace, Name string
	UID                   types.UID
	Generation            int64
	// RequireChecks closes every write that no rule covers.
	RequireChecks bool
}

// Input is everything that a verdict follows from.
type Input struct {
	Object Object
	// Rules are the current rules of the object.
	Rules []Rule
	// Refs may hold Refs(Rules), made once: then an allow allocates nothing as long as the rules that apply are
	// neighbours.
	Refs []RuleRef
	// Requests are those with the fingerprint, newest first.
	Requests  []*Request
	Operation operation.Operation
	Now       time.Time
	// ContextEnded says how the run that the caller belongs to ended, as a sentence without its full stop; empty while
	// it goes on.
	ContextEnded string
}

// Verdict is allow or deny, with one reason code and one sentence for people.
type Verdict struct {
	Allow   bool
	Reason  string
	Message string
	// Request is the one that the verdict speaks of; nil if there is none.
	Request *Request
	// Rules are those that apply to the operation. Do not change the slice.
	Rules []RuleRef
	// WaitingFor is who or what is still to answer.
	WaitingFor []duckv1alpha1.CheckWaiting
	// Until is when an allow ends by itself; zero if it does not.
	Until time.Time
}

// Decide is the verdict on one operation.
func Decide(in *Input) Verdict {
	applicable := in.applicable()
	if applicable.count == 0 {
		return in.withoutRules()
	}
	if rule := applicable.notReady(); rule != nil {
		return applicable.deny(nil, fault{reason: approvalv1alpha1.ReasonRuleNotReady, rule: rule.RuleRef})
	}
	for _, request := range in.Requests {
		if applicable.fault(request).reason == "" {
			return Verdict{
				Allow: true, Reason: approvalv1alpha1.ReasonAllChecksApproved,
				Request: request, Rules: applicable.refs(), Until: applicable.until(request),
			}
		}
	}
	request := in.spokenOf()
	return applicable.deny(request, applicable.fault(request))
}

// withoutRules is the verdict where nobody is to be asked.
func (in *Input) withoutRules() Verdict {
	if in.Object.RequireChecks && !in.Operation.IsRead() {
		return Verdict{Reason: approvalv1alpha1.ReasonNoRules, Message: in.noRulesMessage()}
	}
	return Verdict{Allow: true, Reason: approvalv1alpha1.ReasonNoApplicable}
}

// spokenOf is the request that a denial speaks of: the newest of those that were asked for this operation; without one,
// the newest that is still live; without one, the newest. A request that follows another speaks through it.
func (in *Input) spokenOf() *Request {
	var covering, live, newest *Request
	for _, r := range in.Requests {
		if newest == nil {
			newest = r
		}
		if r.Use.Covers(in.Operation) && in.isNewer(r, covering) {
			covering = r
		}
		if _, ended := r.endAt(in.Now); live == nil && !ended {
			live = r
		}
	}
	for _, r := range []*Request{covering, live, newest} {
		if r != nil {
			return in.leader(r)
		}
	}
	return nil
}

// isNewer compares a request with one that stands before it. Creation times have whole seconds, so who was refused and
// asked again at once has two of the same; the one that goes on is the newer.
func (in *Input) isNewer(r, before *Request) bool {
	if before == nil {
		return true
	}
	_, over := before.endAt(in.Now)
	_, ended := r.endAt(in.Now)
	return over && !ended && r.Created.Equal(before.Created)
}

// leader is the request that asks in place of this one, if it is known.
func (in *Input) leader(r *Request) *Request {
	if _, ended := r.endAt(in.Now); ended || r.Follows == "" {
		return r
	}
	for _, other := range in.Requests {
		if other.UID == r.Follows {
			return other
		}
	}
	return r
}
