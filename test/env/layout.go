package env

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// socketPathLimit is below sun_path of every Unix (104 bytes on BSD, 108 on Linux).
	socketPathLimit   = 100
	longestSocketName = "egress.sock"
)

// layout names the files of one cluster under its state directory.
type layout struct {
	dir     string
	sockets string
}

// newLayout creates the directories. Sockets move to the system's temporary directory when the
// state directory's own path is too long for them.
func newLayout(dir string) (layout, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, err
	}
	l := layout{dir: dir, sockets: dir}
	if len(filepath.Join(dir, longestSocketName)) > socketPathLimit {
		sum := sha256.Sum256([]byte(dir))
		l.sockets = filepath.Join(os.TempDir(), "countersign-"+hex.EncodeToString(sum[:6]))
	}
	if len(l.socket(longestSocketName)) > socketPathLimit {
		return layout{}, fmt.Errorf("the path %s is too long for a Unix socket; set TMPDIR to a shorter directory", l.sockets)
	}
	for _, each := range []string{l.dir, l.sockets, l.pki(), l.conf(""), l.logs(), l.run("")} {
		if err := os.MkdirAll(each, 0o700); err != nil {
			return layout{}, err
		}
	}
	return l, nil
}

func (l layout) pki() string               { return filepath.Join(l.dir, "pki") }
func (l layout) conf(name string) string   { return filepath.Join(l.dir, "conf", name) }
func (l layout) run(name string) string    { return filepath.Join(l.dir, "run", name) }
func (l layout) logs() string              { return filepath.Join(l.dir, "logs") }
func (l layout) log(name string) string    { return filepath.Join(l.logs(), name+".log") }
func (l layout) socket(name string) string { return filepath.Join(l.sockets, name) }

func (l layout) etcdData() string     { return filepath.Join(l.dir, "etcd") }
func (l layout) etcdSocket() string   { return l.socket("etcd.sock") }
func (l layout) egressSocket() string { return l.socket(longestSocketName) }
func (l layout) auditLog() string     { return l.log("audit") }
func (l layout) routes() string       { return l.run("routes.json") }
func (l layout) ports() string        { return l.run("ports.json") }
func (l layout) issuerKeys() string   { return filepath.Join(l.pki(), "issuer.pem") }

// writeConf writes a generated configuration file and returns its path.
func (l layout) writeConf(name string, content []byte) (string, error) {
	path := l.conf(name)
	return path, os.WriteFile(path, content, 0o600)
}

// remove deletes everything, for clusters that keep no state.
func (l layout) remove() error {
	if l.sockets != l.dir {
		if err := os.RemoveAll(l.sockets); err != nil {
			return err
		}
	}
	return os.RemoveAll(l.dir)
}
