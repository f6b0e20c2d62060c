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

	"github.com/AlaudaDevops/countersign/test/env/port"
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
	if number, ok := p.known[name]; ok {
		return loopback(number), nil
	}
	number, err := port.Reserve()
	if err != nil {
		return "", err
	}
	p.known[name] = number
	content, err := json.MarshalIndent(p.known, "", "  ")
	if err != nil {
		return "", err
	}
	return loopback(number), os.WriteFile(p.path, append(content, '\n'), 0o600)
}

func loopback(number int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(number)) }
