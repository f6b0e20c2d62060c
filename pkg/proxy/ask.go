package proxy

import (
	"strings"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// ask is the complete command that asks for what was denied, where asking helps; else empty. Everything in it is a
// Kubernetes name, so it can be pasted into a shell.
func ask(c *gate.Connector, who *token.Identity, answer *gate.Answer) string {
	if !asking(answer.Reason) {
		return ""
	}
	words := []string{"kubectl countersign request connector/" + c.Name, "-n " + c.Namespace}
	if in := home(who, answer); in != "" {
		words = append(words, "--in "+in)
	}
	words = append(words, `--reason "..."`)
	if run := answer.Run; run != nil && run.Kind != "Pod" {
		words = append(words, forRun(run, who))
	}
	if answer.Operation.IsRead() {
		words = append(words, "--use Read")
	}
	return strings.Join(words, " ")
}

// home is the namespace to ask in: that of the caller's service account, or where a person asked before. Without either
// the command takes the namespace of the person's own context.
func home(who *token.Identity, answer *gate.Answer) string {
	switch {
	case who.ServiceAccount != nil:
		return who.ServiceAccount.Namespace
	case answer.Request != nil:
		return answer.Request.Namespace
	}
	return ""
}

// forRun lets a person ask for a run: what is denied to a pod is read by people.
func forRun(run *origin.Node, who *token.Identity) string {
	command := "--run " + strings.ToLower(run.Kind) + "/" + run.Name
	if own := run.ServiceAccounts; len(own) == 0 || own[0] != who.ServiceAccount.Name {
		command += " --service-account " + who.ServiceAccount.Name
	}
	return command
}

// asking tells whether a new request would help.
func asking(reason string) bool {
	switch reason {
	case approvalv1alpha1.ReasonNoRequest, approvalv1alpha1.ReasonOutsideRequest, approvalv1alpha1.ReasonExpired,
		approvalv1alpha1.ReasonRevoked, approvalv1alpha1.ReasonChecksRejected, approvalv1alpha1.ReasonObjectGone:
		return true
	}
	return false
}
