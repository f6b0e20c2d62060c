package cli

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func (p *program) revoke() *cobra.Command {
	o := &answerOptions{decision: approvalv1alpha1.DecisionRevoke}
	cmd := verb(&cobra.Command{
		Use:   "revoke NAME... --comment TEXT",
		Short: "Take a request or an approval back",
		Long: `Take back your own request, or an approval: your own, or as an owner (verb revoke) any.

A revocation ends every request that rests on it, also after it was granted; uses under way are cut.` + answerHelp,
		Example: example(`
# I no longer need what I asked for
{{}} revoke rcr-2c7f -n team-a --comment "done"

# As an approver or owner: end what was granted
{{}} revoke rcr-2c7f -n prod --comment "the token leaked"`),
		Args: atLeastOne, ValidArgsFunction: p.completeRequests(&o.at),
	}, func(ctx context.Context, args []string) error {
		return p.answers(ctx, o, args, func(a *answerer, name string) error {
			a.kinds = a.c.checkKinds(ctx)
			return a.revoke(ctx, name)
		})
	})
	o.at.addTo(cmd)
	o.addTo(cmd)
	return cmd
}

// revoke ends the request where it is the caller's own, and otherwise takes the approvals of its checks back.
func (a *answerer) revoke(ctx context.Context, word string) error {
	namespace, name, err := splitName(word, a.namespace)
	if err != nil {
		return err
	}
	req, err := a.c.request(ctx, namespace, name)
	if err != nil && !unreadable(err) {
		return err
	}
	if err == nil && a.c.mine(ctx, req, a.me.Username) {
		return a.revokeRequest(ctx, req)
	}
	isRequest := err == nil
	found, err := a.find(ctx, word)
	switch {
	case err == nil:
		return a.answerAll(ctx, found)
	case isRequest:
		// There is no check to answer: the server says whether the caller may end the request.
		return a.revokeRequest(ctx, req)
	}
	return err
}

func (a *answerer) revokeRequest(ctx context.Context, req *approvalv1alpha1.ResourceCheckRequest) error {
	if req.Spec.Revoked != nil || req.Status.Ended != nil {
		return fail(ExitDenied, "%s/%s has ended already: %s", req.Namespace, req.Name, situationOf(req, a.p.clock.Now()).line(a.p.clock.Now()))
	}
	if err := revokeRequest(ctx, a.c, req, a.o.comment); err != nil {
		return err
	}
	a.created = append(a.created, namedObject(setKind(a.c.Scheme(), req)))
	if !a.o.output.machine() {
		a.p.say("revoked %s/%s", req.Namespace, req.Name)
	}
	return nil
}

// revokeRequest sets spec.revoked, the one field of a request that may change; req then holds the stored state.
func revokeRequest(ctx context.Context, c *cluster, req *approvalv1alpha1.ResourceCheckRequest, reason string) error {
	before := req.DeepCopy()
	req.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: reason}
	return c.Patch(ctx, req, client.MergeFrom(before))
}
