package cli

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// requestSheet is the whole story of a request.
func (p *program) requestSheet(req *approvalv1alpha1.ResourceCheckRequest) string {
	now := p.clock.Now()
	s := situationOf(req, now)
	out := &sheet{}
	out.field("Request", "%s/%s", req.Namespace, req.Name)
	out.field("State", "%s", s.line(now))
	out.field("Object", "%s", objectText(req.Spec.ObjectRef))
	out.field("Use", "%s", useText(req.Spec.Use))
	out.field("For", "%s", subjectText(req.Spec.Context.Subject))
	out.optional("Run", runText(req.Spec.Context.Resource))
	if token := req.Spec.Context.Token; token != nil {
		out.field("Token", "jti %s", showName(token.JTI))
	}
	out.field("Asked by", "%s, %s", showIdentity(req.Spec.RequestedBy), momentText(req.CreationTimestamp.Time, now))
	out.list("Asked too", shownNames(req.Status.Askers))
	if req.Spec.Reason != "" {
		out.field("Reason", "%s", words(req.Spec.Reason))
	}
	out.optional("Time", timeRangeText(req.Spec.TimeRange, now))
	if follows := req.Status.Follows; follows != nil {
		out.field("Follows", "%s/%s, which asks for the same", showName(follows.Namespace), showName(follows.Name))
	}
	validitySheet(out, req, now)
	for i := range req.Status.Rules {
		ruleSheet(out, req, &req.Status.Rules[i], now)
	}
	out.list("Formerly", supersededLines(req.Status.Superseded, now))
	out.list("Next", requestSteps(req, s))
	return out.String()
}

func shownNames(names []string) []string {
	shown := make([]string, 0, len(names))
	for _, name := range names {
		shown = append(shown, showName(name))
	}
	return shown
}

func timeRangeText(r *approvalv1alpha1.TimeRange, now time.Time) string {
	if r == nil {
		return ""
	}
	var parts []string
	if r.Duration != nil {
		parts = append(parts, durationText(r.Duration.Duration)+" once it is granted")
	}
	if r.After != nil {
		parts = append(parts, "not before "+momentText(r.After.Time, now))
	}
	if r.Before != nil {
		parts = append(parts, "not after "+momentText(r.Before.Time, now))
	}
	return strings.Join(parts, ", ")
}

// durationText leaves out zeros at the end: 2h, not 2h0m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func validitySheet(out *sheet, req *approvalv1alpha1.ResourceCheckRequest, now time.Time) {
	if v := req.Status.Validity; v != nil {
		out.field("Valid", "%s to %s", v.NotBefore.UTC().Format(time.RFC3339), momentText(v.NotAfter.Time, now))
	}
	if ended := req.Status.Ended; ended != nil {
		out.field("Ended", "%s", momentText(ended.At.Time, now))
		if ended.HoldUntil != nil {
			out.field("Held back", "new requests for this until %s, because an owner revoked", momentText(ended.HoldUntil.Time, now))
		}
	}
}

func ruleSheet(out *sheet, req *approvalv1alpha1.ResourceCheckRequest, rule *approvalv1alpha1.RuleSnapshot, now time.Time) {
	lines := []string{fmt.Sprintf("%s, generation %d, by %s", showName(rule.Name), rule.Generation, showName(rule.LastAuthor))}
	lines = append(lines, "  covers   "+useText(rule.Spec.When))
	for _, ref := range req.Status.RequestRefs {
		if ref.Name == rule.Name {
			lines = append(lines, fmt.Sprintf("  check    %s %s/%s", showName(ref.Kind), showName(ref.Namespace), showName(ref.ObjectName)))
		}
	}
	for i := range req.Status.Results {
		if result := &req.Status.Results[i]; result.Name == rule.Name {
			lines = append(lines, resultLines(result, now)...)
		}
	}
	out.list("Rule", lines)
}

func resultLines(r *approvalv1alpha1.CheckResult, now time.Time) []string {
	lines := []string{"  state    " + stateText(r.State, "", r.Message)}
	for _, d := range r.DecidedBy {
		lines = append(lines, "  answer   "+answerText(d, now))
	}
	if len(r.WaitingFor) > 0 {
		lines = append(lines, "  waiting  "+waitingText(r.WaitingFor))
	}
	if r.NotAfter != nil {
		lines = append(lines, "  until    "+momentText(r.NotAfter.Time, now))
	}
	return lines
}

func stateText(state duckv1alpha1.CheckState, reason, message string) string {
	text := showName(orElse(string(state), string(duckv1alpha1.CheckPending)))
	if reason != "" {
		text += " (" + showName(reason) + ")"
	}
	if message != "" {
		text += ": " + show(message)
	}
	return text
}

func answerText(d duckv1alpha1.CheckDecision, now time.Time) string {
	text := showUser(d.Username, d.Asserted) + " " + decisionText(d.Decision)
	if !d.Time.IsZero() {
		text += " " + momentText(d.Time.Time, now)
	}
	if d.Comment != "" {
		text += ": " + words(d.Comment)
	}
	return text
}

