package env

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	pollInterval = 20 * time.Millisecond
	// stopGrace is how long a detached process may take to end by itself.
	stopGrace = 10 * time.Second
	// killGrace is how long the kernel may take to end a killed one.
	killGrace = 5 * time.Second
	// logTail is how much of a log an error quotes.
	logTail = 2048
	// recordSuffix ends the names of the files in which detached processes are found again.
	recordSuffix = ".pid.json"
)

// command is a process to run.
type command struct {
	name string
	path string
	// version tells builds of the same path apart; empty when that does not matter.
	version string
	args    []string
	env     []string // added to the parent's
}

// digest changes when the process would have to be started again to be as asked for.
func (c command) digest() string {
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat([]string{c.path, c.version}, c.args, c.env), "\x00")))
	return hex.EncodeToString(sum[:])
}

// process is one that runs, or ran.
type process struct {
	Name   string `json:"name"`
	PID    int    `json:"pid"`
	Birth  string `json:"birth"`
	Digest string `json:"digest"`

	log  string
	done chan struct{} // closed when reaped; nil for a process that another process started
	err  error         // of Wait, after done
}

func (p *process) alive() bool {
	if p.done != nil {
		select {
		case <-p.done:
			return false
		default:
			return true
		}
	}
	return p.Birth != "" && birth(p.PID) == p.Birth
}

// failure tells why a process that should run does not.
func (p *process) failure() error {
	if p.alive() {
		return nil
	}
	cause := errors.New("it ended")
	if p.done != nil && p.err != nil {
		cause = p.err
	}
	return fmt.Errorf("%s stopped (%w); its log %s ends with: %s", p.Name, cause, p.log, tail(p.log))
}

func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(content[max(0, len(content)-logTail):]))
}

// supervisor starts and stops the processes of one cluster. Attached ones are children that die
// with this process; detached ones have their own session, outlive it, and are found again by the
// records that are kept of them.
type supervisor struct {
	layout   layout
	detached bool

	mu      sync.Mutex
	running []*process
}

// start runs the command. A detached one that already runs exactly so is left alone; one that runs
// otherwise is replaced.
func (s *supervisor) start(ctx context.Context, cmd command) error {
	if s.detached {
		found, err := s.find(cmd.name)
		if err != nil {
			return err
		}
		if found != nil && found.Digest == cmd.digest() {
			s.add(found)
			return nil
		}
		if err := s.end(ctx, found); err != nil {
			return err
		}
	}
	started, err := s.launch(cmd)
	if err != nil {
		return fmt.Errorf("%s cannot be started from %s: %w", cmd.name, cmd.path, err)
	}
	s.add(started)
	if s.detached {
		return s.record(started)
	}
	return nil
}

// add takes the place of an earlier process of the same name.
func (s *supervisor) add(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = slices.DeleteFunc(s.running, func(earlier *process) bool { return earlier.Name == p.Name })
	s.running = append(s.running, p)
}

func (s *supervisor) launch(cmd command) (*process, error) {
	log, err := os.OpenFile(s.layout.log(cmd.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	child := exec.Command(cmd.path, cmd.args...)
	child.Env = append(os.Environ(), cmd.env...)
	child.Stdout, child.Stderr = log, log
	child.Dir = s.layout.dir
	child.SysProcAttr = childAttributes()
	if s.detached {
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	p := &process{Name: cmd.name, Digest: cmd.digest(), log: log.Name(), done: make(chan struct{})}
	if err := p.run(child); err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the child from a thread that lives as long as the child does, because the kernel
// takes the end of the starting thread for the end of the parent.
func (p *process) run(child *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := child.Start(); err != nil {
			started <- err
			return
		}
		p.PID, p.Birth = child.Process.Pid, birth(child.Process.Pid)
		started <- nil
		p.err = child.Wait()
		close(p.done)
	}()
	return <-started
}

func (s *supervisor) record(p *process) error {
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(s.recordPath(p.Name), content, 0o600)
}

func (s *supervisor) recordPath(name string) string { return s.layout.run(name + recordSuffix) }

// find returns the recorded process of that name, nil when it does not run.
func (s *supervisor) find(name string) (*process, error) {
	content, err := os.ReadFile(s.recordPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := &process{log: s.layout.log(name)}
	if err := json.Unmarshal(content, found); err != nil {
		return nil, fmt.Errorf("the record of %s in %s is damaged; stop that process by hand and delete the record: %w", name, s.recordPath(name), err)
	}
	if !found.alive() {
		return nil, nil
	}
	return found, nil
}

// adopt takes over all recorded processes that still run, the first started first.
func (s *supervisor) adopt() error {
	names, err := s.recorded()
	if err != nil {
		return err
	}
	for _, name := range names {
		found, err := s.find(name)
		if err != nil {
			return err
		}
		if found != nil {
			s.add(found)
		}
	}
	return nil
}

// recorded names every process that was ever started detached in this layout, the last started last.
func (s *supervisor) recorded() ([]string, error) {
	records, err := filepath.Glob(s.recordPath("*"))
	if err != nil {
		return nil, err
	}
	started := map[string]time.Time{}
	for _, record := range records {
		info, err := os.Stat(record)
		if err != nil {
			return nil, err
		}
		started[strings.TrimSuffix(filepath.Base(record), recordSuffix)] = info.ModTime()
	}
	return slices.SortedFunc(maps.Keys(started), func(a, b string) int { return started[a].Compare(started[b]) }), nil
}

// await polls until check succeeds. It gives up when the context ends or any process stops.
func (s *supervisor) await(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := s.failure(); err != nil {
			return false, err
		}
		last = check(ctx)
		return last == nil, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("%s did not happen in time: %w", what, errors.Join(ctx.Err(), last))
	}
	return err
}

func (s *supervisor) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.running {
		if err := p.failure(); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all processes, the last started first. Children of a test are killed at once: their
// state is thrown away.
func (s *supervisor) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		errs = append(errs, s.end(context.Background(), s.running[i]))
	}
	s.running = nil
	return errors.Join(errs...)
}

// kill ends all processes at once, for a cluster whose state is thrown away.
func (s *supervisor) kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var killed errgroup.Group
	for _, p := range s.running {
		killed.Go(func() error { return p.kill(context.Background()) })
	}
	s.running = nil
	return killed.Wait()
}

func (s *supervisor) end(ctx context.Context, p *process) error {
	if p == nil || !p.alive() {
		return nil
	}
	if s.detached && p.signal(ctx, syscall.SIGTERM, stopGrace) {
		return nil
	}
	return p.kill(ctx)
}

func (p *process) kill(ctx context.Context) error {
	if !p.alive() || p.signal(ctx, syscall.SIGKILL, killGrace) {
		return nil
	}
	return fmt.Errorf("%s (process %d) does not end; kill it by hand", p.Name, p.PID)
}

// signal tells whether the process ended within the grace.
func (p *process) signal(ctx context.Context, sig syscall.Signal, grace time.Duration) bool {
	if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		return !p.alive(), nil
	}) == nil
}
