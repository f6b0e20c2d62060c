package decision

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// How long a grant lasts if the request does not say: a person asks for what he is about to do, a run asks for as long
// as runs take.
const (
	DefaultSubjectDuration = time.Hour
	DefaultContextDuration = 24 * time.Hour
)

// Bounds of the lists in a request's status, as its schema has them.
const (
	maxRules      = 64
	maxSuperseded = 10
)

// FoldInput is everything that a request's status follows from. Nothing in it is changed.
type FoldInput struct {
	// Request is the request as it is stored.
	Request *approvalv1alpha1.ResourceCheckRequest
	// Fingerprint is computed from the request's spec.
	Fingerprint string
	// Now is the controller's clock at this observation.
	Now     time.Time
	Object  FoldObject
	Context FoldContext
	// RequireChecks says that the object closes every write that no rule covers.
	RequireChecks bool
	// Rules are the current rules of the object whose when overlaps the request's use.
	Rules []FoldRule
	// Checks are the checks that the stored requestRefs name, one for each.
	Checks []FoldCheck
	// Asked is what came of an earlier Plan.Ask of the same request as it is stored.
	Asked []FoldAsked
	// Strays are live checks that carry the request's label and stand in no reference.
	Strays []FoldCheck
	// Leader is the equal request that this one follows; nil if this one asks itself.
	Leader *approvalv1alpha1.ResourceCheckRequest
}

// FoldObject is the protected object as it is now.
type FoldObject struct {
	// Problem says why the object could not be looked at; then nothing else is known of it.
	Problem string
	// Gone says that no object has the name and the UID that the request was made for.
	Gone       bool
	UID        types.UID
	Generation int64
}

// FoldContext is the run that the request is bound to. Its zero value is a run that goes on, or none.
type FoldContext struct {
	Ended bool
	// Why says in a few words how it ended, e.g. "it is being deleted".
	Why string
}

// FoldRule is a current rule.
type FoldRule struct {
	approvalv1alpha1.RuleSnapshot
	// NotReady says why the rule cannot be relied on; empty if it can.
	NotReady string
}

// FoldCheck is a check as it is now.
type FoldCheck struct {
	// Ref names the check, the rule it was made for, and the digest of its spec as it is now.
	Ref approvalv1alpha1.CheckReference
	// Gone says that no check has that name and UID.
	Gone bool
	// Problem says why the check cannot be relied on although it may be there.
	Problem string
	Status  duckv1alpha1.CheckStatus
	// Revocation is set if somebody took the approval back.
	Revocation *approvalv1alpha1.CheckRevocation
}

// FoldAsked is what came of asking one rule: the check that was made, or a sentence why none could be.
type FoldAsked struct {
	Rule    string
	Check   *FoldCheck
	Problem string
}

// Plan is what is to be done about a request, in this order: make the checks to Ask and fold again with what came of
// it; write Status; close the checks to Cancel; look again at Wake.
type Plan struct {
	Status approvalv1alpha1.ResourceCheckRequestStatus
	// Ask are the rules for which a check is missing.
	Ask []approvalv1alpha1.RuleSnapshot
	// Again says that Ask repeats questions of a request that has asked before.
	Again bool
	// Cancel are open checks that nothing rests on any more.
	Cancel []approvalv1alpha1.CheckReference
	// Wake is the next moment at which the clock alone changes something; zero if there is none.
	Wake time.Time
	// Transition says that Ready has another status or reason than stored.
	Transition bool
}

// folder carries one fold.
type folder struct {
	in     *FoldInput
	stored *approvalv1alpha1.ResourceCheckRequestStatus
	now    metav1.Time
	plan   Plan
	status *approvalv1alpha1.ResourceCheckRequestStatus
	asked  []question
}

// Fold computes the new status of a request and what to do about it. What has ended stays as it is. Otherwise the ends
// that do not depend on answers go first: revoked by the requester, the object gone, the context over.
func Fold(in *FoldInput) Plan {
	f := newFolder(in)
	switch {
	case f.stored.Ended != nil:
	case in.Request.Spec.Revoked != nil:
		f.end(approvalv1alpha1.ReasonRevoked, revokedBy(in.Request.Spec.Revoked.By, in.Request.Spec.Revoked.Reason))
	case in.Object.Problem == "" && in.Object.Gone:
		f.end(approvalv1alpha1.ReasonObjectGone, describeObject(in)+" is gone, or another object has its name")
	case in.Context.Ended:
		f.end(approvalv1alpha1.ReasonContextEnded, describeContext(in)+" is over: "+in.Context.Why)
	case in.Leader != nil:
		f.follow()
	default:
		f.ask()
	}
	f.cancel()
	f.plan.Transition = transition(f.stored.Conditions, f.status.Conditions)
	f.plan.Status = *f.status
	return f.plan
}

