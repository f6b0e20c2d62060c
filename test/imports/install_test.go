package imports

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	controller "github.com/AlaudaDevops/countersign/cmd/controller/app"
	proxy "github.com/AlaudaDevops/countersign/cmd/proxy/app"
	"github.com/AlaudaDevops/countersign/pkg/cli"
)

// The kustomization that operators copy takes: each image is replaced, and the flag reaches the controller.
func TestKustomizationOfTheHowToIsTaken(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "how-to", "operator.md"))
	require.NoError(t, err)
	sample := regexp.MustCompile("(?s)\n```yaml\n(resources: .*?)\n```").FindStringSubmatch(string(text))
	require.NotNil(t, sample)
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.CopyFS(config, os.DirFS("../../config")))
	require.NoError(t, os.Mkdir(filepath.Join(config, "mine"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(config, "mine", "kustomization.yaml"), []byte(sample[1]), 0o600))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(config, "mine"))
	require.NoError(t, err)
	made, err := resources.AsYaml()
	require.NoError(t, err)
	for _, want := range []string{
		"image: registry.example.com/countersign-controller:1.0\n", "image: registry.example.com/countersign-proxy:1.0\n",
		"- --automated-service-accounts=system:serviceaccount:team-a:integration\n",
	} {
		assert.Equal(t, 1, strings.Count(string(made), want), want)
	}
}

// Flags that a page names are flags of one of the programs.
func TestFlagsInTheDocumentationExist(t *testing.T) {
	known := map[string]bool{"help": true}
	collect := func(flags *pflag.FlagSet) { flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = true }) }
	for _, add := range []func(*pflag.FlagSet){controllerFlags, proxyFlags} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		add(flags)
		collect(flags)
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		collect(cmd.Flags())
		collect(cmd.PersistentFlags())
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(cli.New(genericiooptions.NewTestIOStreamsDiscard()))
	for path, text := range pages(t) {
		for _, flag := range regexp.MustCompile("`--([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			assert.Truef(t, known[flag[1]], "%s: no program has --%s", path, flag[1])
		}
	}
}

func controllerFlags(flags *pflag.FlagSet) {
	options := controller.DefaultOptions()
	options.AddFlags(flags)
}

func proxyFlags(flags *pflag.FlagSet) {
	options := proxy.DefaultOptions()
	options.AddFlags(flags)
}
