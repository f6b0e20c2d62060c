// Command dev runs the development environment: a whole control plane with Countersign on it, as processes of
// this machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() { os.Exit(run()) }

func run() int {
	// The client library logs; people read the program's own sentences.
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dev: "+err.Error())
		return 1
	}
	return 0
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "dev",
		Short:             "Run Countersign's development environment",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.AddCommand(newUpCommand(), newDownCommand(), newTokenCommand(), newDemoCommand(), newIssuerCommand(), newEgressCommand())
	return cmd
}

func newDemoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Tell the whole story in an environment of its own, verify every step, and clean up",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), cmd.OutOrStdout()) },
	}
}
