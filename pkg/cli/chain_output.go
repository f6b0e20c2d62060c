package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/AlaudaDevops/countersign/pkg/chain"
)

const outputMermaid = "mermaid"

// chainOutput is the flag -o of chain.
type chainOutput struct{ format string }

func (o *chainOutput) String() string { return o.format }

// Type implements pflag.Value.
func (*chainOutput) Type() string { return "format" }

// Set refuses what is no format, so that it is found before anything is read.
func (o *chainOutput) Set(format string) error {
	if !slices.Contains(chainFormats(), format) {
		return fmt.Errorf("use one of %s", strings.Join(chainFormats(), ", "))
	}
	o.format = format
	return nil
}

func chainFormats() []string { return []string{outputJSON, outputMermaid, outputYAML} }

func (o *chainOutput) addTo(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "Output format: "+strings.Join(chainFormats(), ", ")+".")
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(chainFormats(), cobra.ShellCompDirectiveNoFileComp)))
}

func (o *chainOutput) print(w io.Writer, c *chain.Chain) error {
	switch o.format {
	case outputMermaid:
		_, err := io.WriteString(w, mermaid(c))
		return err
	case outputJSON, outputYAML:
		return (&output{format: o.format}).document(w, c)
	}
	_, err := io.WriteString(w, chainText(c))
	return err
}
