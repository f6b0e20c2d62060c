package slapd

import "syscall"

// attributes let the kernel kill the server when this process ends, however that happens.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
