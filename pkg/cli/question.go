package cli

import (
	"encoding/json"
	"fmt"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// questionSheet is what the controller wrote into the check.
func questionSheet(out *sheet, q *approvalv1alpha1.CheckRequest, now time.Time) {
	out.field("Request", "%s/%s", showName(q.Ref.Namespace), showName(q.Ref.Name))
	out.field("Object", "%s", objectText(q.Object))
	out.field("Use", "%s", useText(q.Use))
	out.field("For", "%s", subjectText(&q.Subject))
	out.field("Asked by", "%s", showIdentity(&q.RequestedBy))
	out.optional("Person", show(q.Person))
	if q.Reason != "" {
		out.field("Reason", "%s", words(q.Reason))
	}
	out.optional("Duration", show(q.Duration))
	out.list("Context", hopLines(q.Context))
	out.optional("Pipeline", show(q.Pipeline))
	out.list("Parameters", parameterLines(q.Parameters))
	out.optional("Deadline", optionalMoment(q.Deadline, now))
	out.list("Rule", []string{
		fmt.Sprintf("%s, generation %d, by %s", showName(q.Rule.Name), q.Rule.Generation, showName(q.Rule.LastAuthor)),
		"  covers   " + useText(q.Rule.Spec.When),
	})
}

func hopLines(hops []approvalv1alpha1.ContextHop) []string {
	lines := make([]string, 0, len(hops))
	for i := range hops {
		hop := &hops[i]
		line := objectText(hop.Resource) + ", created by " + showName(hop.CreatedBy)
		if !hop.Proven && i < len(hops)-1 {
			line += " (not proven to belong to the next)"
		}
		lines = append(lines, line)
	}
	return lines
}

func parameterLines(parameters []approvalv1alpha1.Parameter) []string {
	lines := make([]string, 0, len(parameters))
	for _, parameter := range parameters {
		lines = append(lines, showName(parameter.Name)+"="+plaintext.Quote(parameter.Value, maxName))
	}
	return lines
}

// contextSheet is what every check of any kind says of the question.
func contextSheet(out *sheet, annotation string) {
	var context approvalv1alpha1.CheckContext
	if annotation == "" || json.Unmarshal([]byte(annotation), &context) != nil {
		return
	}
	out.field("Object", "%s", objectText(context.Object))
	out.field("Use", "%s", useText(context.Use))
	out.field("For", "%s", subjectText(&context.Subject))
	out.optional("Run", runText(context.Resource))
	if context.Reason != "" {
		out.field("Reason", "%s", words(context.Reason))
	}
	out.optional("Rule", showName(context.Rule))
}

// approvalSheet is who may answer.
func approvalSheet(out *sheet, a *approvalv1alpha1.ApprovalRequest, now time.Time) {
	out.optional("Description", show(a.Spec.Description))
	out.list("Policies", policyLines(a))
	if a.Spec.Order == approvalv1alpha1.OrderSequential {
		out.field("Order", "one policy after the other")
	}
	if a.Spec.AssertedAnswers == approvalv1alpha1.AssertedAnswersForbid {
		out.field("Answers with", "a token of one's own; impersonation does not count")
	}
	if q := a.Spec.Request; q != nil && a.Spec.SelfApproval != approvalv1alpha1.SelfApprovalAllow {
		out.list("Excluded", shownNames(q.Excluded))
		if q.UnknownCreator {
			out.field("Note", "the creator of an object of the context is not known, so nobody can be shown to be independent")
		}
	}
	if a.Status.State == "" || a.Status.State == "pending" {
		out.field("Given up", "%s", momentText(deadline(a), now))
	}
	if revocation := a.Status.Revocation; revocation != nil && revocation.Comment != "" {
		out.field("Revoked", "by %s: %s", showUser(revocation.Username, revocation.Asserted), words(revocation.Comment))
	}
}

func policyLines(a *approvalv1alpha1.ApprovalRequest) []string {
	lines := make([]string, 0, len(a.Spec.Policies))
	for _, policy := range a.Spec.Policies {
		given := int32(0)
		for _, status := range a.Status.Policies {
			if status.Name == policy.Name {
				given = status.Approvals
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %d of %d from %s", showName(policy.Name), given, policy.NumberOfApprovalsRequired, approversText(policy.Approvers)))
	}
	return lines
}

func approversText(approvers []approvalv1alpha1.Approver) string {
	text := ""
	for i, a := range approvers {
		if i > 0 {
			text += ", "
		}
		if a.Type == approvalv1alpha1.ApproverGroup {
			text += "group "
		}
		text += showName(a.Name)
	}
	return text
}