func newFolder(in *FoldInput) *folder {
	f := &folder{in: in, stored: &in.Request.Status, now: metav1.NewTime(in.Now.UTC().Truncate(time.Second))}
	f.status = f.stored.DeepCopy()
	if f.stored.Ended == nil {
		f.status.ObservedGeneration = in.Request.Generation
		f.status.Fingerprint = in.Fingerprint
	}
	return f
}

// end closes the request for good. Its rules, checks and results stay as evidence.
func (f *folder) end(reason, message string) {
	message = bounded(message)
	f.status.Ended = &approvalv1alpha1.Ended{At: f.now, Reason: reason, Message: message}
	f.plan.Ask, f.plan.Wake = nil, time.Time{}
	f.ready(metav1.ConditionFalse, reason, message)
}

func (f *folder) ready(status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&f.status.Conditions, metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, Status: status, Reason: reason, Message: bounded(message),
		ObservedGeneration: f.in.Request.Generation, LastTransitionTime: f.now,
	})
}

// wake looks again at t, if that lies ahead and before any other moment.
func (f *folder) wake(t time.Time) {
	if t.After(f.in.Now) && (f.plan.Wake.IsZero() || t.Before(f.plan.Wake)) {
		f.plan.Wake = t
	}
}

// expires ends the request if t has come, and looks again at t otherwise.
func (f *folder) expires(t *metav1.Time, message string) bool {
	if t == nil {
		return false
	}
	if f.in.Now.Before(t.Time) {
		f.wake(t.Time)
		return false
	}
	f.end(approvalv1alpha1.ReasonExpired, message)
	return true
}

// lastMoment ends a request that can no longer be used, answered or not.
func (f *folder) lastMoment() bool {
	if f.in.Request.Spec.TimeRange == nil {
		return false
	}
	before := f.in.Request.Spec.TimeRange.Before
	if before == nil {
		return false
	}
	return f.expires(before, "the last moment that was asked for, "+stamp(*before)+", has passed")
}

// follow shows what an equal request came to, and ends with it. Answers stand in one request only.
func (f *folder) follow() {
	f.status.Object, f.status.Validity = nil, nil
	f.status.Rules, f.status.RequestRefs, f.status.Results = nil, nil, nil
	leader := f.in.Leader
	name := leader.Namespace + "/" + leader.Name
	f.status.Follows = &approvalv1alpha1.RequestReference{Namespace: leader.Namespace, Name: leader.Name, UID: leader.UID}
	if ended := leader.Status.Ended; ended != nil {
		f.end(ended.Reason, "the equal request "+name+" that this one follows ended: "+ended.Message)
		return
	}
	if f.lastMoment() {
		return
	}
	ready := apimeta.FindStatusCondition(leader.Status.Conditions, approvalv1alpha1.ConditionReady)
	if ready == nil {
		f.ready(metav1.ConditionUnknown, approvalv1alpha1.ReasonChecksPending, "the equal request "+name+" asks already")
		return
	}
	f.ready(ready.Status, ready.Reason, "the equal request "+name+" asks already: "+ready.Message)
}

// cancel closes the checks that nothing rests on: all open ones of a request that ended, else the open ones that no
// reference names.
func (f *folder) cancel() {
	kept := map[types.UID]bool{}
	if f.status.Ended == nil {
		for i := range f.status.RequestRefs {
			kept[f.status.RequestRefs[i].UID] = true
		}
	}
	for _, checks := range [][]FoldCheck{f.in.Checks, f.in.Strays} {
		for i := range checks {
			if c := &checks[i]; !c.Gone && isOpen(c.Status.State) && !kept[c.Ref.UID] {
				f.plan.Cancel = append(f.plan.Cancel, c.Ref)
			}
		}
	}
}

// isOpen tells whether a check still asks somebody. Error is not final, and what could not be read may be open.
func isOpen(state duckv1alpha1.CheckState) bool {
	switch state {
	case duckv1alpha1.CheckApproved, duckv1alpha1.CheckRejected, duckv1alpha1.CheckCancelled:
		return false
	}
	return true
}

func transition(before, after []metav1.Condition) bool {
	was := apimeta.FindStatusCondition(before, approvalv1alpha1.ConditionReady)
	is := apimeta.FindStatusCondition(after, approvalv1alpha1.ConditionReady)
	if was == nil || is == nil {
		return was != is
	}
	return was.Status != is.Status || was.Reason != is.Reason
}
