package main

import (
	"github.com/spf13/cobra"

	"github.com/AlaudaDevops/countersign/test/env"
)

// newEgressCommand is the process through which the API server of a development cluster reaches
// Services; env.Start runs it.
func newEgressCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "egress --dir DIR",
		Short:  "Stand in for the network between the API server and the Services of the cluster in DIR",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return env.RunEgress(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", ".dev", "state directory of the cluster")
	return cmd
}
