package main

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// story is a demo that runs: it shows each command with what it printed, and verifies it.
type story struct {
	out  io.Writer
	dir  string
	bin  string
	env  map[string]string
	step int
	tag  int

	image   string
	request string
	granted time.Time
}

func (s *story) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

func (s *story) title(what, meaning string) {
	s.step++
	s.say("\n%d. %s\n   %s", s.step, what, meaning)
}

// begin starts the environment and makes the image that the story pushes.
func (s *story) begin(ctx context.Context) error {
	s.say("Starting an environment of its own for the demo ...")
	up := exec.CommandContext(ctx, filepath.Join(s.bin, "dev"), "up", "--dir", s.dir)
	up.Stdout, up.Stderr = s.out, s.out
	if err := up.Run(); err != nil {
		return fmt.Errorf("the environment did not start: %w", err)
	}
	env, err := readEnv(filepath.Join(s.dir, "env"))
	if err != nil {
		return err
	}
	s.env = env
	return s.makeImage(ctx)
}

// cleanUp removes the environment, also when the story was interrupted.
func (s *story) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	s.say("\nCleaning up ...")
	down := exec.CommandContext(ctx, filepath.Join(s.bin, "dev"), "down", "--dir", s.dir)
	output, err := down.CombinedOutput()
	if err != nil {
		return fmt.Errorf("cleaning up failed: %w\n%s", err, output)
	}
	return os.RemoveAll(s.dir)
}

// readEnv reads the shell file of the environment: lines of [export] NAME=VALUE.
func readEnv(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	env := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		if ok {
			env[name] = strings.Trim(value, `"'`)
		}
	}
	return env, nil
}

// makeImage writes a small real image as a tarball.
func (s *story) makeImage(ctx context.Context) error {
	layer := filepath.Join(s.dir, "layer.tar")
	if err := writeLayer(layer, "hello.txt", "hello from the demo\n"); err != nil {
		return err
	}
	s.image = filepath.Join(s.dir, "app.tar")
	r := s.run(ctx, nil, "crane", "append", "--new_layer", layer, "--new_tag", "demo/app:1", "--output", s.image)
	return r.succeeds()
}

func writeLayer(path, name, content string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	w := tar.NewWriter(file)
	header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.WriteString(w, content); err != nil {
		return err
	}
	return w.Close()
}

// target is where the story's image goes.
func (s *story) target() string {
	return fmt.Sprintf("%s/%s:%d", s.env["PROXY_HOST"], demoRepository, s.tag)
}

// newTarget is another tag: crane only reads when the image is already there, and reading needs no approval.
func (s *story) newTarget() string {
	s.tag++
	return s.target()
}

// cli runs kubectl-countersign as a person and shows it.
func (s *story) cli(ctx context.Context, person string, args ...string) result {
	return s.show(person, s.quietCLI(ctx, person, args...))
}

func (s *story) quietCLI(ctx context.Context, person string, args ...string) result {
	return s.run(ctx, nil, "kubectl-countersign", append(args, "--context", person)...)
}

// crane runs crane as a person, whose token is the password, and shows it.
func (s *story) crane(ctx context.Context, person string, args ...string) result {
	return s.show(person, s.quietCrane(ctx, person, args...))
}

func (s *story) quietCrane(ctx context.Context, person string, args ...string) result {
	config, err := s.dockerConfig(person)
	if err != nil {
		return result{code: -1, output: err.Error()}
	}
	return s.run(ctx, []string{"DOCKER_CONFIG=" + config, "SSL_CERT_FILE=" + s.env["PROXY_CA"]}, "crane", args...)
}

// dockerConfig writes a person's registry login, as `docker login` would.
func (s *story) dockerConfig(person string) (string, error) {
	token, err := os.ReadFile(filepath.Join(s.dir, "tokens", person))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.dir, "docker", person)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	login := base64.StdEncoding.EncodeToString([]byte(person + ":" + strings.TrimSpace(string(token))))
	config, err := json.Marshal(map[string]any{"auths": map[string]any{s.env["PROXY_HOST"]: map[string]string{"auth": login}}})
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
}

// result is what a command did.
type result struct {
	command string
	output  string
	code    int
}

func (s *story) run(ctx context.Context, env []string, name string, args ...string) result {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Env = append(os.Environ(), env...)
	for key, value := range s.env {
		if key != "PATH" {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}
	output, err := cmd.CombinedOutput()
	r := result{command: name + " " + strings.Join(args, " "), output: string(output)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		r.code, r.output = -1, err.Error()
	}
	return r
}

func (s *story) show(person string, r result) result {
	s.say("   %s$ %s", person, shortened(r.command))
	for line := range strings.Lines(strings.TrimSpace(r.output)) {
		s.say("     %s", strings.TrimRight(line, "\n"))
	}
	return r
}

// shortened drops temporary folders from a command, for reading.
func shortened(command string) string {
	words := strings.Fields(command)
	for i, word := range words {
		if filepath.IsAbs(word) {
			words[i] = filepath.Base(word)
		}
	}
	return strings.Join(words, " ")
}

func (r result) succeeds(wants ...string) error {
	if r.code != 0 {
		return fmt.Errorf("%s should succeed, but ended with %d: %s", r.command, r.code, r.output)
	}
	return r.prints(wants)
}

func (r result) fails(wants ...string) error {
	if r.code == 0 {
		return fmt.Errorf("%s should be refused, but succeeded: %s", r.command, r.output)
	}
	return r.prints(wants)
}

func (r result) prints(wants []string) error {
	for _, want := range wants {
		if !strings.Contains(r.output, want) {
			return fmt.Errorf("%s should print %q, but printed: %s", r.command, want, r.output)
		}
	}
	return nil
}

// nameIn is the object's name in the output of -o name.
func nameIn(output string) string {
	lines := strings.Fields(output)
	if len(lines) == 0 {
		return ""
	}
	_, name, _ := strings.Cut(lines[len(lines)-1], "/")
	return name
}
