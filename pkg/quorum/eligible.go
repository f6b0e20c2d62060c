package quorum

import (
	"errors"
	"slices"
	"strings"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

const (
	systemPrefix         = "system:"
	serviceAccountPrefix = "system:serviceaccount:"
)

var (
	errUnknownCreator = errors.New("the creator of an object behind this request is not known, so nobody can be shown to be independent of it: " +
		"ask from a run whose creators are recorded, or set selfApproval: Allow in the rule")
	errPartOfQuestion = errors.New("you are part of this request, as its subject, as somebody who asked, or as the creator of an object behind it: " +
		"somebody else must answer")
	errServiceAccount = errors.New("a service account answers only if a policy of the rule names it as a user: add it there, or answer as a person")
	errNotNamed       = errors.New("you are not among the approvers that this request names: ask one of those it waits for")
	errAsserted       = errors.New("this rule counts only answers given with a credential of the responder's own, and yours came without one, as with " +
		"impersonation (--as) or a static token: log in with a token of your own and answer again")
	errNobody = errors.New("the answer carries no user name: log in and answer again")
)

// Eligible returns nil if the identity's answer to the check counts, and otherwise an error whose text is one sentence
// for the person who answers. askers are the users who asked for the same beside requestedBy. Only the groups of the
// identity that the policies name matter, and of its extra the credential id. Whether a step of a sequential check is open yet is Count's business.
func Eligible(spec *approvalv1alpha1.ApprovalRequestSpec, askers []string, who approvalv1alpha1.Identity) error {
	return newIndependence(spec, askers).eligible(spec, who)
}

func (i independence) eligible(spec *approvalv1alpha1.ApprovalRequestSpec, who approvalv1alpha1.Identity) error {
	if who.Username == "" {
		return errNobody
	}
	if err := i.check(who.Username); err != nil {
		return err
	}
	switch named := slices.ContainsFunc(spec.Policies, func(p approvalv1alpha1.ApprovalPolicy) bool { return names(p, who) }); {
	case named && refusesAsserted(spec, who):
		return errAsserted
	case named:
		return nil
	case isServiceAccount(who.Username):
		return errServiceAccount
	}
	return errNotNamed
}

// refusesAsserted tells that the check wants the responder's own credential, and none was seen.
func refusesAsserted(spec *approvalv1alpha1.ApprovalRequestSpec, who approvalv1alpha1.Identity) bool {
	return spec.AssertedAnswers == approvalv1alpha1.AssertedAnswersForbid && who.Asserted()
}

// names tells whether the policy's approvers include the identity.
func names(policy approvalv1alpha1.ApprovalPolicy, who approvalv1alpha1.Identity) bool {
	return slices.ContainsFunc(policy.Approvers, func(a approvalv1alpha1.Approver) bool {
		switch a.Type {
		case approvalv1alpha1.ApproverUser:
			return a.Name == who.Username
		case approvalv1alpha1.ApproverGroup:
			return groupCounts(a.Name, who)
		}
		return false
	})
}

// groupCounts refuses what would let everybody, or every workload of a namespace, answer by its groups.
func groupCounts(group string, who approvalv1alpha1.Identity) bool {
	return !strings.HasPrefix(group, systemPrefix) && !isServiceAccount(who.Username) && slices.Contains(who.Groups, group)
}

func isServiceAccount(username string) bool { return strings.HasPrefix(username, serviceAccountPrefix) }

// independence is who is part of the question.
type independence struct {
	selfApproval   bool
	unknownCreator bool
	involved       map[string]bool
}

func newIndependence(spec *approvalv1alpha1.ApprovalRequestSpec, askers []string) independence {
	i := independence{selfApproval: spec.SelfApproval == approvalv1alpha1.SelfApprovalAllow, involved: map[string]bool{}}
	if spec.Request == nil {
		// Whoever made this check did not say who asks.
		i.unknownCreator = true
		return i
	}
	i.add(askers...)
	i.add(spec.Request.Excluded...)
	i.add(spec.Request.RequestedBy.Username, username(spec.Request.Subject))
	for _, hop := range spec.Request.Context {
		i.add(hop.CreatedBy)
	}
	i.unknownCreator = spec.Request.UnknownCreator || i.involved[""] || i.involved[approvalv1alpha1.UnknownUser]
	return i
}

func (i independence) add(users ...string) {
	for _, user := range users {
		i.involved[user] = true
	}
}

func (i independence) check(user string) error {
	switch {
	case i.selfApproval:
		return nil
	case i.unknownCreator:
		return errUnknownCreator
	case i.involved[user]:
		return errPartOfQuestion
	}
	return nil
}

// username is the name under which the API server knows a subject.
func username(s approvalv1alpha1.Subject) string {
	if s.Kind == approvalv1alpha1.SubjectServiceAccount {
		return serviceAccountPrefix + s.Namespace + ":" + s.Name
	}
	return s.Name
}
