package env

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// orphanMaker is a helper command of this test binary: it starts a child, prints its number and
// waits to be killed.
const orphanMaker = "orphan-maker"

func makeOrphan(ctx context.Context, dir string) error {
	l, err := newLayout(dir)
	if err != nil {
		return err
	}
	s := &supervisor{layout: l}
	if err := s.start(ctx, command{name: "sleep", path: "/bin/sleep", args: []string{"600"}}); err != nil {
		return err
	}
	fmt.Println(s.running[0].PID)
	<-ctx.Done()
	return nil
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(executable, orphanMaker, "--dir", t.TempDir())
	output, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NotEmpty(t, birth(child))

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Empty(c, birth(child)) }, patience, tick)
}

func newSupervisor(t *testing.T, detached bool) *supervisor {
	t.Helper()
	l, err := newLayout(t.TempDir())
	require.NoError(t, err)
	s := &supervisor{layout: l, detached: detached}
	t.Cleanup(func() { assert.NoError(t, s.stop()) })
	return s
}

func TestAwaitTellsOfAProcessThatStopped(t *testing.T) {
	s := newSupervisor(t, false)
	require.NoError(t, s.start(t.Context(), command{name: "broken", path: "/bin/sh", args: []string{"-c", "echo no such flag; exit 3"}}))
	err := s.await(t.Context(), "readiness", func(context.Context) error { return errors.New("not yet") })
	require.Error(t, err)
	for _, part := range []string{"broken stopped", "exit status 3", "no such flag", s.layout.log("broken")} {
		assert.ErrorContains(t, err, part)
	}
}

func TestAwaitTellsWhatItLastSaw(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := newSupervisor(t, false).await(ctx, "readiness", func(context.Context) error {
		cancel()
		return errors.New("connection refused")
	})
	assert.ErrorContains(t, err, "readiness did not happen in time")
	assert.ErrorContains(t, err, "connection refused")
}

func TestStartNamesAMissingProgram(t *testing.T) {
	err := newSupervisor(t, false).start(t.Context(), command{name: "etcd", path: "/nowhere/etcd"})
	assert.ErrorContains(t, err, "etcd cannot be started from /nowhere/etcd")
}

func TestDetachedProcessesAreFoundAgain(t *testing.T) {
	first := newSupervisor(t, true)
	again := func() *supervisor { return &supervisor{layout: first.layout, detached: true} }
	sleep := func(seconds string) command {
		return command{name: "sleep", path: "/bin/sleep", args: []string{seconds}}
	}
	require.NoError(t, first.start(t.Context(), sleep("600")))
	pid := first.running[0].PID

	same := again()
	require.NoError(t, same.start(t.Context(), sleep("600")))
	assert.Equal(t, pid, same.running[0].PID, "what runs as asked for is kept")

	changed := again()
	require.NoError(t, changed.start(t.Context(), sleep("601")))
	assert.NotEqual(t, pid, changed.running[0].PID, "what runs otherwise is replaced")
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Empty(c, birth(pid)) }, patience, tick)

	adopter := again()
	require.NoError(t, adopter.adopt())
	require.Len(t, adopter.running, 1)
	require.NoError(t, adopter.stop())
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.False(c, changed.running[0].alive()) }, patience, tick)

	found, err := again().find("sleep")
	require.NoError(t, err)
	assert.Nil(t, found)
	require.NoError(t, os.WriteFile(first.recordPath("sleep"), []byte("{"), 0o600))
	_, err = again().find("sleep")
	assert.ErrorContains(t, err, "is damaged")
}

func TestBirthTellsProcessesApart(t *testing.T) {
	assert.NotEmpty(t, birth(os.Getpid()))
	assert.NotEqual(t, birth(1), birth(os.Getpid()))
	impostor := &process{PID: os.Getpid(), Birth: "another"}
	assert.False(t, impostor.alive(), "a number used again is another process")
}

func TestPorts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ports.json")
	p, err := loadPorts(path)
	require.NoError(t, err)
	seen := map[string]bool{}
	for i := range 50 {
		address, err := p.address(strconv.Itoa(i))
		require.NoError(t, err)
		assert.False(t, seen[address], "%s was given twice", address)
		seen[address] = true
	}
	first, err := p.address("0")
	require.NoError(t, err)
	again, err := loadPorts(path)
	require.NoError(t, err)
	remembered, err := again.address("0")
	require.NoError(t, err)
	assert.Equal(t, first, remembered)

	require.NoError(t, os.WriteFile(path, []byte("["), 0o600))
	_, err = loadPorts(path)
	assert.ErrorContains(t, err, "delete it to get new ports")
}

func TestLayoutKeepsSocketPathsShort(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", socketPathLimit))
	l, err := newLayout(long)
	require.NoError(t, err)
	assert.Less(t, len(l.egressSocket()), socketPathLimit)
	require.NoError(t, l.remove())
	assert.NoDirExists(t, l.sockets)

	t.Setenv("TMPDIR", long)
	_, err = newLayout(long)
	assert.ErrorContains(t, err, "set TMPDIR to a shorter directory")
}

func TestSweepRemovesWhatDeadTestsLeft(t *testing.T) {
	dir := t.TempDir()
	dead := exec.Command("/bin/true")
	require.NoError(t, dead.Run())
	gone := filepath.Join(dir, fmt.Sprintf("%s%d-1", temporaryPrefix, dead.Process.Pid))
	mine := filepath.Join(dir, fmt.Sprintf("%s%d-1", temporaryPrefix, os.Getpid()))
	other := filepath.Join(dir, temporaryPrefix+"notes")
	for _, each := range []string{gone, mine, other} {
		require.NoError(t, os.Mkdir(each, 0o700))
	}
	sweep(dir)
	assert.NoDirExists(t, gone)
	assert.DirExists(t, mine)
	assert.DirExists(t, other)
}
