package env

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bareCluster is a detached cluster of which nothing runs.
func bareCluster(t *testing.T) *Cluster {
	t.Helper()
	c, err := newCluster(&options{stateDir: t.TempDir(), helper: []string{"helper"}})
	require.NoError(t, err)
	return c
}

// sleeper is a program of a file of its own, so that a test can build it anew.
func sleeper(t *testing.T, dir, comment string) Program {
	t.Helper()
	path := filepath.Join(dir, "sleeper")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n# "+comment+"\necho sleeping\nexec sleep 600\n"), 0o700))
	return Program{Name: "sleeper", Path: path, Ready: func(context.Context) error { return nil }}
}

func TestRunKeepsReplacesAndRemovesPrograms(t *testing.T) {
	c, dir := bareCluster(t), t.TempDir()
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	run := func(program Program) int {
		require.NoError(t, c.Run(t.Context(), program))
		require.Len(t, c.Processes(), 1)
		return c.Processes()[0].PID
	}
	first := run(sleeper(t, dir, "one"))
	assert.Equal(t, first, run(sleeper(t, dir, "one")))

	rebuilt := run(sleeper(t, dir, "two"))
	assert.NotEqual(t, first, rebuilt, "a program that was built anew is started anew")
	assert.Empty(t, birth(first))

	require.NoError(t, Remove(c.StateDir()))
	assert.Empty(t, birth(rebuilt))
	assert.NoDirExists(t, c.StateDir())
}

func TestRunQuotesTheLogOfAProgramThatIsNotReady(t *testing.T) {
	c := bareCluster(t)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	program := sleeper(t, t.TempDir(), "one")
	log := c.layout.log(program.Name)
	program.Ready = func(context.Context) error {
		if tail(log) != "sleeping" {
			return net.ErrClosed
		}
		cancel()
		return net.ErrClosed
	}
	err := c.Run(ctx, program)
	assert.ErrorContains(t, err, "readiness of sleeper did not happen in time")
	assert.ErrorContains(t, err, "ends with: sleeping")

	program.Path = filepath.Join(t.TempDir(), "missing")
	assert.ErrorContains(t, c.Run(t.Context(), program), "the binary of sleeper is missing")
}

func TestRemoveAndOpenIssuerNeedACluster(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	require.ErrorContains(t, Remove(dir), "there is no cluster")
	assert.FileExists(t, kept)
	_, err := OpenIssuer(dir)
	require.ErrorContains(t, err, "there is no cluster")

	c := bareCluster(t)
	opened, err := OpenIssuer(c.StateDir())
	require.NoError(t, err)
	assert.Equal(t, c.Issuer().URL(), opened.URL())
	address, err := c.Address("proxy")
	require.NoError(t, err)
	again, err := c.Address("proxy")
	require.NoError(t, err)
	assert.Equal(t, address, again)
}
