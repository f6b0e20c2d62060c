package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// Limits in runes of what others chose; reasons and comments are at most as long as their fields allow.
const (
	maxName = 256
	maxText = 4096
)

const none = "-"

func show(s string) string { return plaintext.Line(s, maxText) }

// showName is show for a column.
func showName(s string) string {
	if s == "" {
		return none
	}
	return plaintext.Line(s, maxName)
}

// showUser says with the name when that it was him is another's word.
func showUser(name string, asserted bool) string {
	if asserted {
		return showName(name) + " (asserted)"
	}
	return showName(name)
}

func showIdentity(who *approvalv1alpha1.Identity) string {
	if who == nil || who.Username == "" {
		return none
	}
	return showUser(who.Username, who.Asserted())
}

// words quotes what somebody else wrote.
func words(s string) string { return plaintext.Quote(s, maxText) }

func objectText(ref approvalv1alpha1.ObjectReference) string {
	text := showName(strings.ToLower(ref.Kind) + "/" + ref.Name)
	if ref.Namespace != "" {
		text += " in " + showName(ref.Namespace)
	}
	return text
}

// shortObject is the object in a table.
func shortObject(ref approvalv1alpha1.ObjectReference) string {
	return showName(ref.Namespace + "/" + ref.Name)
}

// subjectUser is the user name under which the API server knows the subject.
func subjectUser(s *approvalv1alpha1.Subject) string {
	switch {
	case s == nil:
		return ""
	case s.Kind == approvalv1alpha1.SubjectServiceAccount:
		return "system:serviceaccount:" + s.Namespace + ":" + s.Name
	}
	return s.Name
}

func subjectText(s *approvalv1alpha1.Subject) string {
	switch {
	case s == nil:
		return none
	case s.Kind == approvalv1alpha1.SubjectServiceAccount:
		return showName("serviceaccount " + s.Namespace + "/" + s.Name)
	}
	return showName("user " + s.Name)
}

// shortSubject is the subject in a table.
func shortSubject(s *approvalv1alpha1.Subject) string {
	if s != nil && s.Kind == approvalv1alpha1.SubjectServiceAccount {
		return showName("sa:" + s.Namespace + "/" + s.Name)
	}
	if s == nil {
		return none
	}
	return showName(s.Name)
}

func runText(ref *approvalv1alpha1.ObjectReference) string {
	if ref == nil {
		return none
	}
	return showName(strings.ToLower(ref.Kind) + "/" + ref.Name)
}

func useText(use *approvalv1alpha1.OperationSelector) string {
	if use == nil {
		return "everything but reads"
	}
	var parts []string
	if len(use.Operations) > 0 {
		parts = append(parts, joined(use.Operations))
	}
	if use.HTTP != nil && len(use.HTTP.Methods) > 0 {
		parts = append(parts, joined(use.HTTP.Methods))
	}
	if use.HTTP != nil && len(use.HTTP.Paths) > 0 {
		parts = append(parts, joined(use.HTTP.Paths))
	}
	if len(parts) == 0 {
		return "everything but reads"
	}
	return show(strings.Join(parts, " "))
}

func joined[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, ",")
}

func waitingText(waiting []duckv1alpha1.CheckWaiting) string {
	texts := make([]string, 0, len(waiting))
	for _, w := range waiting {
		texts = append(texts, waitingOne(w))
	}
	return strings.Join(texts, ", ")
}

func waitingOne(w duckv1alpha1.CheckWaiting) string {
	text := plaintext.Line(w.Name, maxName)
	if w.Kind == duckv1alpha1.WaitingForUser || w.Kind == duckv1alpha1.WaitingForGroup {
		text = strings.ToLower(string(w.Kind)) + " " + text
	}
	if w.Missing > 0 {
		text += ": " + strconv.Itoa(int(w.Missing)) + " more"
	}
	return text
}

// momentText is a time of the record, which is kept in UTC, with its distance from now.
func momentText(t, now time.Time) string {
	stamp := t.UTC().Format(time.RFC3339)
	if t.After(now) {
		return stamp + " (in " + duration.HumanDuration(t.Sub(now)) + ")"
	}
	return stamp + " (" + ageText(t, now) + " ago)"
}

func ageText(t, now time.Time) string { return duration.HumanDuration(now.Sub(t)) }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// shellWord quotes an argument of a command that people copy.
func shellWord(s string) string {
	if s != "" && strings.IndexFunc(s, needsQuotes) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(plaintext.Line(s, maxText), "'", `'\''`) + "'"
}

func needsQuotes(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:,@=+", r)
}

// command is a command line to copy.
func command(words ...string) string {
	line := displayName
	for _, word := range words {
		line += " " + shellWord(word)
	}
	return line
}
