package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// Service is a port of a Service, the key of a route. Its text form is "namespace/name:port".
type Service struct {
	types.NamespacedName
	Port uint16
}

// String returns the text form.
func (s Service) String() string { return fmt.Sprintf("%s:%d", s.NamespacedName, s.Port) }

// ParseService reads the text form "namespace/name:port"; the port is the Service's, as a number.
func ParseService(text string) (Service, error) {
	path, port, hasPort := strings.Cut(text, ":")
	namespace, name, hasName := strings.Cut(path, "/")
	number, err := strconv.ParseUint(port, 10, 16)
	if !hasPort || !hasName || namespace == "" || name == "" || err != nil || number == 0 {
		return Service{}, fmt.Errorf("%q names no Service port; write it as namespace/name:port", text)
	}
	return Service{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, Port: uint16(number)}, nil
}

// Routes says where a Service's port really listens.
type Routes interface {
	// Address returns a host:port on this machine, or "" when the service has no route.
	Address(service Service) (string, error)
	// Set adds or replaces a route; an empty address removes it.
	Set(service Service, address string) error
}

// NewRoutes returns routes kept in memory.
func NewRoutes() Routes { return &table{addresses: map[string]string{}} }

type table struct {
	mu        sync.RWMutex
	addresses map[string]string
}

func (t *table) Address(service Service) (string, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.addresses[service.String()], nil
}

func (t *table) Set(service Service, address string) error {
	if err := checkAddress(address); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t.addresses, service, address)
	return nil
}

func change(addresses map[string]string, service Service, address string) {
	if address == "" {
		delete(addresses, service.String())
		return
	}
	addresses[service.String()] = address
}

func checkAddress(address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%q is no address to route to; write it as 127.0.0.1:port", address)
	}
	return nil
}

// FileRoutes returns routes kept in a JSON file, {"namespace/name:port": "127.0.0.1:port"}, which
// several processes may change and read: it is read on every look-up and replaced as a whole.
func FileRoutes(path string) Routes { return file(path) }

type file string

func (f file) Address(service Service) (string, error) {
	addresses, err := f.read()
	return addresses[service.String()], err
}

func (f file) Set(service Service, address string) error {
	if err := checkAddress(address); err != nil {
		return err
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	addresses, err := f.read()
	if err != nil {
		return err
	}
	change(addresses, service, address)
	return f.write(addresses)
}

func (f file) read() (map[string]string, error) {
	addresses := map[string]string{}
	content, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return addresses, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &addresses); err != nil {
		return nil, fmt.Errorf("the routes file %s is no JSON object of addresses; correct or delete it: %w", string(f), err)
	}
	return addresses, nil
}

func (f file) write(addresses map[string]string) error {
	content, err := json.MarshalIndent(addresses, "", "  ")
	if err != nil {
		return err
	}
	next := string(f) + ".next"
	if err := os.WriteFile(next, append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, string(f))
}

// lock serializes writers of all processes; the lock file is never removed, that would race.
func (f file) lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(string(f)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return func() { _ = lock.Close() }, nil // closing unlocks
}
