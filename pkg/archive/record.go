package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Version and RecordKind are what apiVersion and kind of a line say. Fields may be added under the same version.
const (
	Version    = "archive.alaudadevops.io/v1"
	RecordKind = "Evidence"
)

// Occasion says why a line was written.
type Occasion string

// Occasions.
const (
	// OccasionRetention: what ended is old enough to be deleted.
	OccasionRetention Occasion = "Retention"
	// OccasionDeleted: the request was deleted by somebody else.
	OccasionDeleted Occasion = "Deleted"
	// OccasionNamespaceDeleted: a namespace with the request or its checks is being deleted.
	OccasionNamespaceDeleted Occasion = "NamespaceDeleted"
)

// Record is one line of evidence.
type Record struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	At         metav1.Time `json:"at"`
	Occasion   Occasion    `json:"occasion"`
	// RequestUID is there even if the request itself is not known any more.
	RequestUID string `json:"requestUID"`
	// Ended is how the request ended; absent if it had not.
	Ended *approvalv1alpha1.Ended `json:"ended,omitempty"`
	// Run is the run of the request with its creators, as the checks say.
	Run []approvalv1alpha1.ContextHop `json:"run,omitempty"`
	// Request is the whole request. Its status holds the rules with spec and author.
	Request *approvalv1alpha1.ResourceCheckRequest `json:"request,omitempty"`
	// Checks are all checks that were made for the request, whole.
	Checks []*unstructured.Unstructured `json:"checks,omitempty"`
	// Answers are the ApprovalResponses to these checks, whole.
	Answers []approvalv1alpha1.ApprovalResponse `json:"answers,omitempty"`
	// Asserted are the users of this line who asked or answered without a credential of their own, sorted: that it was they
	// is another's word. Line sets it.
	Asserted []string `json:"asserted,omitempty"`
}

// asserted is the value of Asserted.
func (r *Record) asserted() []string {
	var names []string
	add := func(who *approvalv1alpha1.Identity) {
		if who != nil && who.Asserted() {
			names = append(names, who.Username)
		}
	}
	if r.Request != nil {
		add(r.Request.Spec.RequestedBy)
	}
	for i := range r.Answers {
		add(r.Answers[i].Spec.Responder)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Line is the record as one line of JSON without its newline. Who wrote which field when is left out: it is bookkeeping
// of the API server, and twice as long as the rest.
func (r *Record) Line() ([]byte, error) {
	whole := *r
	whole.APIVersion, whole.Kind, whole.Asserted = Version, RecordKind, r.asserted()
	if r.Request != nil {
		whole.Request = r.Request.DeepCopy()
		whole.Request.ManagedFields = nil
	}
	whole.Checks = make([]*unstructured.Unstructured, len(r.Checks))
	for i, check := range r.Checks {
		whole.Checks[i] = check.DeepCopy()
		whole.Checks[i].SetManagedFields(nil)
	}
	whole.Answers = make([]approvalv1alpha1.ApprovalResponse, len(r.Answers))
	for i := range r.Answers {
		r.Answers[i].DeepCopyInto(&whole.Answers[i])
		whole.Answers[i].ManagedFields = nil
	}
	line, err := json.Marshal(&whole)
	if err != nil {
		return nil, fmt.Errorf("the evidence of request %s cannot be written as JSON: %w", r.RequestUID, err)
	}
	return bytes.TrimSpace(line), nil
}
