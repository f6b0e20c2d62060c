package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"
)

// place says where the repository and one environment's directory are; both are absolute.
type place struct{ root, dir string }

// addDirFlag binds --dir. Its default is .dev of the repository, whatever the working directory.
func addDirFlag(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(dir, "dir", "", "directory of the environment (default .dev of the repository)")
}

func newPlace(dir string) (place, error) {
	root, err := repository()
	if err != nil {
		return place{}, err
	}
	if dir == "" {
		dir = filepath.Join(root, ".dev")
	}
	dir, err = filepath.Abs(dir)
	return place{root: root, dir: dir}, err
}

// repository is the folder above this program's own bin/, or else around the working directory.
func repository() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, from := range []string{self, start} {
		for dir := from; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if exists(filepath.Join(dir, "config", "samples", "dev")) {
				return dir, nil
			}
		}
	}
	return "", errors.New("the manifests in config/ are missing; run this inside the repository")
}

func (p place) bin(name string) string { return filepath.Join(p.root, "bin", name) }
func (p place) manifest(names ...string) string {
	return filepath.Join(append([]string{p.root, "config"}, names...)...)
}
func (p place) sample(name string) string { return p.manifest("samples", "dev", name) }
func (p place) conf(name string) string   { return filepath.Join(p.dir, "conf", name) }
func (p place) log(name string) string    { return filepath.Join(p.dir, "logs", name+".log") }
func (p place) pid(name string) string    { return filepath.Join(p.dir, "pids", name) }
func (p place) token(name string) string  { return filepath.Join(p.dir, "tokens", name) }
func (p place) tokenScript() string       { return filepath.Join(p.dir, "token") }
func (p place) accessLog() string         { return filepath.Join(p.dir, "logs", "access.log") }
func (p place) envFile() string           { return filepath.Join(p.dir, "env") }
func (p place) kubeconfig() string        { return filepath.Join(p.dir, "kubeconfig") }
func (p place) pki(name string) string    { return filepath.Join(p.dir, "pki", name) }
func (p place) ca() string                { return p.pki("ca.crt") }
func (p place) registryData() string      { return filepath.Join(p.dir, nameRegistry) }
func (p place) archive() string           { return filepath.Join(p.dir, "archive.jsonl") }
func (p place) lock() string              { return filepath.Join(p.dir, "lock") }

// claim makes the directory this program's own, for as long as the command runs. A directory with something
// else in it is refused, because down removes the whole directory.
func (p place) claim() (release func(), err error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if len(entries) > 0 && !exists(p.lock()) {
		return nil, fmt.Errorf("the directory %s holds something else; choose an empty one with --dir", p.dir)
	}
	for _, dir := range []string{p.dir, p.conf(""), filepath.Dir(p.log("")), p.pid(""), p.token("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return p.hold()
}

// hold keeps a second command off the directory. The lock ends with this process.
func (p place) hold() (release func(), err error) {
	lock, err := os.OpenFile(p.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another command works on %s; wait for it to end: %w", p.dir, err), lock.Close())
	}
	return func() { _ = lock.Close() }, nil // closing unlocks
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
