package checks

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// Initial is whom a check waits for before anybody answered, and the sentence that says so. Both are known at once for
// ApprovalRequests, so the first status that tells of the check is already the one that stays until somebody answers.
func (k *Kind) Initial(check *unstructured.Unstructured) (waiting []duckv1alpha1.CheckWaiting, message string) {
	if k.gvk.GroupKind() != builtIn(kindApprovalRequest) {
		return nil, ""
	}
	var spec approvalv1alpha1.ApprovalRequestSpec
	if decode(check.Object, "spec", &spec) != nil {
		return nil, ""
	}
	outcome := quorum.Count(quorum.Input{Spec: &spec})
	return outcome.WaitingFor, outcome.Message
}

// Deadline is when a check made now from this template is given up if nobody answers; nil if its kind has no time-out
// of ours.
func (k *Kind) Deadline(template *approvalv1alpha1.CheckTemplate, now time.Time) *metav1.Time {
	switch k.gvk.GroupKind() {
	case builtIn(kindApprovalRequest), builtIn(kindScriptCheck), builtIn(kindAttributionCheck):
	default:
		return nil
	}
	var spec struct {
		Timeout *metav1.Duration `json:"timeout"`
	}
	// A template that cannot be read makes no check, so its deadline does not matter.
	_ = json.Unmarshal(template.Spec.Raw, &spec)
	timeout := quorum.DefaultTimeout
	if spec.Timeout != nil {
		timeout = spec.Timeout.Duration
	}
	deadline := metav1.NewTime(now.Add(timeout).UTC().Truncate(time.Second))
	return &deadline
}
