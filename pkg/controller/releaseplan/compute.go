package releaseplan

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// Reasons of the condition Matched.
const (
	reasonMatched    = "Matched"
	reasonNotMatched = "NotMatched"
)

const (
	// retryUnavailable is for a directory that does not say when to ask again.
	retryUnavailable = 30 * time.Second
	// maxName and maxSaid bound what a sentence repeats, in characters.
	maxName = 256
	maxSaid = 512
)

// facts are everything that a plan's status follows from.
type facts struct {
	words attribution.Vocabulary
	now   time.Time
	// recheck is how often a standing author is verified again.
	recheck time.Duration
	plan    *releasev1alpha1.ReleasePlan
	// admissions are those of the plan's target namespace that it may mean. They are shared, and must not be changed.
	admissions []releasev1alpha1.ReleasePlanAdmission
	// looked is what the directory says of the standing author; nil if it was not asked.
	looked *looked
}

// looked is an answer of the directory: its error is a no, or that it did not answer.
type looked struct {
	directory.Answer
	about string
	err   error
}

// finding is what follows for StandingAttributionValid.
type finding struct {
	status          metav1.ConditionStatus
	reason, message string
	again           time.Duration
}

// compute is the status that the plan has now, and when it is to be looked at again (0: not before something happens).
func compute(f *facts) (*releasev1alpha1.ReleasePlanStatus, time.Duration) {
	next := f.plan.Status.DeepCopy()
	next.ObservedGeneration = f.plan.Generation
	f.match(next)
	if !f.asks() {
		next.StandingAttribution = nil
		apimeta.RemoveStatusCondition(&next.Conditions, releasev1alpha1.ConditionStandingAttributionValid)
		return next, 0
	}
	if f.looked == nil && f.due() != "" {
		// What was found last stays until the directory has been asked.
		return next, 0
	}
	next.StandingAttribution = f.standing()
	if f.looked != nil && f.looked.err == nil {
		next.StandingAttribution.VerifiedAt = optional(f.looked.At)
	}
	found := f.find(next.StandingAttribution)
	f.set(next, releasev1alpha1.ConditionStandingAttributionValid, found.status, found.reason, found.message)
	return next, found.again
}

// asks tells that the plan asks for somebody to answer for its automated Releases.
func (f *facts) asks() bool { return f.plan.Labels[f.words.StandingLabel] == "true" }

// record is who stands, as admission wrote it; nil if nobody does.
func (f *facts) record() *attribution.Standing {
	s, err := attribution.ParseStanding(f.plan.Annotations[approvalv1alpha1.AnnotationStanding])
	if err != nil || s.Author == "" {
		return nil
	}
	return s
}

// standing is who stands, with the last verification of the same word.
func (f *facts) standing() *releasev1alpha1.StandingAttribution {
	out := &releasev1alpha1.StandingAttribution{Proposed: f.plan.Annotations[approvalv1alpha1.AnnotationProposed]}
	s := f.record()
	if s == nil {
		return out
	}
	out.Author, out.AcceptedAt = s.Author, optional(s.AcceptedAt)
	if s.ExpiresAt != nil {
		out.ExpiresAt = optional(*s.ExpiresAt)
	}
	if was := f.plan.Status.StandingAttribution; was != nil && was.Author == out.Author && was.AcceptedAt.Equal(out.AcceptedAt) {
		out.VerifiedAt = was.VerifiedAt
	}
	return out
}

func optional(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &at
}

// hopeless is what no directory can mend; its zero value is nothing.
func (f *facts) hopeless() finding {
	s, proposed := f.record(), f.plan.Annotations[approvalv1alpha1.AnnotationProposed]
	switch {
	case s == nil && proposed != "":
		return no(releasev1alpha1.ReasonProposed, "%s is proposed to stand for the plan and has not accepted: let %[1]s accept with %s", shown(proposed), f.accept())
	case s == nil:
		return no(releasev1alpha1.ReasonNoStandingAuthor, "nobody stands for the plan, so its automated Releases have no author: let somebody accept with %s", f.accept())
	case s.Generation != f.plan.Generation || s.Admission != f.plan.Labels[f.words.AdmissionLabel]:
		return no(releasev1alpha1.ReasonNoStandingAuthor, "%s accepted the plan as it was before it was changed, so nobody stands for it: let somebody accept with %s", shown(s.Author), f.accept())
	case attribution.IsRobot(s.Author):
		return no(releasev1alpha1.ReasonNoStandingAuthor, "only the program %s stands for the plan, and no person: let somebody accept with %s", shown(s.Author), f.accept())
	case s.Expired(f.now):
		return no(releasev1alpha1.ReasonAttributionExpired, "%s stood for the plan until %s, and that is over: let somebody accept with %s",
			shown(s.Author), s.ExpiresAt.UTC().Format(time.RFC3339), f.accept())
	}
	return finding{}
}

