package decision

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// Request is a ResourceCheckRequest as decisions need it. It is immutable, and small: proxies hold many.
type Request struct {
	Namespace, Name string
	UID             types.UID
	Created         time.Time
	Key             fingerprint.Key
	Use             operation.Use
	// ObjectUID and ObjectGeneration are those of the snapshot; ObjectUID is empty before it was taken.
	ObjectUID        types.UID
	ObjectGeneration int64
	// Follows is the UID of the equal request that asks in place of this one.
	Follows types.UID
	Results []Result
	// NotBefore and NotAfter are zero before the grant.
	NotBefore, NotAfter time.Time
	// Before is the end that the requester set; zero if he did not.
	Before time.Time
	// AskedAgain is why the last result was superseded, RulesChanged or ObjectChanged; empty if none was.
	AskedAgain string

	end end
}

// Result is the answer of one rule's check.
type Result struct {
	RuleRef
	State   duckv1alpha1.CheckState
	Message string
	// NotAfter is the end of this result alone; zero if it has none.
	NotAfter   time.Time
	WaitingFor []duckv1alpha1.CheckWaiting
}

// end is how a request ended, as recorded.
type end struct {
	reason, message string
	at              time.Time
}

// maxMessage bounds what is held of a check's message, in bytes.
const maxMessage = 512

var errNoSubject = errors.New("the request names no subject: delete it and ask again")

// FromRequest fails for a request that the server cannot have completed; such a one answers nothing.
func FromRequest(req *approvalv1alpha1.ResourceCheckRequest) (*Request, error) {
	if req.Spec.Context.Subject == nil {
		return nil, errNoSubject
	}
	question := fingerprint.FromRequest(&req.Spec)
	r := &Request{
		Namespace: req.Namespace, Name: req.Name, UID: req.UID, Created: req.CreationTimestamp.Time,
		Key: fingerprint.Sum(&question), Use: Use(req.Spec.Use), end: recordedEnd(req),
	}
	r.readBounds(req)
	if object := req.Status.Object; object != nil {
		r.ObjectUID, r.ObjectGeneration = object.UID, object.Generation
	}
	if req.Status.Follows != nil {
		r.Follows = req.Status.Follows.UID
	}
	if superseded := req.Status.Superseded; len(superseded) > 0 {
		r.AskedAgain = changed(superseded[len(superseded)-1].Reason)
	}
	for i := range req.Status.Results {
		r.Results = append(r.Results, fromResult(&req.Status.Results[i]))
	}
	return r, nil
}

// changed shares the texts of the reasons, because many requests are held.
func changed(reason string) string {
	switch reason {
	case approvalv1alpha1.ReasonRulesChanged:
		return approvalv1alpha1.ReasonRulesChanged
	case approvalv1alpha1.ReasonObjectChanged:
		return approvalv1alpha1.ReasonObjectChanged
	}
	return ""
}

func (r *Request) readBounds(req *approvalv1alpha1.ResourceCheckRequest) {
	if validity := req.Status.Validity; validity != nil {
		r.NotBefore, r.NotAfter = validity.NotBefore.Time, validity.NotAfter.Time
	}
	if timeRange := req.Spec.TimeRange; timeRange != nil {
		r.Before = timeOf(timeRange.Before)
	}
}

// fromResult keeps texts only of what is not approved: nobody reads them otherwise.
func fromResult(from *approvalv1alpha1.CheckResult) Result {
	result := Result{
		RuleRef: RuleRef{Name: from.Name, UID: from.UID, Generation: from.Generation},
		State:   from.State, NotAfter: timeOf(from.NotAfter),
	}
	if from.State != duckv1alpha1.CheckApproved {
		result.Message, result.WaitingFor = cut(from.Message), from.WaitingFor
	}
	return result
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// recordedEnd is the end that status or spec names.
func recordedEnd(req *approvalv1alpha1.ResourceCheckRequest) end {
	if ended := req.Status.Ended; ended != nil {
		return end{reason: ended.Reason, message: cut(ended.Message), at: ended.At.Time}
	}
	if revoked := req.Spec.Revoked; revoked != nil {
		return end{reason: approvalv1alpha1.ReasonRevoked, message: cut(revokedMessage(revoked)), at: timeOf(revoked.At)}
	}
	return end{}
}

func (r *Request) endAt(now time.Time) (end, bool) {
	switch {
	case r.end.reason != "":
		return r.end, true
	case passed(r.NotAfter, now):
		return end{reason: approvalv1alpha1.ReasonExpired, at: r.NotAfter}, true
	case passed(r.Before, now):
		return end{reason: approvalv1alpha1.ReasonExpired, at: r.Before}, true
	}
	return end{}, false
}

func passed(limit, now time.Time) bool { return !limit.IsZero() && !now.Before(limit) }

// Ended tells whether the request came to its end, recorded or by its own times, with the reason for conditions and
// people. An end without a recorded time, such as a revocation that an old server wrote, has the zero time.
func (r *Request) Ended(now time.Time) (reason string, at time.Time, ended bool) {
	e, ended := r.endAt(now)
	return e.reason, e.at, ended
}

// Ended is Request.Ended of a stored request: status.ended, spec.revoked, or the end of its validity or time range.
func Ended(req *approvalv1alpha1.ResourceCheckRequest, now time.Time) (reason string, at time.Time, ended bool) {
	r := Request{end: recordedEnd(req)}
	r.readBounds(req)
	return r.Ended(now)
}
