package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/AlaudaDevops/countersign/pkg/cli"
)

const docs = "../../docs"

// pages are the texts for people: what they say of commands has to be so.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	paths := []string{"../../README.md"}
	require.NoError(t, filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	}))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		found[path] = string(text)
	}
	return found
}

// ours is a command line of our program, in a block or between back quotes, up to where the shell or a comment goes on.
var ours = regexp.MustCompile("kubectl[ -]countersign ((?:[^`|#\n\\\\]|\\\\\n)*)")

func TestEveryCommandInTheDocumentationExists(t *testing.T) {
	seen := map[string]bool{}
	for path, text := range pages(t) {
		for _, line := range ours.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(strings.ReplaceAll(line[1], "\\\n", " "))
			if len(words) == 0 || !regexp.MustCompile(`^[a-z-]+$`).MatchString(words[0]) {
				continue // it speaks of the program
			}
			verb := commandOf(cli.New(genericiooptions.NewTestIOStreamsDiscard()), words)
			if !assert.Truef(t, verb.Runnable() && verb.HasParent(), "%s: kubectl countersign %s", path, strings.Join(words, " ")) {
				continue
			}
			seen[verb.Name()] = true
			for _, word := range words {
				assert.Truef(t, hasFlag(verb, word), "%s: %s has no flag %s", path, verb.CommandPath(), word)
			}
		}
	}
	for _, verb := range []string{"request", "list", "describe", "approve", "reject", "revoke", "accept", "wait", "explain", "whois", "chain", "migrate"} {
		assert.True(t, seen[verb], "no page shows %s", verb)
	}
}

// commandOf is the command that words name; the root if they name none.
func commandOf(root *cobra.Command, words []string) *cobra.Command {
	at := root
	for _, word := range words {
		next := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
		if next < 0 {
			break
		}
		at = at.Commands()[next]
	}
	return at
}

// hasFlag tells of a word that it is no flag, or one that the command has.
func hasFlag(verb *cobra.Command, word string) bool {
	name, long := strings.CutPrefix(word, "--")
	name, _, _ = strings.Cut(name, "=")
	switch {
	case long:
		return verb.Flag(name) != nil || name == "help"
	case len(word) == 2 && word[0] == '-':
		return verb.Flags().ShorthandLookup(word[1:]) != nil || verb.InheritedFlags().ShorthandLookup(word[1:]) != nil
	}
	return true
}

// Words that a how-to quotes as the program's are found in the program: in one of the texts of its sources.
func TestWordsThatTheHowToQuotesAreThePrograms(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "how-to", "release-manager.md"))
	require.NoError(t, err)
	said := literals(t, "../../pkg/attribution", "../../pkg/controller/attribution")
	rows := regexp.MustCompile("(?m)^\\| `([^`|]+)` \\|").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		assert.True(t, slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, row[1]) }), row[1])
	}
}

// Reasons that a how-to explains are reasons that the program gives.
func TestReasonsThatTheHowToExplainsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "how-to", "requester.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| reason | what to do |\n|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	reasons := literals(t, "../../apis/approval/v1alpha1")
	for row := range strings.SplitSeq(table, "\n") {
		for reason := range strings.SplitSeq(strings.Split(row, "|")[1], ",") {
			assert.Contains(t, reasons, strings.TrimSpace(reason))
		}
	}
}

// literals are the texts in the sources of the folders.
func literals(t *testing.T, folders ...string) (found []string) {
	t.Helper()
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						found = append(found, text)
					}
				}
				return true
			})
		}
	}
	return found
}
