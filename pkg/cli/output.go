package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Values of -o.
const (
	outputWide = "wide"
	outputName = "name"
	outputJSON = "json"
	outputYAML = "yaml"
)

// output is the flag -o.
type output struct{ format string }

var _ interface {
	String() string
	Set(string) error
	Type() string
} = (*output)(nil)

func (o *output) String() string { return o.format }

// Type implements pflag.Value.
func (*output) Type() string { return "format" }

// Set refuses what is no format, so that it is found before anything is done.
func (o *output) Set(format string) error {
	if !slices.Contains(formats(), format) {
		return fmt.Errorf("use one of %s", strings.Join(formats(), ", "))
	}
	o.format = format
	return nil
}

func formats() []string { return []string{outputJSON, outputName, outputWide, outputYAML} }

func (o *output) addTo(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "Output format: "+strings.Join(formats(), ", ")+".")
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp)))
}

// must reports a mistake in how the commands are put together.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// machine tells whether a program reads the output.
func (o *output) machine() bool {
	return o.format == outputName || o.format == outputJSON || o.format == outputYAML
}

// named is something that a program reads: a name for -o name, and the rest.
type named struct {
	name  string
	value any
}

// namedObject is what kubectl prints for -o name, and the object.
func namedObject(o client.Object) named {
	gvk := o.GetObjectKind().GroupVersionKind()
	return named{strings.ToLower(gvk.Kind) + "." + gvk.Group + "/" + o.GetName(), o}
}

// print prints one as itself, and what is a list, or more than one, as a List.
func (o *output) print(w io.Writer, list bool, items ...named) error {
	if o.format == outputName {
		return printNames(w, items)
	}
	if !list && len(items) == 1 {
		return o.document(w, items[0].value)
	}
	values := make([]any, 0, len(items))
	for _, item := range items {
		values = append(values, item.value)
	}
	return o.document(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": values})
}

func printNames(w io.Writer, items []named) error {
	for _, item := range items {
		if _, err := fmt.Fprintln(w, show(item.name)); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) document(w io.Writer, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	safe := escapeJSON(raw)
	if o.format == outputYAML && bytes.Equal(raw, safe) {
		if safe, err = yaml.JSONToYAML(raw); err != nil {
			return err
		}
		safe = bytes.TrimSuffix(safe, []byte("\n"))
	}
	// What had to be escaped stays JSON, which is YAML too, because a plain YAML scalar knows no escapes.
	_, err = fmt.Fprintf(w, "%s\n", safe)
	return err
}

// escapeJSON writes characters that could draw as \u escapes; the document means the same.
func escapeJSON(raw []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(raw) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

// setKind restores what a typed client leaves out of an object.
func setKind(scheme *runtime.Scheme, o client.Object) client.Object {
	if gvks, _, err := scheme.ObjectKinds(o); err == nil && len(gvks) > 0 {
		o.GetObjectKind().SetGroupVersionKind(gvks[0])
	}
	o.SetManagedFields(nil)
	return o
}

// table is aligned columns; cells must be shown already.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) print(w io.Writer, withHeader bool) error {
	tab := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	rows := t.rows
	if withHeader {
		rows = slices.Concat([][]string{t.header}, rows)
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(tab, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tab.Flush()
}

// sheet is a description: a name and a text on each line, further lines indented.
type sheet struct{ strings.Builder }

// fieldWidth is how far the texts of a sheet are indented.
const fieldWidth = 14

func (s *sheet) field(name, format string, args ...any) {
	fmt.Fprintf(&s.Builder, "%-*s%s\n", fieldWidth, name+":", fmt.Sprintf(format, args...))
}

// optional leaves a field without text out.
func (s *sheet) optional(name, text string) {
	if text != "" && text != none {
		s.field(name, "%s", text)
	}
}

// list is a field with a line for each entry.
func (s *sheet) list(name string, lines []string) {
	for i, line := range lines {
		if i == 0 {
			s.field(name, "%s", line)
			continue
		}
		fmt.Fprintf(&s.Builder, "%*s%s\n", fieldWidth, "", line)
	}
}
