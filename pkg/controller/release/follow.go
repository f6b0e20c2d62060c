package release

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// maxSaid bounds what is repeated of a run's own message, in characters.
const maxSaid = 512

// follow reflects the run that the status names, and tells whether there is nothing else to do. A run that is named but
// has not been seen yet was about to be started: then everything is asked again before it is.
func (s *step) follow(f *facts) bool {
	processing := s.status.ManagedProcessing
	if processing == nil || processing.PipelineRun == "" {
		return false
	}
	started := processing.StartTime != nil
	switch {
	case f.run == nil && !started:
		return false
	case f.run == nil:
		s.processed(f, false, "the pipeline run "+processing.PipelineRun+" was deleted while it was going on"+anew)
	case !started && f.since.IsZero():
		s.wait(f, approvalv1alpha1.ReasonUnguarded, "it cannot be told now who made the pipeline run "+processing.PipelineRun)
		s.again = retryUnguarded
	case !f.ownRun(started):
		s.processed(f, false, "the pipeline run "+processing.PipelineRun+" was not made by this controller for this Release: let its owners delete it, then create the Release anew")
	default:
		s.reflect(f)
	}
	return true
}

// ownRun tells whether the run is the one that this controller made. Its name follows from the Release's UID; who made it
// is what the API server recorded, not what somebody assigned later. Labels are looked at when it is met for the first time
// only, because others may change them later.
func (f *facts) ownRun(known bool) bool {
	record := f.run.GetAnnotations()
	if record[approvalv1alpha1.AnnotationCreatedBy] != f.username || record[approvalv1alpha1.AnnotationMigratedBy] != "" {
		return false
	}
	return known || f.run.GetLabels()[releasev1alpha1.LabelReleaseUID] == string(f.release.UID) &&
		f.run.GetCreationTimestamp().After(f.since)
}

// runState is what a run says of itself.
type runState struct {
	StartTime      *metav1.Time       `json:"startTime"`
	CompletionTime *metav1.Time       `json:"completionTime"`
	Conditions     []metav1.Condition `json:"conditions"`
}

// stateOf takes any object; what has an unexpected shape counts as absent.
func stateOf(run *unstructured.Unstructured) runState {
	var state runState
	if status, ok := run.Object["status"].(map[string]any); ok {
		if raw, err := json.Marshal(status); err == nil {
			_ = json.Unmarshal(raw, &state)
		}
	}
	return state
}

// succeeded is the condition that tells how a run ended; nil before there is one.
func (r *runState) succeeded() *metav1.Condition {
	for i := range r.Conditions {
		if r.Conditions[i].Type == "Succeeded" {
			return &r.Conditions[i]
		}
	}
	return nil
}

// reflect says in the Release how its run goes.
func (s *step) reflect(f *facts) {
	state, processing := stateOf(f.run), s.status.ManagedProcessing
	if processing.StartTime == nil {
		created := f.run.GetCreationTimestamp()
		processing.StartTime = f.time(created.Time)
	}
	condition := state.succeeded()
	switch {
	case condition == nil || condition.Status == metav1.ConditionUnknown:
		message := "the pipeline run " + processing.PipelineRun + " is going on"
		s.set(f, releasev1alpha1.ConditionManagedPipelineProcessed, metav1.ConditionUnknown, releasev1alpha1.ReasonProgressing, message)
		s.set(f, releasev1alpha1.ConditionReleased, metav1.ConditionUnknown, releasev1alpha1.ReasonProgressing, message)
		s.again = recheckRun
		return
	case condition.Status == metav1.ConditionTrue:
		s.complete(f, state.CompletionTime)
		s.processed(f, true, "the pipeline run "+processing.PipelineRun+" succeeded")
	default:
		s.complete(f, state.CompletionTime)
		s.processed(f, false, fmt.Sprintf("the pipeline run %s failed (%s), saying: %s",
			processing.PipelineRun, plaintext.Line(condition.Reason, maxSaid), plaintext.Quote(condition.Message, maxSaid)))
	}
}

func (s *step) complete(f *facts, at *metav1.Time) {
	if at == nil || at.IsZero() {
		at = f.time(f.now)
	}
	s.status.ManagedProcessing.CompletionTime = at
}

// processed ends the Release with its run.
func (s *step) processed(f *facts, succeeded bool, message string) {
	s.again = time.Duration(0)
	if s.status.ManagedProcessing.CompletionTime == nil {
		s.status.ManagedProcessing.CompletionTime = f.time(f.now)
	}
	if !succeeded {
		s.set(f, releasev1alpha1.ConditionManagedPipelineProcessed, metav1.ConditionFalse, releasev1alpha1.ReasonFailed, message)
		s.failed(f, message)
		return
	}
	s.set(f, releasev1alpha1.ConditionManagedPipelineProcessed, metav1.ConditionTrue, releasev1alpha1.ReasonSucceeded, message)
	s.set(f, releasev1alpha1.ConditionReleased, metav1.ConditionTrue, releasev1alpha1.ReasonSucceeded, message)
	s.status.CompletionTime = f.time(f.now)
}
