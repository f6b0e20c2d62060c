package decision

import (
	"cmp"
	"slices"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// SupersededCheckGone is the reason of a result whose check is gone; others are RulesChanged and ObjectChanged.
const SupersededCheckGone = "CheckGone"

// question is one rule that the request asks.
type question struct {
	rule FoldRule
	// ref and check are the check that answers; nil if none has been made.
	ref   *approvalv1alpha1.CheckReference
	check *FoldCheck
	// problem says why no check could be made.
	problem string
	// former is the stored result of the same question.
	former *approvalv1alpha1.CheckResult
	// reason is the check's word beside cancelled.
	reason string
	result approvalv1alpha1.CheckResult
}

// takeUp compares the stored snapshot with the rules and the object as they are now. What changed is asked anew, what
// did not keeps its check.
func (f *folder) takeUp() {
	f.status.Follows = nil
	f.forgetUngranted()
	changed := f.observeObject()
	for i := range f.in.Rules {
		f.asked = append(f.asked, f.takeUpRule(f.in.Rules[i], changed))
	}
	for i := range f.stored.Rules {
		if gone := &f.stored.Rules[i]; !slices.ContainsFunc(f.in.Rules, func(r FoldRule) bool { return r.Name == gone.Name }) {
			f.supersede(gone.Name, approvalv1alpha1.ReasonRulesChanged)
		}
	}
	slices.SortFunc(f.asked, func(a, b question) int { return cmp.Compare(a.rule.Name, b.rule.Name) })
}

// forgetUngranted drops the validity of a request that no rule was asked for: it was no grant, so checks that come now
// get their whole time.
func (f *folder) forgetUngranted() {
	if len(f.stored.Rules) == 0 && len(f.in.Rules) > 0 {
		f.status.Validity = nil
	}
}

// observeObject notes the object as it is, and tells whether it changed since it was noted. An older generation is an
// older observation.
func (f *folder) observeObject() bool {
	now := &approvalv1alpha1.ObjectSnapshot{UID: f.in.Object.UID, Generation: f.in.Object.Generation}
	was := f.stored.Object
	if was != nil && was.UID == now.UID && was.Generation >= now.Generation {
		return false
	}
	f.status.Object = now
	return was != nil
}

func (f *folder) takeUpRule(rule FoldRule, objectChanged bool) question {
	q := question{rule: rule}
	snapshot, ref := byName(f.stored.Rules, rule.Name), byName(f.stored.RequestRefs, rule.Name)
	switch {
	case snapshot == nil:
	case snapshot.UID != rule.UID || rule.Generation > snapshot.Generation:
		f.supersede(rule.Name, approvalv1alpha1.ReasonRulesChanged)
	case objectChanged:
		f.supersede(rule.Name, approvalv1alpha1.ReasonObjectChanged)
	case ref != nil && f.isGone(ref):
		f.supersede(rule.Name, SupersededCheckGone)
	default:
		// The snapshot stays as it was taken, its author too; an older generation is an older observation.
		q.rule.RuleSnapshot = *snapshot
		q.ref, q.check = ref, f.checkOf(ref)
		q.former = byName(f.stored.Results, rule.Name)
	}
	f.takeUpAsked(&q)
	return q
}

// takeUpAsked notes the check that was just made, and asks for one where it is missing.
func (f *folder) takeUpAsked(q *question) {
	if q.ref != nil {
		return
	}
	i := slices.IndexFunc(f.in.Asked, func(a FoldAsked) bool { return a.Rule == q.rule.Name })
	switch {
	case i >= 0 && f.in.Asked[i].Check != nil:
		q.check = f.in.Asked[i].Check
		q.ref = &q.check.Ref
		return
	case i >= 0:
		q.problem = f.in.Asked[i].Problem
	}
	if q.rule.NotReady != "" {
		return
	}
	f.plan.Ask = append(f.plan.Ask, q.rule.RuleSnapshot)
	f.plan.Again = f.plan.Again || len(f.stored.RequestRefs) > 0 || len(f.stored.Superseded) > 0
}

func (f *folder) checkOf(ref *approvalv1alpha1.CheckReference) *FoldCheck {
	if ref == nil {
		return nil
	}
	i := slices.IndexFunc(f.in.Checks, func(c FoldCheck) bool { return c.Ref.UID == ref.UID })
	if i < 0 {
		return nil
	}
	return &f.in.Checks[i]
}

func (f *folder) isGone(ref *approvalv1alpha1.CheckReference) bool {
	check := f.checkOf(ref)
	return check != nil && check.Gone
}

// supersede keeps a result that no longer counts, if somebody was asked for it at all.
func (f *folder) supersede(rule, reason string) {
	result, ref := byName(f.stored.Results, rule), byName(f.stored.RequestRefs, rule)
	if result == nil || ref == nil {
		return
	}
	former := approvalv1alpha1.SupersededResult{CheckResult: *result.DeepCopy(), Reason: reason, At: f.now, Check: ref.DeepCopy()}
	former.WaitingFor = nil
	f.status.Superseded = append(f.status.Superseded, former)
	f.status.Superseded = f.status.Superseded[max(0, len(f.status.Superseded)-maxSuperseded):]
}

// record writes what is asked and answered into the status.
func (f *folder) record() {
	f.status.Rules, f.status.RequestRefs, f.status.Results = nil, nil, nil
	for i := range f.asked {
		q := &f.asked[i]
		f.answer(q)
		f.status.Rules = append(f.status.Rules, q.rule.RuleSnapshot)
		f.status.Results = append(f.status.Results, q.result)
		if q.ref != nil {
			f.status.RequestRefs = append(f.status.RequestRefs, *q.ref)
		}
	}
}

// answer reads one check. A result counts only while the check's spec is what the create call returned.
func (f *folder) answer(q *question) {
	q.result = approvalv1alpha1.CheckResult{Name: q.rule.Name, UID: q.rule.UID, Generation: q.rule.Generation}
	status := f.statusOf(q)
	q.reason = status.Reason
	q.result.State, q.result.Message, q.result.DecidedBy = status.State, status.Message, status.DecidedBy
	if isOpen(status.State) {
		q.result.WaitingFor = status.WaitingFor
		return
	}
	q.result.DecidedAt = f.now.DeepCopy()
	if q.former != nil && q.former.State == status.State && q.former.DecidedAt != nil {
		q.result.DecidedAt = q.former.DecidedAt.DeepCopy()
	}
}

func (f *folder) statusOf(q *question) duckv1alpha1.CheckStatus {
	c := q.check
	switch {
	case q.ref == nil && q.rule.NotReady != "":
		return failed("the rule is not ready: " + q.rule.NotReady)
	case q.ref == nil && q.problem != "":
		return failed(q.problem)
	case q.ref == nil:
		return duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckPending, Message: "the check is about to be made"}
	case c == nil:
		return failed("the check " + describeCheck(q.ref) + " could not be looked at")
	case c.Problem != "":
		return failed(c.Problem)
	case c.Ref.SpecDigest != q.ref.SpecDigest || q.ref.SpecDigest == "":
		return failed("the check " + describeCheck(q.ref) + " was changed after it was made, or its kind was registered anew; put its spec back or have it deleted, then it is asked anew")
	case c.Revocation != nil:
		return revokedStatus(c)
	}
	return *c.Status.DeepCopy()
}

func failed(message string) duckv1alpha1.CheckStatus {
	return duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckError, Message: bounded(message)}
}

func revokedStatus(c *FoldCheck) duckv1alpha1.CheckStatus {
	status := *c.Status.DeepCopy()
	status.State, status.Reason = duckv1alpha1.CheckCancelled, duckv1alpha1.CheckReasonRevoked
	status.Message = checkRevokedBy(c.Revocation)
	return status
}

// named is what stands in the status by the rule's name.
type named interface {
	approvalv1alpha1.RuleSnapshot | approvalv1alpha1.CheckReference | approvalv1alpha1.CheckResult
}

func byName[T named](list []T, name string) *T {
	for i := range list {
		if nameOf(&list[i]) == name {
			return &list[i]
		}
	}
	return nil
}

func nameOf(entry any) string {
	switch e := entry.(type) {
	case *approvalv1alpha1.RuleSnapshot:
		return e.Name
	case *approvalv1alpha1.CheckReference:
		return e.Name
	case *approvalv1alpha1.CheckResult:
		return e.Name
	}
	return ""
}
