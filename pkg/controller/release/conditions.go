package release

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

const (
	// maxMessage bounds the message of a condition, in characters; the API takes 32 KiB, people less.
	maxMessage = 2048
	// maxAuthor is how many characters of a user name the schema takes.
	maxAuthor = 4096
)

// finished tells that the Release came to its end. Other release controllers call a Release that goes on False, too, with
// the reason Progressing.
func finished(status *releasev1alpha1.ReleaseStatus) bool {
	released := apimeta.FindStatusCondition(status.Conditions, releasev1alpha1.ConditionReleased)
	switch {
	case released == nil, released.Status == metav1.ConditionUnknown:
		return false
	case released.Status == metav1.ConditionTrue:
		return true
	}
	return released.Reason != releasev1alpha1.ReasonProgressing
}

func (s *step) set(f *facts, kind string, value metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&s.status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: plaintext.Line(message, maxMessage),
		ObservedGeneration: f.release.Generation, LastTransitionTime: f.moment(f.now),
	})
}

// wait says what the validation waits for.
func (s *step) wait(f *facts, reason, message string) {
	s.set(f, releasev1alpha1.ConditionValidated, metav1.ConditionUnknown, reason, message)
	s.set(f, releasev1alpha1.ConditionReleased, metav1.ConditionUnknown, releasev1alpha1.ReasonProgressing, "the Release waits to be validated")
}

// invalid ends the Release because its validation failed, though it may have passed once.
func (s *step) invalid(f *facts, reason, message string) {
	was := apimeta.IsStatusConditionTrue(f.release.Status.Conditions, releasev1alpha1.ConditionValidated)
	s.status.Validation = &releasev1alpha1.ValidationInfo{FailedPostValidation: was, Time: f.time(f.now)}
	s.status.ManagedProcessing = nil
	s.set(f, releasev1alpha1.ConditionValidated, metav1.ConditionFalse, reason, message)
	s.failed(f, message)
}

// failed ends the Release without success.
func (s *step) failed(f *facts, message string) {
	s.set(f, releasev1alpha1.ConditionReleased, metav1.ConditionFalse, releasev1alpha1.ReasonFailed, message)
	s.status.CompletionTime = f.time(f.now)
	s.start, s.ask, s.ensureRule = nil, false, false
}

// moment has the precision that the API server keeps.
func (f *facts) moment(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

func (f *facts) time(t time.Time) *metav1.Time {
	at := f.moment(t)
	return &at
}

// attributed reads who answers for the Release, in whichever wording the vocabulary has.
func attributed(words attribution.Vocabulary, status *releasev1alpha1.ReleaseStatus) releasev1alpha1.Attribution {
	switch {
	case words.StatusField == attribution.StatusAuthorization && status.Authorization != nil:
		a := status.Authorization
		return releasev1alpha1.Attribution{
			Author: a.Author, StandingAttribution: a.StandingAuthorization, Verified: a.Verified, VerifiedAt: a.VerifiedAt,
		}
	case words.StatusField != attribution.StatusAuthorization && status.Attribution != nil:
		return *status.Attribution
	}
	return releasev1alpha1.Attribution{}
}

func attribute(words attribution.Vocabulary, status *releasev1alpha1.ReleaseStatus, a releasev1alpha1.Attribution) {
	if words.StatusField != attribution.StatusAuthorization {
		status.Attribution = &a
		return
	}
	status.Authorization = &releasev1alpha1.Authorization{
		Author: a.Author, StandingAuthorization: a.StandingAttribution, Verified: a.Verified, VerifiedAt: a.VerifiedAt,
	}
}
