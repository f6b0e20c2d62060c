package slapd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// attributes let the kernel kill the server when this process ends, however that happens.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// paused tells whether every thread of the process has stopped, or ended (proc_pid_stat(5), field 3, behind the command
// in parentheses). The signal alone does not wait for that.
func paused(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		content, err := os.ReadFile(thread)
		state := bytes.TrimSpace(content[bytes.LastIndexByte(content, ')')+1:])
		if err == nil && !bytes.ContainsAny(state[:min(1, len(state))], "TtZX") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}
