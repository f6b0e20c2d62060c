package cli

import (
	"context"

	"github.com/spf13/cobra"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func (p *program) reject() *cobra.Command {
	o := &answerOptions{decision: approvalv1alpha1.DecisionReject}
	cmd := verb(&cobra.Command{
		Use:   "reject NAME... --comment TEXT",
		Short: "Reject the checks of a request",
		Long:  "Reject the checks of a request, or one check. One rejection ends the request." + answerHelp,
		Example: example(`
# Reject, saying why
{{}} reject rcr-2c7f -n prod --comment "not before the backup is done"`),
		Args: atLeastOne, ValidArgsFunction: p.completeChecks(o),
	}, func(ctx context.Context, args []string) error {
		return p.answers(ctx, o, args, func(a *answerer, name string) error { return a.answer(ctx, name) })
	})
	o.addTo(cmd)
	return cmd
}
