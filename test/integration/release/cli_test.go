package release

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/AlaudaDevops/countersign/pkg/cli"
)

// countersign runs our program as somebody, and returns its exit code and what it said.
func (w *world) countersign(as string, args ...string) (code int, out, err string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "kubeconfig")
	content, fault := cluster.Kubeconfig("test", cluster.Admin())
	require.NoError(w.t, fault)
	require.NoError(w.t, os.WriteFile(file, content, 0o600))
	var stdout, stderr bytes.Buffer
	args = append([]string{"--kubeconfig", file, "-n", w.namespace, "--as", as, "--as-group", "system:authenticated"}, append(args, "--yes")...)
	code = cli.Run(w.t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestAcceptingByCommand(t *testing.T) {
	w := newWorld(t)
	p := w.plan("plan", w.proposing(alice))
	w.create(w.user(robot), p)

	code, _, said := w.countersign(bob, "accept", "releaseplan/plan")
	assert.Equal(t, cli.ExitDenied, code)
	assert.Contains(t, said, "that is "+alice+", not "+bob)
	w.stands(p, "")

	code, out, said := w.countersign(alice, "accept", "rp/plan", "--expires", "720h")
	require.Equal(t, cli.ExitDone, code, said)
	assert.Contains(t, said, "Target:       managed\n")
	assert.Contains(t, said, "Created by:   "+robot+"\n")
	assert.Contains(t, out, "accepted releaseplan/plan in "+w.namespace+": "+alice+", since ")
	w.stands(p, alice)
	assert.NotNil(t, standing(t, reread(w, p)).ExpiresAt)

	code, out, said = w.countersign(alice, "accept", "releaseplan/plan", "--withdraw")
	require.Equal(t, cli.ExitDone, code, said)
	assert.Contains(t, out, "withdrawn from releaseplan/plan")
	assert.Equal(t, record{}, w.record(reread(w, p)))
	code, _, said = w.countersign(alice, "accept", "releaseplan/plan")
	assert.Equal(t, cli.ExitDenied, code, "she has to be asked again")
	assert.Contains(t, said, "have yourself proposed")
}
