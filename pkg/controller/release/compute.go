package release

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
)

// When to look again at what announces itself by no event.
const (
	// retryUnguarded is for policies that are not in force; that they are again is announced too.
	retryUnguarded = 30 * time.Second
	// recheckRun is for a run whose changes come by a watch that this controller does not own.
	recheckRun = 10 * time.Minute
)

// compute is the next step of a Release. It is pure.
//
// The order is that of the ADR: who answers for it, is that a person, then everything else that guards the plan, then the
// pipeline. What is missing is told before anybody is asked.
func compute(f *facts) *step {
	s := &step{status: *f.release.Status.DeepCopy()}
	if f.foreign {
		// Nothing is written there, so each step begins anew.
		s.status = releasev1alpha1.ReleaseStatus{}
	}
	if finished(&f.release.Status) {
		return s
	}
	s.begin(f)
	if !f.foreign && s.follow(f) {
		return s
	}
	s.validate(f)
	return s
}

// begin notes what is known from the start.
func (s *step) begin(f *facts) {
	s.status.ObservedGeneration = f.release.Generation
	if s.status.StartTime == nil {
		s.status.StartTime = f.time(f.now)
	}
	s.status.Automated = f.automated()
	if f.plan != nil {
		s.status.Target = f.plan.Spec.Target
	}
	if f.request != nil {
		s.status.Request = f.request.Name
	}
}

// validate takes the steps of the validation, until one fails or has to wait.
func (s *step) validate(f *facts) {
	if problem := f.incomplete(); problem != "" {
		s.invalid(f, releasev1alpha1.ReasonValidationError, problem)
		return
	}
	if !s.name(f) {
		return
	}
	pipeline, problem := f.pipeline()
	if problem == "" {
		problem = s.expandable(f)
	}
	if problem != "" {
		s.invalid(f, releasev1alpha1.ReasonValidationError, problem)
		return
	}
	if s.checked(f) {
		s.pass(f, pipeline)
	}
}

// incomplete is what the Release does not say.
func (f *facts) incomplete() string {
	const advice = "a Release cannot be changed in this, so create another"
	switch {
	case f.release.Spec.ReleasePlan == "":
		return "spec.releasePlan is empty, so it is not known where to release to: " + advice
	case f.release.Spec.Snapshot == "":
		return "spec.snapshot is empty, so it is not known what to release: " + advice
	}
	return ""
}

// name settles who answers for the Release, as far as admission recorded it.
func (s *step) name(f *facts) bool {
	was := attributed(f.words, &s.status)
	who := f.behind(was)
	if utf8.RuneCountInString(who.Author) > maxAuthor {
		// Not even shortened does it stand in the status, because that might be another's.
		s.invalid(f, releasev1alpha1.ReasonValidationError, fmt.Sprintf(
			"the user name of the Release's author has more than %d characters, which no directory knows: create the Release anew as somebody else", maxAuthor))
		return false
	}
	is := releasev1alpha1.Attribution{Author: who.Author, StandingAttribution: who.Source == approvalv1alpha1.SourceStanding}
	if was.Verified && was.Author == is.Author {
		is.Verified, is.VerifiedAt = true, was.VerifiedAt
	}
	attribute(f.words, &s.status, is)
	if !who.Attributed() {
		if !f.unrecorded() || s.checked(f) {
			s.invalid(f, releasev1alpha1.ReasonValidationError, f.mend(who.Reason, who.Message))
		}
		return false
	}
	if who.Source == approvalv1alpha1.SourceStanding && !f.foreign && !f.labelled(who.Author) {
		s.copyAuthor = who.Author
	}
	return true
}

// unrecorded tells that nothing keeps yet who answers for another product's Release, or why nobody does: that is its check,
// which is therefore asked even if the answer is known. Without a plan there is nothing to ask about.
func (f *facts) unrecorded() bool {
	return f.foreign && f.plan != nil && (f.check == nil || f.check.Status.State == "" || f.check.Status.State == duckv1alpha1.CheckPending)
}

// expandable is why the author's name cannot be handed to a pipeline: Tekton replaces variables in stages, so one that a
// parameter brings in is replaced in the next, by the result of a task for example. All other values are names of objects,
// or the admission's.
func (s *step) expandable(f *facts) string {
	if f.foreign || !strings.Contains(attributed(f.words, &s.status).Author, "$(") {
		return ""
	}
	return "the user name of the Release's author has \"$(\" in it, which a pipeline would expand: create the Release anew as somebody else"
}

// behind asks the pure core who is accountable. A standing attribution must not have ended before it was verified; what
// happens to its end later is no matter, because the author is not validated twice.
func (f *facts) behind(was releasev1alpha1.Attribution) attribution.Verdict {
	now := f.now
	if was.Verified && was.VerifiedAt != nil {
		now = was.VerifiedAt.Time
	}
	return attribution.Behind(attribution.Facts{
		Kind: releasev1alpha1.KindRelease, Namespace: f.release.Namespace, Name: f.release.Name,
		Author: f.release.Annotations[approvalv1alpha1.AnnotationAuthor], Automated: f.automated(),
		Standing: f.standing(), StandingNow: f.planNow(), Now: now,
	})
}

// labelled tells whether the author has been copied to the Release.
func (f *facts) labelled(author string) bool {
	return f.release.Annotations[approvalv1alpha1.AnnotationAuthor] == author &&
		f.release.Labels[f.words.AuthorLabel] == attribution.LabelValue(author)
}

// pipeline is what is to run, or a sentence on what is missing. Where the kinds are another product's, that is its matter.
func (f *facts) pipeline() (*pipelineSpec, string) {
	if f.foreign {
		return nil, ""
	}
	admission, problem := pairing.Find(f.words, f.plan, f.admissions)
	if problem != "" {
		return nil, problem + ", then create the Release anew"
	}
	if pairing.Blocked(f.words, admission) {
		return nil, fmt.Sprintf("the ReleasePlanAdmission %s/%s lets no Releases through now, because its label %s is true: create the Release anew when that is over",
			admission.Namespace, admission.Name, f.words.BlockReleasesLabel)
	}
	spec, problem := pipelineOf(f.words, admission, f.strategy)
	if problem == "" {
		problem = f.pipelineMissing
	}
	return spec, problem
}

// pass starts the run.
func (s *step) pass(f *facts, pipeline *pipelineSpec) {
	s.set(f, releasev1alpha1.ConditionValidated, metav1.ConditionTrue, releasev1alpha1.ReasonSucceeded, s.passed(f))
	if f.foreign {
		return
	}
	if s.status.Validation == nil {
		s.status.Validation = &releasev1alpha1.ValidationInfo{Time: f.time(f.now)}
	}
	s.start = s.newRun(f, pipeline)
	run := s.start.GetNamespace() + "/" + s.start.GetName()
	if named := s.status.ManagedProcessing; named != nil && named.PipelineRun == run {
		// Why it could not be started the last time may stand there.
		return
	}
	s.status.ManagedProcessing = &releasev1alpha1.PipelineInfo{PipelineRun: run}
	s.set(f, releasev1alpha1.ConditionReleased, metav1.ConditionUnknown, releasev1alpha1.ReasonProgressing,
		"the pipeline run "+run+" is about to be started")
}

func (s *step) passed(f *facts) string {
	who := attributed(f.words, &s.status)
	if who.StandingAttribution {
		return fmt.Sprintf("%s answers for the Release by the ReleasePlan %s, and every check has approved", who.Author, f.plan.Name)
	}
	return fmt.Sprintf("%s answers for the Release, and every check has approved", who.Author)
}
