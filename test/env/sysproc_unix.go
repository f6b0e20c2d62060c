//go:build unix && !linux

package env

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes keep nothing here: only Linux can tie a process to its parent's life. A test
// binary that is killed leaves its cluster running.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// birth identifies a process beyond its number, which the kernel uses again: its start time. It is
// "" when the process is gone or dead.
func birth(pid int) string {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	status, started, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || strings.HasPrefix(status, "Z") {
		return ""
	}
	return strings.TrimSpace(started)
}
