// Command bench measures the sizes of the design, as ratios of one run on one machine. test/bench/run.sh builds
// what it needs, brings an environment up for it and cleans up.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/AlaudaDevops/countersign/test/bench/load"
	"github.com/AlaudaDevops/countersign/test/bench/serve"
)

func main() { os.Exit(execute()) }

func execute() int {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := &cobra.Command{Use: "bench", Short: "Measure Countersign", SilenceUsage: true, SilenceErrors: true}
	cmd.AddCommand(newRunCommand(), newToolCommand(), newBareCommand(), newLoadCommand())
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		return 1
	}
	return 0
}

func newToolCommand() *cobra.Command {
	return &cobra.Command{
		Use: "tool", Short: "Serve the tool behind the proxies, and print where", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listen(cmd, serve.Tool(), "", "") },
	}
}

func newBareCommand() *cobra.Command {
	var tool, certFile, keyFile string
	cmd := &cobra.Command{
		Use: "bare", Short: "Serve a bare httputil.ReverseProxy, and print where", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := url.Parse(tool)
			if err != nil {
				return err
			}
			return listen(cmd, serve.Bare(at), certFile, keyFile)
		},
	}
	cmd.Flags().StringVar(&tool, "tool", "", "URL of the tool")
	cmd.Flags().StringVar(&certFile, "tls-cert-file", "", "serving certificate")
	cmd.Flags().StringVar(&keyFile, "tls-private-key-file", "", "its key")
	return cmd
}

func listen(cmd *cobra.Command, server *http.Server, certFile, keyFile string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), listener.Addr()); err != nil {
		return err
	}
	return serve.Until(cmd.Context(), server, listener, certFile, keyFile)
}

func newLoadCommand() *cobra.Command {
	target, plan := load.Target{}, load.Plan{}
	cmd := &cobra.Command{
		Use: "load", Short: "Load a server and print what was counted, as JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := load.Run(cmd.Context(), target, plan)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
		},
	}
	f := cmd.Flags()
	f.StringVar(&target.URL, "url", "", "what is requested")
	f.StringVar(&target.Method, "method", http.MethodGet, "how it is requested")
	f.StringVar(&target.SendFile, "send-file", "", "file with the JSON that is sent")
	f.IntVar(&target.Status, "status", http.StatusOK, "status of every answer")
	f.StringVar(&target.TokenFile, "token-file", "", "file with the bearer token")
	f.StringVar(&target.CAFile, "ca-file", "", "authorities of the server's certificate")
	f.IntVar(&target.BodyBytes, "body-bytes", 0, fmt.Sprintf("length of every answer; %d if it differs", load.AnyLength))
	f.IntVar(&plan.Connections, "connections", 1, "connections that send at the same time")
	f.DurationVar(&plan.WarmUp, "warm-up", 0, "how long is loaded before counting")
	f.DurationVar(&plan.Duration, "duration", 0, "how long is counted")
	return cmd
}
