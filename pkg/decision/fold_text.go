package decision

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// Bounds of texts, in bytes. maxFoldMessage fits every message field of the API.
const (
	maxFoldMessage = 1024
	maxFoldName    = 128
	maxEnumerated  = 3
)

func describeObject(in *FoldInput) string {
	ref := &in.Request.Spec.ObjectRef
	return "the " + ref.Kind + " " + ref.Namespace + "/" + ref.Name
}

func describeContext(in *FoldInput) string {
	ref := in.Request.Spec.Context.Resource
	if ref == nil {
		return "its context"
	}
	return "the " + ref.Kind + " " + ref.Namespace + "/" + ref.Name
}

func describeCheck(ref *approvalv1alpha1.CheckReference) string {
	return ref.Kind + " " + ref.Namespace + "/" + ref.ObjectName
}

func revokedBy(user, words string) string { return "revoked by " + quoted(user) + ": " + quoted(words) }

// checkRevokedBy says with the name when it is another's word.
func checkRevokedBy(r *approvalv1alpha1.CheckRevocation) string {
	if r.Asserted {
		return "revoked by " + quoted(r.Username) + " (asserted): " + quoted(r.Comment)
	}
	return revokedBy(r.Username, r.Comment)
}

// waitingText names who is still to answer.
func waitingText(waiting []duckv1alpha1.CheckWaiting) string {
	texts := make([]string, 0, len(waiting))
	for _, w := range waiting {
		text := quoted(w.Name)
		if w.Kind != duckv1alpha1.WaitingForOther {
			text = strings.ToLower(string(w.Kind)) + " " + text
		}
		if w.Missing > 1 {
			text += fmt.Sprintf(" (%d answers)", w.Missing)
		}
		texts = append(texts, text)
	}
	return listed(texts, ", ")
}

// enumerate makes one sentence of several.
func enumerate(texts []string) string { return listed(texts, "; ") }

func listed(texts []string, separator string) string {
	if more := len(texts) - maxEnumerated; more > 0 {
		texts = append(texts[:maxEnumerated:maxEnumerated], fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, separator)
}

// quoted marks the words of somebody else; what could draw or hide is escaped.
func quoted(text string) string { return strconv.Quote(shortened(text, maxFoldName)) }

func bounded(text string) string { return shortened(text, maxFoldMessage) }

// shortened cuts at a number of bytes, never inside a rune.
func shortened(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func orNothing(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func stamp(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
