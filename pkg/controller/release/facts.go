package release

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// facts are everything that the next step of a Release follows from. Nothing in them is changed.
type facts struct {
	words attribution.Vocabulary
	// username is the controller's own.
	username string
	// foreign tells that the Release kinds are another product's: then only the attribution is asked for.
	foreign bool
	now     time.Time
	// since is the moment from which on creator records are believed; zero means that none is.
	since time.Time

	release *releasev1alpha1.Release
	// plan is what has the name that the Release gives; nil if nothing has.
	plan *releasev1alpha1.ReleasePlan
	// admissions are those of the plan's target namespace that the plan may mean, or all of them.
	admissions []releasev1alpha1.ReleasePlanAdmission
	// strategy is the one that the admission names, where the vocabulary has strategies; nil if there is none.
	strategy *releasev1alpha1.ReleaseStrategy
	// pipelineMissing is why the pipeline that is to run cannot be run; empty if it can, as far as is known.
	pipelineMissing string
	// unguarded is why the admission policies do not count now; empty while they are in force.
	unguarded string
	// rules are all of the plan's namespace that guard the plan.
	rules []approvalv1alpha1.ResourceCheckRule
	// request is the one that this controller made for the Release; nil if there is none.
	request *approvalv1alpha1.ResourceCheckRequest
	// check is what the request made of the attribution rule; nil if it was not looked at or is gone.
	check *approvalv1alpha1.AttributionCheck
	// run is what has the name of the Release's run; nil if nothing has, or there is none yet.
	run *unstructured.Unstructured
}

// step is what is to be done about a Release, in the order of the fields. Its zero value but for the status is: nothing.
type step struct {
	// copyAuthor is the standing author that the Release is to be labelled with.
	copyAuthor string
	// ensureRule says that the plan's attribution rule is not as it should be.
	ensureRule bool
	// ask says that the request is to be made.
	ask bool
	// status is what the status is to be.
	status releasev1alpha1.ReleaseStatus
	// start is the run that is to be made once the status is stored; nil for none.
	start *unstructured.Unstructured
	// again is when to look again although nothing is announced; 0 for never.
	again time.Duration
}

// decisive tells that the step rests on what a cache may have wrong and cannot be taken back. The end of a run is not,
// because runs are read from the API server.
func (s *step) decisive(before *releasev1alpha1.ReleaseStatus) bool {
	refused := func(status *releasev1alpha1.ReleaseStatus) bool {
		return apimeta.IsStatusConditionFalse(status.Conditions, releasev1alpha1.ConditionValidated)
	}
	return s.start != nil || refused(&s.status) && !refused(before)
}

// standing is what admission fixed on the Release; nil if there is nothing, or nothing that can be read.
func (f *facts) standing() *attribution.Standing {
	s, err := attribution.ParseStanding(f.release.Annotations[approvalv1alpha1.AnnotationStanding])
	if err != nil {
		return nil
	}
	return s
}

// automated tells that a program made the Release, which admission let say so.
func (f *facts) automated() bool {
	return f.release.Annotations[approvalv1alpha1.AnnotationAutomated] != ""
}

// planNow is the plan as attribution compares it.
func (f *facts) planNow() *attribution.Standing {
	if f.plan == nil {
		return nil
	}
	now, _ := attribution.OfPlan(f.plan, f.words)
	return now
}

// ownRequest tells whether a request was made by this controller for exactly this Release.
func ownRequest(request *approvalv1alpha1.ResourceCheckRequest, username string, release types.UID) bool {
	by, about := request.Spec.RequestedBy, request.Spec.Context.Resource
	return by != nil && by.Username == username && about != nil && about.UID == release
}
