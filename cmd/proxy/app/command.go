package app

import (
	"flag"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// NewCommand returns the proxy's command.
func NewCommand() *cobra.Command {
	options := DefaultOptions()
	cmd := &cobra.Command{
		Use:          "proxy",
		Short:        "Stand before tools and pass on only what is approved",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.Validate(); err != nil {
				return err
			}
			ctrl.SetLogger(zap.New(zap.UseDevMode(options.Development)))
			config, err := ctrl.GetConfig()
			if err != nil {
				return err
			}
			return Run(cmd.Context(), config, options)
		},
	}
	options.AddFlags(cmd.Flags())
	cmd.Flags().AddGoFlag(flag.CommandLine.Lookup("kubeconfig"))
	return cmd
}
