// Package process runs the programs that take part in the benchmark, each in a process of its own, and reads how
// much processor time they took.
package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a process may take to end by itself.
const stopTimeout = 5 * time.Second

// Process is a program that runs beside the benchmark and ends with its context.
type Process struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
}

// Start starts a program. What it says on standard error is kept for Stop to tell when it failed.
func Start(ctx context.Context, path string, args ...string) (*Process, error) {
	p := command(ctx, path, args)
	return p, p.cmd.Start()
}

// StartListening starts a program that prints the address that it listens on as its first line.
func StartListening(ctx context.Context, path string, args ...string) (*Process, string, error) {
	p := command(ctx, path, args)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, "", fmt.Errorf("%s did not say where it listens: %w\n%s", path, err, p.output)
	}
	return p, strings.TrimSpace(line), nil
}

func command(ctx context.Context, path string, args []string) *Process {
	p := &Process{cmd: exec.CommandContext(ctx, path, args...), output: &bytes.Buffer{}}
	p.cmd.Stderr = p.output
	// Linux shares processors out by session where it groups automatically (sched(7)). The environment's proxy has a
	// session of its own, so everybody gets one.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopTimeout
	return p
}

// PID is the process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	// How it ends after having been told to is no result.
	_ = p.cmd.Wait()
}

// Output runs a program to its end and returns what it printed and its processor time.
func Output(ctx context.Context, path string, args ...string) ([]byte, time.Duration, error) {
	p := command(ctx, path, args)
	output, err := p.cmd.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(p.output.String()))
	}
	return output, p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), nil
}

// ReadPID reads a file that holds a process ID.
func ReadPID(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// tick is the unit of processor times in /proc on every Linux that Go runs on (proc(5), USER_HZ).
const tick = 10 * time.Millisecond

// CPU is the processor time that a process has taken so far, of all its threads, in the kernel and outside, to
// a hundredth of a second. It needs Linux's /proc.
func CPU(pid int) (time.Duration, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	return parseCPU(string(text))
}

// AllCPU is the processor time that all processes together have taken since the machine started.
func AllCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return parseAllCPU(line)
}

// parseAllCPU adds up user, nice, system, irq and softirq, and leaves out what is idle or another machine's (proc(5)).
func parseAllCPU(line string) (time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("the line %q of the processor times cannot be read", line)
	}
	return sumTicks(slices.Concat(fields[1:4], fields[6:8]))
}

// parseCPU reads utime and stime: the fields 14 and 15, where the second is a name in brackets that may hold anything.
func parseCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("the process state has only %d fields behind the name", len(fields))
	}
	return sumTicks(fields[11:13])
}

func sumTicks(fields []string) (total time.Duration, err error) {
	for _, field := range fields {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(ticks) * tick
	}
	return total, nil
}
