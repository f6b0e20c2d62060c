package e2e

import (
	"archive/tar"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ran is what a program did.
type ran struct {
	command string
	code    int
	output  string
}

// program runs one of the built programs, or one of the system, with the environment that dev prints.
func program(t testing.TB, env []string, name string, args ...string) ran {
	t.Helper()
	path := filepath.Join(plane.bin, name)
	if _, err := os.Stat(path); err != nil {
		path = name
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	for key, value := range plane.values {
		if key != "PATH" {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	output, err := cmd.CombinedOutput()
	r := ran{command: name + " " + strings.Join(args, " "), output: string(output)}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.code = exit.ExitCode()
		return r
	}
	require.NoError(t, err)
	return r
}

// succeeds sees that the program did what it should, and said these words.
func (r ran) succeeds(t testing.TB, says ...string) ran {
	t.Helper()
	return r.ends(t, 0, says...)
}

// ends sees how the program ended, and that it said these words.
func (r ran) ends(t testing.TB, code int, says ...string) ran {
	t.Helper()
	require.Equalf(t, code, r.code, "%s said:\n%s", r.command, r.output)
	return r.says(t, says...)
}

// fails sees that the program was refused, and said these words.
func (r ran) fails(t testing.TB, says ...string) ran {
	t.Helper()
	require.NotZerof(t, r.code, "%s should be refused, but said:\n%s", r.command, r.output)
	return r.says(t, says...)
}

func (r ran) says(t testing.TB, words ...string) ran {
	t.Helper()
	for _, word := range words {
		assert.Containsf(t, r.output, word, "%s", r.command)
	}
	assert.NotContains(t, r.output, "panic:")
	return r
}

// cli runs kubectl-countersign as a person.
func cli(t testing.TB, person string, args ...string) ran {
	t.Helper()
	return program(t, nil, "kubectl-countersign", append(args, "--context", person)...)
}

// cliAnswer lets somebody answer a request as soon as its check is there.
func cliAnswer(t testing.TB, person string, args ...string) {
	t.Helper()
	eventually(t, person+" answers: "+strings.Join(args, " "), func() error {
		if r := cli(t, person, args...); r.code != 0 {
			return errors.New(r.output)
		}
		return nil
	})
}

// granted asks for a connector as a person by the command line, and lets both owners agree.
func granted(t testing.TB, person, object, namespace, in string) string {
	t.Helper()
	asked := cli(t, person, "request", object, "-n", namespace, "--in", in, "--reason", "the test asks", "-o", "name").succeeds(t)
	name := nameIn(asked.output)
	for _, owner := range []string{"owner1", "owner2"} {
		cliAnswer(t, owner, "approve", name, "-n", namespace)
	}
	cli(t, person, "wait", name, "-n", in, "--timeout", "30s").succeeds(t)
	return name
}

// nameIn is the last word of what -o name prints, without the kind.
func nameIn(output string) string {
	words := strings.Fields(output)
	if len(words) == 0 {
		return ""
	}
	_, name, both := strings.Cut(words[len(words)-1], "/")
	if !both {
		return words[len(words)-1]
	}
	return name
}

// crane runs crane with a person's token as password, as after docker login.
func crane(t testing.TB, person string, args ...string) ran {
	t.Helper()
	login := base64.StdEncoding.EncodeToString([]byte(person + ":" + plane.token(t, person)))
	config, err := json.Marshal(map[string]any{"auths": map[string]any{plane.values["PROXY_HOST"]: map[string]string{"auth": login}}})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))
	return program(t, []string{"DOCKER_CONFIG=" + dir, "SSL_CERT_FILE=" + plane.values["PROXY_CA"]}, "crane", args...)
}

// image makes a small image as a file.
func image(t testing.TB, content string) string {
	t.Helper()
	dir := t.TempDir()
	layer, err := os.Create(filepath.Join(dir, "layer.tar"))
	require.NoError(t, err)
	w := tar.NewWriter(layer)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "hello.txt", Mode: 0o644, Size: int64(len(content))}))
	_, err = w.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, layer.Close())
	path := filepath.Join(dir, "image.tar")
	program(t, nil, "crane", "append", "--new_layer", layer.Name(), "--new_tag", "test/app:1", "--output", path).succeeds(t)
	return path
}
