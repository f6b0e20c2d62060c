package decision

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// ask is the fold of a request that asks by itself.
func (f *folder) ask() {
	if f.in.Object.Problem != "" {
		f.ready(metav1.ConditionFalse, approvalv1alpha1.ReasonError, describeObject(f.in)+" cannot be looked at: "+f.in.Object.Problem)
		return
	}
	if len(f.in.Rules) > maxRules {
		f.ready(metav1.ConditionFalse, approvalv1alpha1.ReasonError,
			fmt.Sprintf("%d rules apply, but a request can ask at most %d; ask for less, or have rules merged", len(f.in.Rules), maxRules))
		return
	}
	f.takeUp()
	f.record()
	if f.decided() || f.lastMoment() {
		return
	}
	if len(f.asked) == 0 && f.in.RequireChecks && asksWrite(f.in.Request.Spec.Use) {
		f.ready(metav1.ConditionFalse, approvalv1alpha1.ReasonNoRules,
			describeObject(f.in)+" is closed to every write that no rule covers, and no rule covers this one; ask its owner for a rule")
		return
	}
	f.settleValidity()
	if !f.elapsed() {
		f.settleReady()
	}
}

// decided ends the request if one answer decides it: a rejection before a withdrawal.
func (f *folder) decided() bool {
	for _, state := range []duckv1alpha1.CheckState{duckv1alpha1.CheckRejected, duckv1alpha1.CheckCancelled} {
		for i := range f.asked {
			if q := &f.asked[i]; q.result.State == state {
				f.endBy(q)
				return true
			}
		}
	}
	return false
}

func (f *folder) endBy(q *question) {
	message := "rule " + quoted(q.rule.Name) + ": " + orElse(q.result.Message, "the check says "+string(q.result.State))
	if q.result.State == duckv1alpha1.CheckRejected {
		f.end(approvalv1alpha1.ReasonChecksRejected, message)
		return
	}
	switch q.reason {
	case duckv1alpha1.CheckReasonTimedOut, duckv1alpha1.CheckReasonWindowClosed:
		f.end(approvalv1alpha1.ReasonExpired, message)
	default:
		f.end(approvalv1alpha1.ReasonRevoked, message)
		f.hold(q)
	}
}

// hold keeps new requests of the fingerprint back for as long as an owner took away.
func (f *folder) hold(q *question) {
	if q.check == nil || q.check.Revocation == nil || !q.check.Revocation.ByOwner || f.status.Validity == nil {
		return
	}
	if until := f.status.Validity.NotAfter; f.in.Now.Before(until.Time) {
		f.status.Ended.HoldUntil = until.DeepCopy()
	}
}

// settleValidity fixes the validity at the first moment at which all checks are approved, and only shortens it then.
func (f *folder) settleValidity() {
	if f.status.Validity == nil && f.allApproved() {
		f.status.Validity = f.firstValidity()
	}
	v := f.status.Validity
	if v == nil {
		return
	}
	for i := range f.asked {
		if q := &f.asked[i]; q.result.State == duckv1alpha1.CheckApproved {
			f.shorten(v, q)
		}
	}
}

func (f *folder) allApproved() bool {
	return !slices.ContainsFunc(f.asked, func(q question) bool {
		return q.result.State != duckv1alpha1.CheckApproved || q.rule.NotReady != ""
	})
}

func (f *folder) firstValidity() *approvalv1alpha1.Validity {
	v := &approvalv1alpha1.Validity{NotBefore: f.now}
	asked := f.in.Request.Spec.TimeRange
	if asked != nil && asked.After != nil && asked.After.After(f.now.Time) {
		v.NotBefore = *asked.After
	}
	v.NotAfter = after(v.NotBefore, AskedDuration(&f.in.Request.Spec))
	if asked != nil && asked.Before != nil {
		v.NotAfter = earlier(v.NotAfter, *asked.Before)
	}
	return v
}

// AskedDuration is how long the grant is to last: what the request says, or the default of its class.
func AskedDuration(spec *approvalv1alpha1.ResourceCheckRequestSpec) time.Duration {
	switch {
	case spec.TimeRange != nil && spec.TimeRange.Duration != nil:
		return spec.TimeRange.Duration.Duration
	case spec.Context.Resource != nil:
		return DefaultContextDuration
	}
	return DefaultSubjectDuration
}

