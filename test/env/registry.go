package env

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	nameRegistry       = "registry"
	registryPrefix     = nameRegistry + "-"
	registryRealm      = "countersign test registry"
	registryProbeLimit = 2 * time.Second
)

// Registry is an OCI registry that serves HTTPS with a certificate of the cluster's CA and asks for
// basic authentication on every request.
type Registry struct {
	// Address is its host:port.
	Address string
}

// StartRegistry starts an OCI registry with one user. Images are kept in the directory; its base
// name names the registry's process, log and port (see Address), so two registries need two names. It ends with the
// cluster.
func (c *Cluster) StartRegistry(ctx context.Context, dir, user, password string) (*Registry, error) {
	name := registryName(dir)
	path, err := c.options.binary(nameRegistry)
	if err != nil {
		return nil, err
	}
	address, err := c.ports.address(name)
	if err != nil {
		return nil, err
	}
	config, err := c.registryConfig(name, dir, address, user, password)
	if err != nil {
		return nil, err
	}
	cmd := command{
		name: name, path: path, args: []string{"serve", config},
		// Else it sends traces to a collector that is not there and logs each failure.
		env: []string{"OTEL_TRACES_EXPORTER=none"},
	}
	if err := c.processes.start(ctx, cmd); err != nil {
		return nil, err
	}
	probe := c.registryProbe(address)
	return &Registry{Address: address}, c.processes.await(ctx, "serving of the registry", probe)
}

func registryName(dir string) string {
	base := filepath.Base(dir)
	if base == nameRegistry {
		return nameRegistry
	}
	return registryPrefix + base
}

// registryProbe succeeds when the registry asks for credentials.
func (c *Cluster) registryProbe(address string) func(context.Context) error {
	client := &http.Client{
		Timeout:   registryProbeLimit,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.ca.Pool(), MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/v2/", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("the registry answers %s without credentials", response.Status)
		}
		return nil
	}
}

func (c *Cluster) registryConfig(name, dir, address, user, password string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	users, err := c.writeUsers(name, user, password)
	if err != nil {
		return "", err
	}
	serving, err := c.issueServing(nameRegistry, "127.0.0.1", "localhost")
	if err != nil {
		return "", err
	}
	return c.writeYAML(name+".yaml", map[string]any{
		"version": "0.1",
		"log":     map[string]any{"level": "info"},
		"storage": map[string]any{
			"filesystem": map[string]any{"rootdirectory": dir},
			"delete":     map[string]any{"enabled": true},
		},
		"http": map[string]any{
			"addr": address,
			"tls":  map[string]any{"certificate": serving.cert, "key": serving.key},
		},
		"auth": map[string]any{"htpasswd": map[string]any{"realm": registryRealm, "path": users}},
	})
}

// writeUsers writes an htpasswd file. The cost is the lowest: every request is verified anew, and
// a realistic cost would be all that a load test measures.
func (c *Cluster) writeUsers(name, user, password string) (string, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return "", fmt.Errorf("the password of registry user %q cannot be hashed; choose one of at most 72 bytes: %w", user, err)
	}
	return c.layout.writeConf(name+".htpasswd", fmt.Appendf(nil, "%s:%s\n", user, hash))
}
