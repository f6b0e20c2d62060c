package cli

import (
	"context"

	"github.com/spf13/cobra"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func (p *program) approve() *cobra.Command {
	o := &answerOptions{decision: approvalv1alpha1.DecisionApprove}
	cmd := verb(&cobra.Command{
		Use:   "approve NAME...",
		Short: "Approve the checks of a request",
		Long:  "Approve the checks of a request, or one check." + answerHelp,
		Example: example(`
# Approve every check of a request that waits for you
{{}} approve rcr-2c7f -n prod

# Approve one check, for half an hour only
{{}} approve rcr-2c7f-prod-harbor-push -n prod --grant-for 30m --comment "after the backup"`),
		Args: atLeastOne, ValidArgsFunction: p.completeChecks(o),
	}, func(ctx context.Context, args []string) error {
		return p.answers(ctx, o, args, func(a *answerer, name string) error { return a.answer(ctx, name) })
	})
	cmd.Flags().DurationVar(&o.grantFor, "grant-for", 0, "Shorten how long the grant holds, e.g. 30m.")
	o.addTo(cmd)
	return cmd
}
