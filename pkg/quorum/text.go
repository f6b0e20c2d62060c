package quorum

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Lengths in characters. maxMessage and maxWaitingName are those of the Check duck type.
const (
	maxMessage     = 4096
	maxWaitingName = 512
	maxShownName   = 128
	maxShownUsers  = 8
)

// shownUser is a user name as it stands in a sentence: as it is, or quoted where it could draw or deceive.
func shownUser(name string) string {
	name = cut(name, maxShownName)
	if quoted := strconv.Quote(name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}

// shownResponder says with the name when it is another's word.
func shownResponder(who approvalv1alpha1.Identity) string {
	if who.Asserted() {
		return shownUser(who.Username) + " (asserted)"
	}
	return shownUser(who.Username)
}

// shownComment marks a comment as the responder's own words.
func shownComment(comment string) string {
	if comment == "" {
		return ""
	}
	return ", who says: " + strconv.Quote(comment)
}

// cut shortens to a number of characters, never inside one.
func cut(s string, characters int) string {
	if utf8.RuneCountInString(s) <= characters {
		return s
	}
	return string([]rune(s)[:characters-1]) + "…"
}

func bounded(message string) string { return cut(message, maxMessage) }

func (t *tally) approvedMessage() string {
	users := make([]string, 0, maxShownUsers+1)
	for _, a := range t.approvals {
		if len(users) == maxShownUsers {
			users = append(users, "others")
			break
		}
		users = append(users, shownResponder(a.Responder))
	}
	return bounded("Approved by " + enumerate(users) + ".")
}

// enumerate joins names as people do.
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func (t *tally) pendingMessage() string {
	if !t.independent.selfApproval && t.independent.unknownCreator {
		return "Nobody can answer, because " + errUnknownCreator.Error() + "."
	}
	var parts []string
	for i, policy := range t.policies[:t.open] {
		if !t.met(i) {
			parts = append(parts, t.missingIn(i, policy))
		}
	}
	if later := len(t.policies) - t.open; later > 0 {
		parts = append(parts, fmt.Sprintf("%d more to be asked after that", later))
	}
	return bounded("Waiting for approvals: " + strings.Join(parts, "; ") + ".")
}

func (t *tally) missingIn(i int, policy approvalv1alpha1.ApprovalPolicy) string {
	text := fmt.Sprintf("policy %s has %d of %d", shownUser(policy.Name), t.filled[i], policy.NumberOfApprovalsRequired)
	if possible, known := t.possibleApprovals(policy); known && possible < int(policy.NumberOfApprovalsRequired) {
		text += fmt.Sprintf(", and only %d of those it names may answer, because nobody answers for himself: name more approvers in the rule", possible)
	}
	return text
}

// possibleApprovals is how many users could approve for the policy; it is known only if no group is named.
func (t *tally) possibleApprovals(policy approvalv1alpha1.ApprovalPolicy) (possible int, known bool) {
	users := map[string]bool{}
	for _, approver := range policy.Approvers {
		if approver.Type != approvalv1alpha1.ApproverUser {
			return 0, false
		}
		if t.independent.check(approver.Name) == nil {
			users[approver.Name] = true
		}
	}
	return len(users), true
}
