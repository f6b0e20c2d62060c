package env

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// Program is a further process of a cluster, beside its own parts.
type Program struct {
	// Name names its log, <state>/logs/<name>.log, and its process.
	Name string
	Path string
	Args []string
	// Env is added to this process's environment.
	Env []string
	// Ready succeeds when the program does its work.
	Ready func(context.Context) error
}

// Process is one that a cluster started.
type Process struct {
	Name string
	PID  int
	Log  string
}

// Address returns the 127.0.0.1:port that belongs to the name. The port is chosen at first use and
// kept with the cluster's state.
func (c *Cluster) Address(name string) (string, error) { return c.ports.address(name) }

// Run starts the program and returns when it is ready; it ends with the cluster. In a detached
// cluster a program that runs already, from the same file with the same arguments, is left alone,
// and one that runs otherwise is replaced.
func (c *Cluster) Run(ctx context.Context, program Program) error {
	version, err := fileDigest(program.Path)
	if err != nil {
		return fmt.Errorf("the binary of %s is missing; build it: %w", program.Name, err)
	}
	cmd := command{name: program.Name, path: program.Path, version: version, args: program.Args, env: program.Env}
	if err := c.processes.start(ctx, cmd); err != nil {
		return err
	}
	err = c.processes.await(ctx, "readiness of "+program.Name, program.Ready)
	if ctx.Err() != nil {
		log := c.layout.log(program.Name)
		return fmt.Errorf("%w; its log %s ends with: %s", err, log, tail(log))
	}
	return err
}

// Processes lists what this cluster runs as processes of its own, in the order of their start.
func (c *Cluster) Processes() []Process {
	c.processes.mu.Lock()
	defer c.processes.mu.Unlock()
	var all []Process
	for _, p := range c.processes.running {
		all = append(all, Process{Name: p.Name, PID: p.PID, Log: p.log})
	}
	return all
}

func fileDigest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
