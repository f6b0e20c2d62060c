package main

import (
	"github.com/spf13/cobra"

	"github.com/AlaudaDevops/countersign/test/env"
)

// newIssuerCommand is the process that serves the issuer of people's tokens for a development
// cluster; env.Start runs it.
func newIssuerCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "issuer --dir DIR",
		Short:  "Serve the issuer of people's tokens of the cluster in DIR",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return env.RunIssuer(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", ".dev", "state directory of the cluster")
	return cmd
}
