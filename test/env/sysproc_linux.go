package env

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// childAttributes tie a process to its parent's life: the kernel kills it when the thread that
// started it ends, however that happens.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// birth identifies a process beyond its number, which the kernel uses again: its start time in
// clock ticks since boot (proc_pid_stat(5), field 22). It is "" when the process is gone or dead.
func birth(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the command in parentheses and may hold spaces and parentheses itself.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}
