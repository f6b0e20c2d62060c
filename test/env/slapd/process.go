package slapd

import (
	"context"
	"net"
	"os/exec"
	"runtime"
	"strings"
)

// process is a slapd that runs or ran.
type process struct {
	pid  int
	done chan struct{} // closed when it ended
}

// launch starts the command from a thread that lives as long as the child, because the kernel takes the end of that
// thread for the end of the parent.
func launch(command *exec.Cmd) (*process, error) {
	command.SysProcAttr = attributes()
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := command.Start(); err != nil {
			started <- err
			return
		}
		p.pid = command.Process.Pid
		started <- nil
		_ = command.Wait() // it is always killed
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func listens(ctx context.Context, url string) bool {
	_, address, _ := strings.Cut(url, "://")
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}