// shorten applies one approval's own end. What its rule and its answers give is counted from the start of the grant;
// for a check that was asked anew, from the moment it approved.
func (f *folder) shorten(v *approvalv1alpha1.Validity, q *question) {
	start := v.NotBefore
	anew := q.result.DecidedAt.After(start.Time)
	if anew {
		start = *q.result.DecidedAt
	}
	end, limited := ownEnd(q, start)
	if !limited {
		return
	}
	if anew || q.check.Status.NotAfter != nil {
		q.result.NotAfter = &end
		byName(f.status.Results, q.rule.Name).NotAfter = &end
	}
	v.NotAfter = earlier(v.NotAfter, end)
}

func ownEnd(q *question, start metav1.Time) (end metav1.Time, limited bool) {
	limit := func(t metav1.Time) {
		if !limited || t.Before(&end) {
			end, limited = t, true
		}
	}
	if grant := q.rule.Spec.Grant; grant != nil && grant.MaxDuration != nil {
		limit(after(start, grant.MaxDuration.Duration))
	}
	if grantFor := q.check.Status.GrantFor; grantFor != nil {
		limit(after(start, grantFor.Duration))
	}
	if notAfter := q.check.Status.NotAfter; notAfter != nil {
		limit(*notAfter)
	}
	if q.former != nil && q.former.NotAfter != nil && q.former.State == duckv1alpha1.CheckApproved {
		limit(*q.former.NotAfter)
	}
	return end, limited
}

// elapsed ends a request whose validity is over, or can never begin.
func (f *folder) elapsed() bool {
	v := f.status.Validity
	if v == nil {
		return false
	}
	if !v.NotBefore.Before(&v.NotAfter) {
		f.end(approvalv1alpha1.ReasonExpired, "what was approved ends before it begins, at "+stamp(v.NotAfter)+"; ask again for a later end")
		return true
	}
	return f.expires(&v.NotAfter, "it was valid until "+stamp(v.NotAfter)+"; ask again")
}

// settleReady says where the request stands. What somebody must repair goes before what somebody must answer.
func (f *folder) settleReady() {
	v := f.status.Validity
	switch {
	case f.readyBecause(approvalv1alpha1.ReasonRuleNotReady, metav1.ConditionFalse, notReadyMessage):
	case f.readyBecause(approvalv1alpha1.ReasonError, metav1.ConditionFalse, stateMessage(duckv1alpha1.CheckError)):
	case f.readyBecause(approvalv1alpha1.ReasonChecksPending, metav1.ConditionUnknown, stateMessage(duckv1alpha1.CheckPending)):
	case f.in.Now.Before(v.NotBefore.Time):
		f.wake(v.NotBefore.Time)
		f.ready(metav1.ConditionUnknown, approvalv1alpha1.ReasonNotYetValid, "approved, and valid from "+stamp(v.NotBefore)+" until "+stamp(v.NotAfter))
	case len(f.asked) == 0:
		f.ready(metav1.ConditionTrue, approvalv1alpha1.ReasonNoChecksNeeded, "no rule asks for a check; valid until "+stamp(v.NotAfter))
	default:
		f.ready(metav1.ConditionTrue, approvalv1alpha1.ReasonAllChecksApproved, "valid until "+stamp(v.NotAfter))
	}
}

// readyBecause sets Ready from all questions that speak gives a text for, and tells whether there is one.
func (f *folder) readyBecause(reason string, status metav1.ConditionStatus, speak func(*question) string) bool {
	var texts []string
	for i := range f.asked {
		if text := speak(&f.asked[i]); text != "" {
			texts = append(texts, "rule "+quoted(f.asked[i].rule.Name)+" "+text)
		}
	}
	if len(texts) == 0 {
		return false
	}
	f.ready(status, reason, enumerate(texts))
	return true
}

func notReadyMessage(q *question) string {
	if q.rule.NotReady == "" {
		return ""
	}
	return "is not ready: " + q.rule.NotReady
}

func stateMessage(state duckv1alpha1.CheckState) func(*question) string {
	return func(q *question) string {
		if q.result.State != state {
			return ""
		}
		if waiting := waitingText(q.result.WaitingFor); waiting != "" {
			return "waits for " + waiting
		}
		return "is " + string(state) + orNothing(": ", q.result.Message)
	}
}

// asksWrite tells whether a use goes beyond reading.
func asksWrite(use *approvalv1alpha1.OperationSelector) bool {
	return use == nil || len(use.Operations) == 0 || slices.Contains(use.Operations, approvalv1alpha1.OperationWrite)
}

// after is exact to the second, which is what the API keeps; a fraction is cut off, never added.
func after(start metav1.Time, d time.Duration) metav1.Time {
	return metav1.NewTime(start.Add(d).UTC().Truncate(time.Second))
}

func earlier(a, b metav1.Time) metav1.Time {
	if b.Before(&a) {
		return b
	}
	return a
}