// decisionText knows the answers of people; other kinds may have words of their own.
func decisionText(decision string) string {
	switch d := approvalv1alpha1.ApprovalDecision(decision); d {
	case approvalv1alpha1.DecisionApprove, approvalv1alpha1.DecisionReject, approvalv1alpha1.DecisionRevoke:
		return past(d)
	}
	return "answered " + showName(decision)
}

func supersededLines(results []approvalv1alpha1.SupersededResult, now time.Time) []string {
	lines := make([]string, 0, len(results))
	for i := range results {
		r := &results[i]
		lines = append(lines, fmt.Sprintf("%s, generation %d, was %s; %s %s",
			showName(r.Name), r.Generation, showName(string(r.State)), showName(r.Reason), momentText(r.At.Time, now)))
	}
	return lines
}

// requestSteps is what people can do next.
func requestSteps(req *approvalv1alpha1.ResourceCheckRequest, s situation) []string {
	here := []string{req.Name, "-n", req.Namespace}
	revoke := command(append(append([]string{"revoke"}, here...), "--comment", "...")...)
	switch s.state {
	case stateGranted:
		return []string{"end it early: " + revoke}
	case stateNew, statePending:
		steps := []string{"wait: " + command(append([]string{"wait"}, here...)...)}
		if namespace := req.Spec.ObjectRef.Namespace; len(s.waiting) > 0 && namespace != "" {
			steps = append(steps, "approvers: "+command("approve", req.Name, "-n", namespace))
		}
		return append(steps, "take it back: "+revoke)
	}
	return []string{"ask anew: " + askAgain(req)}
}

// askAgain is the command that asks for the same.
func askAgain(req *approvalv1alpha1.ResourceCheckRequest) string {
	ref := req.Spec.ObjectRef
	args := []string{"request", strings.ToLower(ref.Kind) + "/" + ref.Name, "-n", ref.Namespace, "--in", req.Namespace, "--reason", "..."}
	if run := req.Spec.Context.Resource; run != nil {
		args = append(args, "--run", strings.ToLower(run.Kind)+"/"+run.Name)
		if subject := req.Spec.Context.Subject; subject != nil && subject.Kind == approvalv1alpha1.SubjectServiceAccount {
			args = append(args, "--service-account", subject.Name)
		}
	}
	if use := req.Spec.Use; use != nil {
		args = append(args, useFlags(use)...)
	}
	if r := req.Spec.TimeRange; r != nil && r.Duration != nil {
		args = append(args, "--for", durationText(r.Duration.Duration))
	}
	return command(args...)
}

func useFlags(use *approvalv1alpha1.OperationSelector) []string {
	var args []string
	if len(use.Operations) > 0 {
		args = append(args, "--use", joined(use.Operations))
	}
	if use.HTTP != nil && len(use.HTTP.Methods) > 0 {
		args = append(args, "--methods", joined(use.HTTP.Methods))
	}
	if use.HTTP != nil && len(use.HTTP.Paths) > 0 {
		args = append(args, "--paths", joined(use.HTTP.Paths))
	}
	return args
}

// checkSheet is the whole story of a check, for those who may not read the request.
func (p *program) checkSheet(c *check) string {
	now := p.clock.Now()
	out := &sheet{}
	out.field("Check", "%s (%s)", c.key(), showName(c.gvk.Kind))
	out.field("State", "%s", stateText(c.state(), c.status.Reason, c.status.Message))
	if c.question != nil {
		questionSheet(out, c.question, now)
	} else {
		contextSheet(out, c.meta.Annotations[approvalv1alpha1.AnnotationContext])
	}
	if c.approval != nil {
		approvalSheet(out, c.approval, now)
	}
	out.list("Answers", answerLines(c.status.DecidedBy, now))
	out.optional("Waiting for", waitingText(c.status.WaitingFor))
	out.optional("Holds until", optionalMoment(c.status.NotAfter, now))
	out.list("Next", checkSteps(c))
	return out.String()
}

func optionalMoment(t *metav1.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return momentText(t.Time, now)
}

func answerLines(decisions []duckv1alpha1.CheckDecision, now time.Time) []string {
	lines := make([]string, 0, len(decisions))
	for _, d := range decisions {
		lines = append(lines, answerText(d, now))
	}
	return lines
}

func checkSteps(c *check) []string {
	here := []string{c.meta.Name, "-n", c.meta.Namespace}
	switch c.state() {
	case duckv1alpha1.CheckApproved:
		return []string{"take it back: " + command(append(append([]string{"revoke"}, here...), "--comment", "...")...)}
	case duckv1alpha1.CheckPending:
		if c.approval != nil {
			return []string{
				"approve: " + command(append([]string{"approve"}, here...)...),
				"reject: " + command(append(append([]string{"reject"}, here...), "--comment", "...")...),
			}
		}
	case duckv1alpha1.CheckRejected, duckv1alpha1.CheckError, duckv1alpha1.CheckCancelled:
	}
	return nil
}
