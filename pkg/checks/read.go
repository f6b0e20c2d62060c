package checks

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// Bounds of the fields that are copied into a request's status, as its schema has them. Foreign kinds keep to none.
const (
	maxMessage  = 4096
	maxUsername = 4096
	maxReason   = 64
	maxDecision = 64
	maxComment  = 1024
	maxName     = 512
	maxEntries  = 128
)

// Read is the answer of a check, bounded so that it fits into a request's status. An unknown state, a state that
// cannot be read, or an end that cannot be read is the state error with a message for people.
func (k *Kind) Read(check *unstructured.Unstructured) duckv1alpha1.CheckStatus {
	raw, _ := check.Object["status"].(map[string]any)
	state, err := k.readState(check, raw)
	if err != nil {
		return unreadable(err)
	}
	status, err := readFields(raw)
	if err != nil {
		return unreadable(err)
	}
	status.State = state
	answerPresentSpec(&status, check.GetGeneration())
	return status
}

func unreadable(err error) duckv1alpha1.CheckStatus {
	return duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckError, Message: cut(err.Error(), maxMessage)}
}

func (k *Kind) readState(check *unstructured.Unstructured, status map[string]any) (duckv1alpha1.CheckState, error) {
	state, err := k.rawState(check, status)
	if err != nil {
		return "", err
	}
	switch state {
	case "":
		return duckv1alpha1.CheckPending, nil
	case duckv1alpha1.CheckPending, duckv1alpha1.CheckApproved, duckv1alpha1.CheckRejected, duckv1alpha1.CheckError, duckv1alpha1.CheckCancelled:
		return state, nil
	}
	return "", fmt.Errorf("the check says %q, which is none of pending, approved, rejected, error and cancelled", cut(string(state), maxReason))
}

func (k *Kind) rawState(check *unstructured.Unstructured, status map[string]any) (duckv1alpha1.CheckState, error) {
	if k.state != nil {
		return k.state.read(check.Object)
	}
	value, ok := status["state"]
	if !ok || value == nil {
		return "", nil
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("the check's status.state is no text; it must be pending, approved, rejected, error or cancelled")
	}
	return duckv1alpha1.CheckState(text), nil
}

// readFields reads what stands beside the state. Fields of other kinds may have the same names and another meaning, so
// a field that only informs is left out when it has another shape; one that ends a grant must be understood.
func readFields(raw map[string]any) (duckv1alpha1.CheckStatus, error) {
	var s duckv1alpha1.CheckStatus
	_ = decode(raw, "reason", &s.Reason)
	_ = decode(raw, "message", &s.Message)
	_ = decode(raw, "observedGeneration", &s.ObservedGeneration)
	_ = decode(raw, "decidedBy", &s.DecidedBy)
	_ = decode(raw, "waitingFor", &s.WaitingFor)
	if err := decode(raw, "grantFor", &s.GrantFor); err != nil {
		return s, fmt.Errorf("the check's status.grantFor is no duration such as 30m")
	}
	if err := decode(raw, "notAfter", &s.NotAfter); err != nil {
		return s, fmt.Errorf("the check's status.notAfter is no time such as 2030-01-02T15:04:05Z")
	}
	bound(&s)
	return s, nil
}

// decode leaves target at its zero value when the field is absent or has another shape.
func decode[T any](raw map[string]any, field string, target *T) error {
	value, ok := raw[field]
	if !ok || value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var read T
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*target = read
	return nil
}

func bound(s *duckv1alpha1.CheckStatus) {
	s.Reason = cut(s.Reason, maxReason)
	s.Message = cut(s.Message, maxMessage)
	s.DecidedBy = s.DecidedBy[:min(len(s.DecidedBy), maxEntries)]
	for i := range s.DecidedBy {
		d := &s.DecidedBy[i]
		d.Username, d.Decision, d.Comment = cut(d.Username, maxUsername), cut(d.Decision, maxDecision), cut(d.Comment, maxComment)
	}
	s.WaitingFor = s.WaitingFor[:min(len(s.WaitingFor), maxEntries)]
	for i := range s.WaitingFor {
		boundWaiting(&s.WaitingFor[i])
	}
}

func boundWaiting(w *duckv1alpha1.CheckWaiting) {
	w.Name = cut(w.Name, maxName)
	w.Missing = max(w.Missing, 0)
	if w.Kind != duckv1alpha1.WaitingForUser && w.Kind != duckv1alpha1.WaitingForGroup {
		w.Kind = duckv1alpha1.WaitingForOther
	}
}

// answerPresentSpec takes an approval of an earlier spec for none: the kind's controller has not seen the present one.
func answerPresentSpec(s *duckv1alpha1.CheckStatus, generation int64) {
	if s.State != duckv1alpha1.CheckApproved || s.ObservedGeneration == 0 || s.ObservedGeneration >= generation {
		return
	}
	s.State = duckv1alpha1.CheckPending
	s.Message = "the approval is for an earlier spec of the check; its controller has not looked at the present one yet"
}
