// Package slapd runs a real OpenLDAP server for tests, on loopback, with its own configuration, database and certificates
// in one directory. It needs the Debian package slapd and nothing that the package set up.
package slapd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/AlaudaDevops/countersign/test/env/pki"
	"github.com/AlaudaDevops/countersign/test/env/port"
)

// BaseDN is the database's suffix; PeopleDN and MoreDN are empty organizational units for people.
const (
	BaseDN   = "dc=example,dc=org"
	PeopleDN = "ou=people," + BaseDN
	MoreDN   = "ou=more," + BaseDN
)

const (
	// readerDN may read everything except passwords, and is locked out by nobody.
	readerDN = "cn=reader," + BaseDN
	adminDN  = "cn=admin," + BaseDN

	loopback     = "127.0.0.1"
	pollInterval = 10 * time.Millisecond
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	// starts is how often other ports are tried, should somebody have asked for one by its number.
	starts  = 3
	logTail = 2048
)

// Server is a running slapd. Methods that change it may not be called concurrently.
type Server struct {
	// URL is ldap://127.0.0.1:port, which also speaks StartTLS, and LDAPSURL its ldaps:// sibling. Both stay the same over
	// Stop and Restart.
	URL, LDAPSURL string
	// BaseDN is the suffix; BindDN with Password, which is also in PasswordFile, may read everything except passwords.
	BaseDN, BindDN, Password, PasswordFile string
	// AdminDN with AdminPassword may write.
	AdminDN, AdminPassword string
	// CA is the authority of the server's certificate for 127.0.0.1 and localhost, in PEM form; CAFile holds it too.
	CA     []byte
	CAFile string

	dir     string
	program string
	running *process
}

// Start runs a server whose files are in dir, which must be empty. Its entries are those of the base, and the given LDIF
// (RFC 2849). It ends with Stop or with this process. An error says what to do.
func Start(ctx context.Context, dir, entries string) (*Server, error) {
	program, err := find("slapd")
	if err != nil {
		return nil, err
	}
	s := &Server{
		BaseDN: BaseDN, BindDN: readerDN, Password: rand.Text(), AdminDN: adminDN, AdminPassword: rand.Text(),
		PasswordFile: filepath.Join(dir, "password"), CAFile: filepath.Join(dir, "ca.crt"), dir: dir, program: program,
	}
	if err := s.prepare(ctx, entries); err != nil {
		return nil, err
	}
	return s, s.startAnywhere(ctx)
}

// find looks where the package installs, because /usr/sbin is not on everybody's path.
func find(name string) (string, error) {
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: these tests need it, install the Debian package slapd (apt-get install slapd)", name)
}

func (s *Server) prepare(ctx context.Context, entries string) error {
	for _, step := range []func() error{s.certify, s.configure} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.PasswordFile, []byte(s.Password+"\n"), 0o600); err != nil {
		return err
	}
	return s.load(ctx, base(s.Password)+"\n"+entries)
}

func (s *Server) certify() error {
	ca, err := pki.NewCA("slapd")
	if err != nil {
		return err
	}
	pair, err := ca.IssueServer(loopback, "localhost")
	if err != nil {
		return err
	}
	s.CA = ca.CertPEM()
	if _, _, err := pair.Write(s.dir, "server"); err != nil {
		return err
	}
	return os.WriteFile(s.CAFile, s.CA, 0o600)
}

// load fills the database while no server uses it.
func (s *Server) load(ctx context.Context, entries string) error {
	program, err := find("slapadd")
	if err != nil {
		return err
	}
	file := s.path("entries.ldif")
	if err := os.WriteFile(file, []byte(entries), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, program, "-q", "-f", s.path(configuration), "-l", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("slapadd does not take the entries: %w: %s", err, out)
	}
	return nil
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) startAnywhere(ctx context.Context) (err error) {
	for range starts {
		var ports [2]int
		if ports, err = freePorts(); err != nil {
			return err
		}
		s.URL = fmt.Sprintf("ldap://%s:%d", loopback, ports[0])
		s.LDAPSURL = fmt.Sprintf("ldaps://%s:%d", loopback, ports[1])
		if err = s.Restart(ctx); err == nil {
			return nil
		}
	}
	return err
}

// freePorts returns two ports that nobody listens on.
func freePorts() (ports [2]int, err error) {
	for i := range ports {
		if ports[i], err = port.Reserve(); err != nil {
			return ports, err
		}
	}
	return ports, nil
}

// Restart starts a stopped server again, where it was and with what it knew.
func (s *Server) Restart(ctx context.Context) error {
	if s.running != nil {
		return errors.New("slapd runs already: stop it first")
	}
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// Any -d keeps it in the foreground; stats is one line for each operation.
	command := exec.Command(s.program, "-d", "stats", "-f", s.path(configuration), "-h", s.URL+"/ "+s.LDAPSURL+"/")
	command.Stdout, command.Stderr = log, log
	if s.running, err = launch(command); err != nil {
		return err
	}
	if err := s.await(ctx); err != nil {
		return errors.Join(err, s.Stop())
	}
	return nil
}

// await returns when both ports take connections.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for !listens(ctx, s.URL) || !listens(ctx, s.LDAPSURL) {
		select {
		case <-poll.C:
		case <-s.running.done:
			return fmt.Errorf("slapd ended at once; its log ends with: %s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("slapd does not listen in time; its log ends with: %s", s.Log())
		}
	}
	return nil
}

// Log is the end of what the server wrote, one line for each operation among it.
func (s *Server) Log() string {
	content, err := os.ReadFile(s.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-logTail):])
}

// Stop ends the server: it refuses connections from now on. Stopping a stopped one is no error.
func (s *Server) Stop() error {
	if s.running == nil {
		return nil
	}
	// It may be paused, and only this signal ends a paused process.
	if err := s.signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-s.running.done:
		s.running = nil
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("slapd (process %d) does not end: kill it by hand", s.running.pid)
	}
}

// Pause makes the server infinitely slow: the kernel goes on to accept connections, but nothing answers any more.
func (s *Server) Pause() error {
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	timeout := time.After(stopTimeout)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for !paused(s.running.pid) {
		select {
		case <-poll.C:
		case <-timeout:
			return fmt.Errorf("slapd (process %d) does not pause; its log ends with: %s", s.running.pid, s.Log())
		}
	}
	return nil
}

// Resume ends a Pause; what was asked meanwhile is answered now.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) error {
	if s.running == nil {
		return errors.New("slapd does not run: start it again first")
	}
	if err := syscall.Kill(s.running.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("slapd (process %d) takes no signal: %w", s.running.pid, err)
	}
	return nil
}
