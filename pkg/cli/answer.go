package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// answerOptions are the flags of approve, reject and revoke.
type answerOptions struct {
	output   output
	decision approvalv1alpha1.ApprovalDecision
	comment  string
	grantFor time.Duration
	all      bool
	at       where
}

// answerHelp is what the three verbs have in common.
var answerHelp = `

NAME is a request's or a check's. Of a request, every check that you may answer is answered, each listed. -n is the
namespace of the checks, which is the object's.` +
	exits(codes{ExitDone: "answered", ExitDenied: "refused or nothing to answer", ExitNotFound: "no such request or check"})

func (o *answerOptions) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.comment, "comment", "", "Your words; the requester reads them.")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "Look for checks in all namespaces.")
	o.output.addTo(cmd)
}

func (o *answerOptions) validate() error {
	if o.decision != approvalv1alpha1.DecisionApprove && o.comment == "" {
		return usage("--comment is needed: say why, the requester reads it")
	}
	if o.grantFor < 0 {
		return usage("--grant-for takes a positive duration, e.g. 30m")
	}
	return nil
}

// answers answers every name, and goes on after one that fails; the first failure decides the exit code.
func (p *program) answers(ctx context.Context, o *answerOptions, names []string, one func(*answerer, string) error) error {
	if err := o.validate(); err != nil {
		return err
	}
	namespace, err := o.at.namespace(p)
	if err != nil {
		return err
	}
	c, err := p.dial(p)
	if err != nil {
		return err
	}
	me, err := c.whoami(ctx)
	if err != nil {
		return err
	}
	a := &answerer{p: p, c: c, o: o, me: me, namespace: namespace, kinds: builtinKinds()[:1]}
	var first error
	for _, name := range names {
		if err := asFailure(one(a, name)); err != nil {
			first = p.note(first, err)
		}
	}
	if o.output.machine() && len(a.created) > 0 {
		if err := o.output.print(p.streams.Out, false, a.created...); err != nil {
			return err
		}
	}
	return first
}

// note prints all failures but leaves the first one's code.
func (p *program) note(first, err error) error {
	var f *failure
	if errors.As(err, &f) && f.text != "" {
		p.tell("%s", "error: "+f.text)
		err = told(f.code)
	}
	if first != nil {
		return first
	}
	return err
}

// answerer answers on behalf of one person.
type answerer struct {
	p         *program
	c         *cluster
	o         *answerOptions
	me        approvalv1alpha1.Identity
	namespace string
	kinds     []checkKind
	created   []named
}

// find returns the checks that a name means.
func (a *answerer) find(ctx context.Context, word string) ([]*check, error) {
	namespace := a.namespace
	if a.o.all {
		namespace = metav1.NamespaceAll
	}
	if _, _, err := splitName(word, namespace); err != nil {
		return nil, err
	}
	found, err := a.c.checksNamed(ctx, namespace, word, a.kinds)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fail(ExitNotFound, "no check of %s is in %s: -n is the namespace of the object, -A looks in all", words(word), a.place())
	}
	return found, nil
}

func (a *answerer) place() string {
	if a.o.all {
		return "any namespace"
	}
	return "namespace " + a.namespace
}

func (a *answerer) answer(ctx context.Context, word string) error {
	found, err := a.find(ctx, word)
	if err != nil {
		return err
	}
	return a.answerAll(ctx, found)
}

// answerAll answers what can be answered. A single check is always sent, so that the server says why not.
func (a *answerer) answerAll(ctx context.Context, found []*check) error {
	done := 0
	var first error
	for _, c := range found {
		if why := a.cannot(c); why != "" && len(found) > 1 {
			a.p.tell("skipped %s: %s", c.key(), show(why))
			continue
		}
		if err := a.send(ctx, c); err != nil {
			first = a.p.note(first, fail(codeOf(err), "%s: %s", c.key(), sentence(err)))
			continue
		}
		done++
	}
	if first == nil && done == 0 {
		return fail(ExitDenied, "there is nothing here that you can answer")
	}
	return first
}

// cannot says why the caller's answer to the check would be refused, as far as this side can know.
func (a *answerer) cannot(c *check) string {
	state := c.state()
	switch {
	case a.o.decision == approvalv1alpha1.DecisionRevoke:
		if state == duckv1alpha1.CheckRejected || state == duckv1alpha1.CheckCancelled {
			return "it is already " + string(state)
		}
		return ""
	case state != duckv1alpha1.CheckPending && state != duckv1alpha1.CheckError:
		return "it is already " + string(state)
	case c.answered(a.me.Username):
		return "you have answered it already"
	case c.approval == nil:
		return "its kind is not answered by people"
	}
	if err := quorum.Eligible(&c.approval.Spec, nil, a.me); err != nil {
		return err.Error()
	}
	return ""
}

func (a *answerer) send(ctx context.Context, c *check) error {
	response := a.response(c)
	if err := a.c.Create(ctx, response); err != nil {
		return err
	}
	a.created = append(a.created, namedObject(setKind(a.c.Scheme(), response)))
	if !a.o.output.machine() {
		a.p.say("%s %s%s", past(a.o.decision), c.key(), a.tally(ctx, c))
	}
	return nil
}

// response is bound to the UID that was looked at, so that an answer never lands on a later check of the same name.
func (a *answerer) response(c *check) *approvalv1alpha1.ApprovalResponse {
	target := approvalv1alpha1.CheckTarget{Kind: c.gvk.Kind, Name: c.meta.Name, UID: c.meta.UID}
	if c.approval == nil {
		target.APIVersion = c.gvk.GroupVersion().String()
	}
	response := &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.meta.Namespace, GenerateName: c.meta.Name + "-"},
		Spec:       approvalv1alpha1.ApprovalResponseSpec{RequestRef: target, Decision: a.o.decision, Comment: a.o.comment},
	}
	if a.o.grantFor > 0 {
		response.Spec.GrantFor = &metav1.Duration{Duration: a.o.grantFor}
	}
	return response
}

func past(decision approvalv1alpha1.ApprovalDecision) string {
	switch decision {
	case approvalv1alpha1.DecisionApprove:
		return "approved"
	case approvalv1alpha1.DecisionReject:
		return "rejected"
	}
	return "revoked"
}

// tally says how many answers the check has with this one. The controller may or may not have counted it yet.
func (a *answerer) tally(ctx context.Context, c *check) string {
	if c.approval == nil || a.o.decision != approvalv1alpha1.DecisionApprove {
		return ""
	}
	now := c
	if fresh, err := a.c.checkByName(ctx, builtinKinds()[0], c.meta.Namespace, c.meta.Name); err == nil && fresh[0].approval != nil {
		now = fresh[0]
	}
	required, given := 0, 0
	for _, policy := range now.approval.Spec.Policies {
		required += int(policy.NumberOfApprovalsRequired)
	}
	for _, policy := range now.approval.Status.Policies {
		given += int(policy.Approvals)
	}
	if !now.answered(a.me.Username) {
		given++
	}
	return fmt.Sprintf(" (%d of %s)", min(given, required), count(required, "answer", "answers"))
}
