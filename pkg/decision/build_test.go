package decision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

var now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func paths(patterns ...string) *approvalv1alpha1.OperationSelector {
	return &approvalv1alpha1.OperationSelector{HTTP: &approvalv1alpha1.HTTPSelector{Paths: patterns}}
}

func put(t testing.TB, path string) operation.Operation {
	t.Helper()
	parsed, err := operation.Parse(path)
	require.NoError(t, err)
	return operation.Operation{Class: operation.Write, Method: "PUT", Path: parsed}
}

type ruleBuilder struct {
	rule approvalv1alpha1.ResourceCheckRule
}

// makeRule is for every write; its UID is "uid-" and its name, its generation 1.
func makeRule(name string) *ruleBuilder {
	b := &ruleBuilder{}
	b.rule.Name, b.rule.UID, b.rule.Generation = name, types.UID("uid-"+name), 1
	return b
}

func (b *ruleBuilder) When(selector *approvalv1alpha1.OperationSelector) *ruleBuilder {
	b.rule.Spec.When = selector
	return b
}

func (b *ruleBuilder) Generation(generation int64) *ruleBuilder {
	b.rule.Generation = generation
	return b
}

func (b *ruleBuilder) UID(uid types.UID) *ruleBuilder {
	b.rule.UID = uid
	return b
}

func (b *ruleBuilder) Ready(status metav1.ConditionStatus, observed int64) *ruleBuilder {
	b.rule.Status.Conditions = []metav1.Condition{{
		Type: approvalv1alpha1.ConditionReady, Status: status, ObservedGeneration: observed,
		Reason: approvalv1alpha1.ReasonUnknownCheckKind, Message: "nobody registered the kind",
	}}
	return b
}

func (b *ruleBuilder) Obj() Rule { return FromRule(&b.rule) }

type requestBuilder struct {
	request approvalv1alpha1.ResourceCheckRequest
}

// makeRequest is for every write to Connector prod/harbor, and its snapshot has been taken.
func makeRequest(name string) *requestBuilder {
	b := &requestBuilder{}
	b.request.Namespace, b.request.Name, b.request.UID = "dev", name, types.UID("uid-"+name)
	b.request.Spec.ObjectRef = approvalv1alpha1.ObjectReference{
		APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o1"}
	b.request.Spec.Context.Subject = &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "dev1"}
	b.request.Status.Object = &approvalv1alpha1.ObjectSnapshot{UID: "o1", Generation: 1}
	return b
}

func (b *requestBuilder) With(change func(*approvalv1alpha1.ResourceCheckRequest)) *requestBuilder {
	change(&b.request)
	return b
}

// Created says how long after the others the request was made.
func (b *requestBuilder) Created(after time.Duration) *requestBuilder {
	b.request.CreationTimestamp = metav1.NewTime(b.request.CreationTimestamp.Add(after))
	return b
}

func (b *requestBuilder) Use(selector *approvalv1alpha1.OperationSelector) *requestBuilder {
	b.request.Spec.Use = selector
	return b
}

func (b *requestBuilder) Result(rule string, state duckv1alpha1.CheckState, waiting ...string) *requestBuilder {
	result := approvalv1alpha1.CheckResult{Name: rule, UID: types.UID("uid-" + rule), Generation: 1, State: state}
	for _, group := range waiting {
		result.WaitingFor = append(result.WaitingFor, duckv1alpha1.CheckWaiting{Kind: duckv1alpha1.WaitingForGroup, Name: group, Missing: 2})
	}
	b.request.Status.Results = append(b.request.Status.Results, result)
	return b
}

func (b *requestBuilder) Message(text string) *requestBuilder {
	b.request.Status.Results[len(b.request.Status.Results)-1].Message = text
	return b
}

func (b *requestBuilder) ResultEnds(after time.Duration) *requestBuilder {
	b.request.Status.Results[len(b.request.Status.Results)-1].NotAfter = &metav1.Time{Time: now.Add(after)}
	return b
}

// Valid takes times relative to now.
func (b *requestBuilder) Valid(from, to time.Duration) *requestBuilder {
	b.request.Status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(now.Add(from)), NotAfter: metav1.NewTime(now.Add(to))}
	return b
}

func (b *requestBuilder) Ended(reason string) *requestBuilder {
	b.request.Status.Ended = &approvalv1alpha1.Ended{At: metav1.NewTime(now.Add(-time.Hour)), Reason: reason, Message: "so it was decided."}
	return b
}

func (b *requestBuilder) Follows(uid types.UID) *requestBuilder {
	b.request.Status.Follows = &approvalv1alpha1.RequestReference{UID: uid}
	b.request.Status.Object = nil
	return b
}

func (b *requestBuilder) Obj(t testing.TB) *Request {
	t.Helper()
	r, err := FromRequest(&b.request)
	require.NoError(t, err)
	return r
}
