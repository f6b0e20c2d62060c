//go:build unix && !linux

package slapd

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes are empty: only Linux ties a process to its parent's life.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// paused tells whether the process has stopped. The signal alone does not wait for that.
func paused(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(state)), "T")
}
