package decision

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// maxNamed bounds how many rules or people a sentence lists.
const maxNamed = 8

func (a applicable) deny(r *Request, f fault) Verdict {
	v := Verdict{Reason: f.reason, Request: r, Rules: a.refs()}
	if f.reason == approvalv1alpha1.ReasonChecksPending {
		v.WaitingFor = a.waitingFor(r)
	}
	v.Message = a.message(r, f)
	return v
}

// waitingFor is who is to answer the rules that apply; if these are all approved, the other rules of the request.
func (a applicable) waitingFor(r *Request) []duckv1alpha1.CheckWaiting {
	var waiting []duckv1alpha1.CheckWaiting
	for rule, i := a.next(0); rule != nil; rule, i = a.next(i + 1) {
		if result := r.result(rule); result != nil {
			waiting = append(waiting, result.WaitingFor...)
		}
	}
	if len(waiting) > 0 {
		return waiting
	}
	for i := range r.Results {
		waiting = append(waiting, r.Results[i].WaitingFor...)
	}
	return waiting
}

// message is one sentence for people. It repeats no text of the requester.
func (a applicable) message(r *Request, f fault) string {
	switch f.reason {
	case approvalv1alpha1.ReasonNoRequest:
		return fmt.Sprintf("%s is guarded by rule %s, and nobody has asked for this use: ask for an approval.", a.in.Object.shown(), a.names())
	case approvalv1alpha1.ReasonRuleNotReady:
		return fmt.Sprintf("Rule %s guards this use but cannot ask anybody (%s): its owner must repair it.", f.rule.Name, a.notReady().NotReady)
	}
	if e, ended := r.endAt(a.in.Now); ended {
		return endMessage(r, e)
	}
	if f.result != nil || f.rule.UID != "" {
		return resultMessage(r, f)
	}
	return a.requestMessage(r, f)
}

func (a applicable) requestMessage(r *Request, f fault) string {
	switch f.reason {
	case approvalv1alpha1.ReasonContextEnded:
		return fmt.Sprintf("%s was for a run that has ended (%s): ask anew for the run that goes on.", r.shown(), a.in.ContextEnded)
	case approvalv1alpha1.ReasonOutsideRequest:
		return fmt.Sprintf("%s does not cover %s: ask for this use too.", r.shown(), a.in.Operation.Describe())
	case approvalv1alpha1.ReasonObjectChanged:
		return fmt.Sprintf("%s was changed after %s was asked; the checks are asked again: wait for their answers.", a.in.Object.shown(), r.lower())
	case approvalv1alpha1.ReasonNotYetValid:
		return fmt.Sprintf("%s is approved, but holds only from %s on.", r.shown(), shownTime(r.NotBefore))
	}
	if r.Follows != "" {
		return fmt.Sprintf("%s waits for the answers to an equal request that was made before it.", r.shown())
	}
	if r.ObjectUID == "" {
		return fmt.Sprintf("%s has been received, and its checks are about to be asked.", r.shown())
	}
	return fmt.Sprintf("%s waits for the answers to its other rules%s.", r.shown(), fromWhom(a.waitingFor(r)))
}

func resultMessage(r *Request, f fault) string {
	switch f.reason {
	case approvalv1alpha1.ReasonChecksPending:
		return fmt.Sprintf("%s waits for the answer to rule %s%s.", r.shown(), f.rule.Name, fromWhom(f.result.WaitingFor))
	case approvalv1alpha1.ReasonChecksRejected:
		return fmt.Sprintf("%s was rejected for rule %s%s.", r.shown(), f.rule.Name, said(f.result.Message))
	case approvalv1alpha1.ReasonRulesChanged:
		return fmt.Sprintf("Rule %s was added or changed after %s was asked; it is asked again: wait for its answer%s.", f.rule.Name, r.lower(), f.fromWhom())
	case approvalv1alpha1.ReasonObjectChanged:
		return fmt.Sprintf("The object was changed after %s was asked; rule %s is asked again: wait for its answer%s.", r.lower(), f.rule.Name, f.fromWhom())
	case approvalv1alpha1.ReasonExpired:
		return fmt.Sprintf("The answer to rule %s no longer holds for %s%s.", f.rule.Name, r.lower(), saidAndAsk(f.result.Message, "ask again"))
	}
	return fmt.Sprintf("The check of rule %s failed for %s%s; it is tried again.", f.rule.Name, r.lower(), said(f.result.Message))
}

// fromWhom is who is to answer, once the new question stands.
func (f fault) fromWhom() string {
	if f.result == nil || f.result.Generation != f.rule.Generation {
		return ""
	}
	return fromWhom(f.result.WaitingFor)
}

func endMessage(r *Request, e end) string {
	when := ""
	if !e.at.IsZero() {
		when = " at " + shownTime(e.at)
	}
	return fmt.Sprintf("%s ended%s (%s)%s.", r.shown(), when, e.reason, saidAndAsk(e.message, "ask again if you still need it"))
}

func (in *Input) noRulesMessage() string {
	return fmt.Sprintf("%s needs a check for every write, and no rule covers %s: its owner must add a rule.", in.Object.shown(), in.Operation.Describe())
}

// names lists the rules that apply.
func (a applicable) names() string {
	var names []string
	for rule, i := a.next(0); rule != nil && len(names) < maxNamed; rule, i = a.next(i + 1) {
		names = append(names, rule.Name)
	}
	if a.count > len(names) {
		names = append(names, "others")
	}
	return strings.Join(names, ", ")
}

func (o Object) shown() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

func (r *Request) shown() string { return "Request " + r.Namespace + "/" + r.Name }

func (r *Request) lower() string { return "request " + r.Namespace + "/" + r.Name }

func revokedMessage(revoked *approvalv1alpha1.Revocation) string {
	if revoked.By == "" {
		return "revoked"
	}
	return fmt.Sprintf("revoked by %s", revoked.By)
}

// said appends what a check says, without the full stop that would end our sentence.
func said(message string) string {
	if message = strings.TrimRight(message, ". "); message == "" {
		return ""
	}
	return ", saying: " + message
}

// saidAndAsk adds what to do next, unless the check says so itself.
func saidAndAsk(message, advice string) string {
	if strings.Contains(message, "ask again") {
		return said(message)
	}
	return said(message) + ": " + advice
}

func fromWhom(waiting []duckv1alpha1.CheckWaiting) string {
	if len(waiting) == 0 {
		return ""
	}
	var names []string
	for _, w := range waiting[:min(len(waiting), maxNamed)] {
		names = append(names, shownWaiting(w))
	}
	if len(waiting) > maxNamed {
		names = append(names, "others")
	}
	return " from " + strings.Join(names, " or ")
}

func shownWaiting(w duckv1alpha1.CheckWaiting) string {
	switch {
	case w.Kind == duckv1alpha1.WaitingForUser:
		return "user " + w.Name
	case w.Kind != duckv1alpha1.WaitingForGroup:
		return w.Name
	case w.Missing > 1:
		return fmt.Sprintf("group %s (%d answers)", w.Name, w.Missing)
	}
	return "group " + w.Name
}

func shownTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// cut bounds a text in bytes, never inside a rune.
func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	end := maxMessage
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
