//go:build unix && !linux

package slapd

import "syscall"

// attributes are empty: only Linux ties a process to its parent's life.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
