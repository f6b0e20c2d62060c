package release

import (
	"fmt"
	"strings"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

const anew = ": create the Release anew if it is still wanted"

// checked asks everything that guards the plan, the author's verification included, and tells whether all of it allows
// the Release now. Otherwise the step says what is waited for, or what refused.
func (s *step) checked(f *facts) bool {
	if why := f.notGuarded(); why != "" {
		s.wait(f, approvalv1alpha1.ReasonUnguarded, sentence(why))
		s.again = retryUnguarded
		return false
	}
	rule := f.attributionRule()
	if rule == nil {
		s.ensureRule = true
		s.wait(f, approvalv1alpha1.ReasonChecksPending, fmt.Sprintf("the rule %s, by which the author is verified, is being put in its place", ruleName(f.plan.Name)))
		return false
	}
	if f.request == nil {
		s.ask = true
		s.wait(f, approvalv1alpha1.ReasonChecksPending, "the checks of the ReleasePlan are about to be asked")
		return false
	}
	if s.ended(f, rule) {
		return false
	}
	if problem := s.verify(f, rule); problem != "" {
		s.invalid(f, releasev1alpha1.ReasonValidationError, problem)
		return false
	}
	return s.allowed(f)
}

// notGuarded is why nothing may rest on admission now. While it is not known since when creators are recorded, admission
// would refuse to ask for the Release, too.
func (f *facts) notGuarded() string {
	if f.unguarded == "" && f.since.IsZero() {
		return "it cannot be told yet since when creators are recorded"
	}
	return f.unguarded
}

// ended fails a Release whose request came to its end before the run was started.
func (s *step) ended(f *facts, rule *approvalv1alpha1.ResourceCheckRule) bool {
	reason, _, ended := decision.Ended(f.request, f.now)
	if !ended {
		return false
	}
	if refused := resultOf(f.request, rule.Name); refused != nil && refused.State == duckv1alpha1.CheckRejected {
		s.invalid(f, releasev1alpha1.ReasonValidationError, f.unattributed(refused))
		return true
	}
	s.invalid(f, reason, sentence(f.endMessage(reason))+anew)
	return true
}

// endMessage is what the request says of its end.
func (f *facts) endMessage(reason string) string {
	name := f.request.Namespace + "/" + f.request.Name
	if ended := f.request.Status.Ended; ended != nil && ended.Message != "" {
		return "request " + name + " ended (" + reason + "): " + ended.Message
	}
	if revoked := f.request.Spec.Revoked; revoked != nil && revoked.By != "" {
		return "request " + name + " was revoked by " + revoked.By
	}
	return "request " + name + " ended (" + reason + ")"
}

// unattributed is the attribution check's own sentence.
func (f *facts) unattributed(result *approvalv1alpha1.CheckResult) string {
	if f.check == nil || f.check.Status.Message == "" {
		return sentence(result.Message)
	}
	return f.mend(f.check.Status.Reason, sentence(f.check.Status.Message))
}

// mend adds to a sentence about a standing author what the person types who stands for the plan from now on.
func (f *facts) mend(reason, message string) string {
	if !f.automated() || f.plan == nil || strings.Contains(message, "kubectl") {
		return message
	}
	switch reason {
	case approvalv1alpha1.ReasonNoAuthor, approvalv1alpha1.ReasonAuthorUnknown, approvalv1alpha1.ReasonStandingChanged, approvalv1alpha1.ReasonStandingExpired:
		return fmt.Sprintf("%s (to accept, type `kubectl countersign accept releaseplan/%s -n %s`)", message, f.plan.Name, f.plan.Namespace)
	}
	return message
}

// verify takes over what the attribution check found. It is empty as long as nothing speaks against the author; whether he
// was verified stands in the status. An author who was verified once is not verified again.
func (s *step) verify(f *facts, rule *approvalv1alpha1.ResourceCheckRule) string {
	who := attributed(f.words, &s.status)
	result := resultOf(f.request, rule.Name)
	if who.Verified || !approved(result, rule) || f.check == nil || f.check.Status.State != duckv1alpha1.CheckApproved {
		return ""
	}
	if problem := f.aboutThis(who.Author); problem != "" {
		return problem
	}
	who.Verified, who.VerifiedAt = true, f.check.Status.VerifiedAt
	if who.VerifiedAt == nil {
		who.VerifiedAt = f.time(f.now)
	}
	attribute(f.words, &s.status, who)
	return ""
}

// aboutThis is what keeps an approved check from being the verification of this Release's author.
func (f *facts) aboutThis(author string) string {
	spec, status := &f.check.Spec, &f.check.Status
	name := fmt.Sprintf("the check AttributionCheck %s/%s", f.check.Namespace, f.check.Name)
	switch {
	case spec.RequireHuman != nil && !*spec.RequireHuman || !status.Verified:
		return name + " asked for no person, so it verifies nobody" + anew
	case spec.Resource != nil:
		return name + " looked at something else than this Release" + anew
	case status.Author == nil || status.Author.Username != author:
		return name + " found another author than the Release has" + anew
	}
	return ""
}

// waitsForDirectory tells that nothing else can be said before the directory answers. Why it does not stands in the
// check.
func (s *step) waitsForDirectory(f *facts) bool {
	if f.check == nil || f.check.Status.State != duckv1alpha1.CheckPending || f.check.Status.Reason != approvalv1alpha1.ReasonDirectoryUnavailable {
		return false
	}
	s.wait(f, approvalv1alpha1.ReasonDirectoryUnavailable, sentence(f.check.Status.Message))
	return true
}

// allowed asks for a verdict by the rules as they are now.
func (s *step) allowed(f *facts) bool {
	verdict := f.decide()
	if !verdict.Allow {
		if s.waitsForDirectory(f) {
			return false
		}
		s.wait(f, verdict.Reason, sentence(verdict.Message))
		return false
	}
	if !attributed(f.words, &s.status).Verified {
		s.wait(f, approvalv1alpha1.ReasonChecksPending, "the answer of the attribution check is about to be read")
		return false
	}
	return true
}

// decide judges the one use that a Release is: a write to the plan, with nothing but the Release's own request.
func (f *facts) decide() decision.Verdict {
	request, err := decision.FromRequest(f.request)
	if err != nil {
		return decision.Verdict{Reason: approvalv1alpha1.ReasonError, Message: err.Error()}
	}
	in := decision.Input{
		Object: decision.Object{
			Kind: releasev1alpha1.KindReleasePlan, Namespace: f.plan.Namespace, Name: f.plan.Name, UID: f.plan.UID, Generation: f.plan.Generation,
			RequireChecks: true,
		},
		Requests: []*decision.Request{request}, Operation: operation.Operation{Class: operation.Write}, Now: f.now,
	}
	for i := range f.rules {
		in.Rules = append(in.Rules, decision.FromRule(&f.rules[i]))
	}
	return decision.Decide(&in)
}

// approved tells whether a result approves the rule as it is now.
func approved(result *approvalv1alpha1.CheckResult, rule *approvalv1alpha1.ResourceCheckRule) bool {
	return result != nil && result.State == duckv1alpha1.CheckApproved && result.UID == rule.UID && result.Generation == rule.Generation
}

func resultOf(request *approvalv1alpha1.ResourceCheckRequest, rule string) *approvalv1alpha1.CheckResult {
	for i := range request.Status.Results {
		if request.Status.Results[i].Name == rule {
			return &request.Status.Results[i]
		}
	}
	return nil
}

func checkOf(request *approvalv1alpha1.ResourceCheckRequest, rule string) *approvalv1alpha1.CheckReference {
	for i := range request.Status.RequestRefs {
		if request.Status.RequestRefs[i].Name == rule {
			return &request.Status.RequestRefs[i]
		}
	}
	return nil
}

// sentence drops the full stop that would end ours.
func sentence(message string) string { return strings.TrimRight(message, ". ") }
