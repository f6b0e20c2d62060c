package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
)

// displayName is how people call the program, alone or as a plugin of kubectl.
const displayName = "kubectl countersign"

// program is what all verbs share.
type program struct {
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	clock   clock.WithTicker
	// dial connects to the API server; tests put their own in its place.
	dial func(*program) (*cluster, error)
	// resources asks which kinds there are; tests put their own in its place.
	resources func(*program) ([]*metav1.APIResourceList, error)
	// epoch is since when creator records are believed, or why none is; tests put their own in its place.
	epoch func(ctx context.Context, c *cluster, o epochOptions) (time.Time, string, error)
	// terminal says that somebody watches standard error.
	terminal bool
	// asks says that somebody watches standard error and types on standard input, so that he can be asked.
	asks bool
}

// New returns the command with all its verbs, reading the flags that kubectl has too.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	return newProgram(streams).command()
}

// Run executes one command line, without the program's name, and returns its exit code. It prints errors itself.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	return newProgram(streams).run(ctx, args)
}

func newProgram(streams genericiooptions.IOStreams) *program {
	flags := genericclioptions.NewConfigFlags(true)
	// --proxy-url is Countersign's proxy here; the kubeconfig still names one for the API server.
	flags.ProxyURL = nil
	watched := isTerminal(streams.ErrOut)
	return &program{
		streams: streams, flags: flags, clock: clock.RealClock{}, dial: dial, epoch: readEpoch, resources: resources,
		terminal: watched, asks: watched && isTerminal(streams.In),
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (p *program) run(ctx context.Context, args []string) int {
	root := p.command() //nolint:contextcheck // The verbs take the context from their command, which gets it below.
	root.SetArgs(args)
	executed, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	var known *failure
	if !errors.As(err, &known) {
		// Verbs return failures only, so this is cobra's: the command line could not be understood.
		known = &failure{code: ExitUsage, text: firstLine(err.Error())}
	}
	if known.text != "" {
		p.tell("%s", "error: "+known.text)
	}
	if known.code == ExitUsage {
		p.tell("See '%s --help' for usage and examples.", executed.CommandPath())
	}
	return known.code
}

// say prints a line of the result, tell a line about it. An error means that nobody reads it any more.
func (p *program) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.streams.Out, format+"\n", args...)
}

func (p *program) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(p.streams.ErrOut, format+"\n", args...)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:         "kubectl-countersign",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: displayName},
		Short:       "Ask for the use of protected objects, answer, and see who answers for what",
		Long: "Ask for the use of protected objects, wait, answer, and let it be explained; stand for release plans; find out who did what." +
			exits(codes{ExitDenied: "denied or rejected", ExitPending: "still pending", ExitNotFound: "not found"}),
		Example: example(`
# Ask to push to the production registry for two hours, and wait for the answer
{{}} request connector/prod-harbor -n prod --in team-a --reason "promote 1.4.2" --for 2h --wait

# See what waits for your answer, and answer
{{}} list --inbox
{{}} approve rcr-2c7f -n prod

# Why is it refused?
{{}} explain connector/prod-harbor -n prod --method PUT --path /v2/app/manifests/1

# Answer for the Releases that programs make by a plan
{{}} accept releaseplan/shop -n team-a

# Who is behind this run?
{{}} chain pipelinerun/release-7 -n team-a`),
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(p.streams.In)
	root.SetOut(p.streams.Out)
	root.SetErr(p.streams.ErrOut)
	p.flags.AddFlags(root.PersistentFlags())
	root.AddCommand(p.request(), p.list(), p.describe(), p.approve(), p.reject(), p.revoke(), p.accept(), p.wait(), p.explain(), p.whois(), p.chain(), p.creators())
	return root
}

// example indents and names the program, so that texts read the same whatever the name is.
func example(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "{{}}", displayName)
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

// exactlyOne and atLeastOne say which argument is missing, in the words of the verb's usage line.
func exactlyOne(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("give one %s, not %d", argumentOf(cmd), len(args))
	}
	return nil
}

func atLeastOne(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("give at least one %s", argumentOf(cmd))
	}
	return nil
}

func argumentOf(cmd *cobra.Command) string {
	return strings.TrimSuffix(strings.Fields(cmd.Use)[1], "...")
}

// verb makes a command whose errors are failures.
func verb(cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return asFailure(run(cmd.Context(), args)) }
	return cmd
}
