package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"sync"
)

// ports hands out ports on 127.0.0.1 by name and remembers them in a file, so that a cluster that
// is started again answers where its kubeconfigs say.
type ports struct {
	path string

	mu    sync.Mutex
	known map[string]int
}

func loadPorts(path string) (*ports, error) {
	p := &ports{path: path, known: map[string]int{}}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &p.known); err != nil {
		return nil, fmt.Errorf("the ports file %s is damaged; delete it to get new ports: %w", path, err)
	}
	return p, nil
}

// address returns the host:port of that name and reserves a port at first use.
func (p *ports) address(name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if port, ok := p.known[name]; ok {
		return loopback(port), nil
	}
	port, err := reservePort()
	if err != nil {
		return "", err
	}
	p.known[name] = port
	content, err := json.MarshalIndent(p.known, "", "  ")
	if err != nil {
		return "", err
	}
	return loopback(port), os.WriteFile(p.path, append(content, '\n'), 0o600)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// reservePort returns a free port that nobody else is given for the next minute. Closing a
// listener at once would let two test binaries get the same port; so one connection is accepted and
// closed from the server's side first, which leaves the port in TIME_WAIT: the kernel then gives it
// to no bind to port 0 and no outgoing connection, but a server that names it may listen there
// (SO_REUSEADDR, which Go sets).
func reservePort() (int, error) {
	listener, err := net.Listen("tcp", loopback(0))
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	server, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, server.Close()
}