func no(reason, format string, args ...any) finding {
	return finding{status: metav1.ConditionFalse, reason: reason, message: fmt.Sprintf(format, args...)}
}

// accept is what a person types.
func (f *facts) accept() string {
	return fmt.Sprintf("`kubectl countersign accept releaseplan/%s -n %s`", f.plan.Name, f.plan.Namespace)
}

func shown(name string) string { return plaintext.Line(name, maxName) }

// due is the author to look up now; empty if nobody is, or the last answer is still fresh.
func (f *facts) due() string {
	if !f.asks() || f.hopeless().reason != "" {
		return ""
	}
	is := f.standing()
	if is.VerifiedAt != nil && apimeta.IsStatusConditionTrue(f.plan.Status.Conditions, releasev1alpha1.ConditionStandingAttributionValid) &&
		f.now.Before(is.VerifiedAt.Add(f.period())) {
		return ""
	}
	return is.Author
}

// period spreads the plans of one author, and of one start, over time: each has its own, a tenth longer or shorter.
func (f *facts) period() time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(f.plan.UID))
	tenth := f.recheck / 10
	spread := time.Duration(float64(2*tenth) * float64(hash.Sum32()%1000) / 1000)
	return max(f.recheck-tenth+spread.Truncate(time.Second), time.Second)
}

// find says whether the standing author is a known person now.
func (f *facts) find(is *releasev1alpha1.StandingAttribution) finding {
	found := f.hopeless()
	switch {
	case found.reason != "":
		return found
	case f.looked == nil:
		found = f.verified(is)
		found.again = max(is.VerifiedAt.Add(f.period()).Sub(f.now), time.Second)
	case f.looked.err == nil:
		found = f.verified(is)
		found.again = f.period()
	case errors.Is(f.looked.err, directory.ErrUnknown):
		found = no(releasev1alpha1.ReasonAuthorUnknown, "%s has left, or was never known (%s), so automated Releases of the plan fail: let somebody else accept with %s",
			shown(is.Author), plaintext.Line(f.looked.err.Error(), maxSaid), f.accept())
		found.again = f.period()
	default:
		found = finding{
			status: metav1.ConditionUnknown, reason: releasev1alpha1.ReasonDirectoryUnavailable,
			message: fmt.Sprintf("it cannot be told now whether %s is still known (%s); the directory is asked again", shown(is.Author), plaintext.Line(f.looked.err.Error(), maxSaid)),
			again:   retryAfter(f.looked.err),
		}
	}
	if is.ExpiresAt != nil {
		found.again = min(found.again, max(is.ExpiresAt.Sub(f.now), time.Second))
	}
	return found
}

func (f *facts) verified(is *releasev1alpha1.StandingAttribution) finding {
	until := ""
	if is.ExpiresAt != nil {
		until = " until " + is.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return finding{
		status: metav1.ConditionTrue, reason: releasev1alpha1.ReasonVerified,
		message: fmt.Sprintf("%s stands for the plan%s, and is known to the directory", shown(is.Author), until),
	}
}

func retryAfter(err error) time.Duration {
	var away *directory.UnavailableError
	if errors.As(err, &away) && away.RetryAfter > 0 {
		return max(away.RetryAfter, time.Second)
	}
	return retryUnavailable
}

// match says which admission lets the plan's Releases in.
func (f *facts) match(next *releasev1alpha1.ReleasePlanStatus) {
	admission, problem := pairing.Find(f.words, f.plan, f.admissions)
	if admission == nil {
		next.ReleasePlanAdmission = nil
		f.set(next, releasev1alpha1.ConditionMatched, metav1.ConditionFalse, reasonNotMatched, problem)
		return
	}
	name := admission.Namespace + "/" + admission.Name
	next.ReleasePlanAdmission = &releasev1alpha1.MatchedReleasePlanAdmission{Name: name, Active: !pairing.Blocked(f.words, admission)}
	f.set(next, releasev1alpha1.ConditionMatched, metav1.ConditionTrue, reasonMatched, "the ReleasePlanAdmission "+name+" lets Releases of the plan in")
}

func (f *facts) set(next *releasev1alpha1.ReleasePlanStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&next.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: f.plan.Generation, LastTransitionTime: metav1.NewTime(f.now),
	})
}
