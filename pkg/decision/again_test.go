package decision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// Whoever had been let in reads what changed, until the new question is answered.
func TestAskedAgainSaysWhatChanged(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	granted := &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(now.Add(-time.Minute)), NotAfter: metav1.NewTime(now.Add(time.Hour))}
	superseded := func(reason string) []approvalv1alpha1.SupersededResult {
		return []approvalv1alpha1.SupersededResult{{Reason: reason}}
	}
	tests := map[string]struct {
		validity   *approvalv1alpha1.Validity
		superseded []approvalv1alpha1.SupersededResult
		want       string
	}{
		"never granted":              {nil, nil, approvalv1alpha1.ReasonChecksPending},
		"edited before the grant":    {nil, superseded(approvalv1alpha1.ReasonRulesChanged), approvalv1alpha1.ReasonChecksPending},
		"a rule was edited":          {granted, superseded(approvalv1alpha1.ReasonRulesChanged), approvalv1alpha1.ReasonRulesChanged},
		"a rule was added":           {granted, nil, approvalv1alpha1.ReasonRulesChanged},
		"the object was changed":     {granted, superseded(approvalv1alpha1.ReasonObjectChanged), approvalv1alpha1.ReasonObjectChanged},
		"a check had gone meanwhile": {granted, superseded(SupersededCheckGone), approvalv1alpha1.ReasonRulesChanged},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stored := &approvalv1alpha1.ResourceCheckRequest{
				Spec: approvalv1alpha1.ResourceCheckRequestSpec{Context: approvalv1alpha1.RequestContext{
					Subject: &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "dev"},
				}},
				Status: approvalv1alpha1.ResourceCheckRequestStatus{
					Object: &approvalv1alpha1.ObjectSnapshot{UID: "o", Generation: 1}, Validity: tt.validity, Superseded: tt.superseded,
					Results: []approvalv1alpha1.CheckResult{{
						Name: "owners", UID: "r", Generation: 2, State: duckv1alpha1.CheckPending,
						WaitingFor: []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForGroup, Name: "prod-owners"}},
					}},
				},
			}
			request, err := FromRequest(stored)
			assert.NoError(t, err)
			verdict := Decide(&Input{
				Object: Object{Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o", Generation: 1},
				Rules:  []Rule{{RuleRef: RuleRef{Name: "owners", UID: "r", Generation: 2}}}, Requests: []*Request{request},
				Operation: operation.Operation{Class: operation.Write}, Now: now,
			})
			assert.Equal(t, tt.want, verdict.Reason)
			assert.Contains(t, verdict.Message, "prod-owners", "it is said who is to answer")
		})
	}
}
