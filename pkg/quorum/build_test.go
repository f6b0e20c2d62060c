package quorum

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

type specBuilder struct {
	spec approvalv1alpha1.ApprovalRequestSpec
}

// makeSpec asks on behalf of dev1 for the service account dev/builder.
func makeSpec() *specBuilder {
	return &specBuilder{approvalv1alpha1.ApprovalRequestSpec{
		Request: &approvalv1alpha1.CheckRequest{
			RequestedBy: approvalv1alpha1.Identity{Username: "dev1"},
			Subject:     approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: "dev", Name: "builder"},
		},
	}}
}

// Policy takes approvers as "user" or "@group".
func (b *specBuilder) Policy(name string, required int32, approvers ...string) *specBuilder {
	policy := approvalv1alpha1.ApprovalPolicy{Name: name, NumberOfApprovalsRequired: required}
	for _, a := range approvers {
		approver := approvalv1alpha1.Approver{Type: approvalv1alpha1.ApproverUser, Name: a}
		if a[0] == '@' {
			approver = approvalv1alpha1.Approver{Type: approvalv1alpha1.ApproverGroup, Name: a[1:]}
		}
		policy.Approvers = append(policy.Approvers, approver)
	}
	b.spec.Policies = append(b.spec.Policies, policy)
	return b
}

func (b *specBuilder) With(change func(*approvalv1alpha1.ApprovalRequestSpec)) *specBuilder {
	change(&b.spec)
	return b
}

func (b *specBuilder) SelfApproval() *specBuilder {
	b.spec.SelfApproval = approvalv1alpha1.SelfApprovalAllow
	return b
}

func (b *specBuilder) Sequential() *specBuilder {
	b.spec.Order = approvalv1alpha1.OrderSequential
	return b
}

func (b *specBuilder) Shared() *specBuilder {
	b.spec.SharedApprovers = approvalv1alpha1.SharedApproversAllow
	return b
}

func (b *specBuilder) Timeout(d time.Duration) *specBuilder {
	b.spec.Timeout = &metav1.Duration{Duration: d}
	return b
}

func (b *specBuilder) Obj() *approvalv1alpha1.ApprovalRequestSpec { return &b.spec }

func (b *specBuilder) ForbidAsserted() *specBuilder {
	b.spec.AssertedAnswers = approvalv1alpha1.AssertedAnswersForbid
	return b
}

// ownToken is what is stored of somebody who came with a token of his own.
func ownToken() map[string]approvalv1alpha1.ExtraValue {
	return map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=1"}}
}

type answerBuilder struct{ answer Answer }

// makeAnswer is given some seconds after the start; its UID follows from the rest.
func makeAnswer(user string, decision approvalv1alpha1.ApprovalDecision, second int) *answerBuilder {
	return &answerBuilder{Answer{
		UID:       types.UID(fmt.Sprintf("%s-%s-%d", user, decision, second)),
		Responder: approvalv1alpha1.Identity{Username: user, Extra: ownToken()}, Decision: decision, At: start.Add(time.Duration(second) * time.Second),
	}}
}

func (b *answerBuilder) Groups(groups ...string) *answerBuilder {
	b.answer.Responder.Groups = groups
	return b
}

// Asserted is an answer by impersonation.
func (b *answerBuilder) Asserted() *answerBuilder {
	b.answer.Responder.Extra = nil
	return b
}

func (b *answerBuilder) Comment(text string) *answerBuilder {
	b.answer.Comment = text
	return b
}

func (b *answerBuilder) GrantFor(d time.Duration) *answerBuilder {
	b.answer.GrantFor = &d
	return b
}

func (b *answerBuilder) AsOwner() *answerBuilder {
	b.answer.AsOwner = true
	return b
}

func (b *answerBuilder) UID(uid types.UID) *answerBuilder {
	b.answer.UID = uid
	return b
}

func (b *answerBuilder) Obj() Answer { return b.answer }

func approve(user string, second int, groups ...string) Answer {
	return makeAnswer(user, approvalv1alpha1.DecisionApprove, second).Groups(groups...).Obj()
}

func reject(user string, second int, groups ...string) Answer {
	return makeAnswer(user, approvalv1alpha1.DecisionReject, second).Groups(groups...).Comment("no").Obj()
}

func revoke(user string, second int) *answerBuilder {
	return makeAnswer(user, approvalv1alpha1.DecisionRevoke, second).Comment("leaked")
}
