// Package world is the development environment as the benchmark uses it: its people, a protected tool, and
// the way from a request to a grant.
package world

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// The people and namespaces of the development environment that take part.
const (
	Admin     = "admin"
	Developer = "developer"
	Owner     = "owner1"

	// Protected is the namespace of the tools and their rules, Team that of requests and runs.
	Protected = "prod"
	Team      = "team-a"
)

// World is a running development environment.
type World struct {
	dir     string
	values  map[string]string
	clients map[string]client.Client
}

// Open reads where everything is in the environment's directory.
func Open(dir string) (*World, error) {
	w := &World{dir: dir, clients: map[string]client.Client{}}
	if err := w.readValues(); err != nil {
		return nil, err
	}
	for _, person := range []string{Admin, Developer, Owner} {
		config, err := w.config(person)
		if err != nil {
			return nil, err
		}
		if w.clients[person], err = newClient(config); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// readValues reads the shell file of the environment, which has one export a line.
func (w *World) readValues() error {
	file, err := os.Open(filepath.Join(w.dir, "env"))
	if err != nil {
		return fmt.Errorf("the environment in %s is not up: %w", w.dir, err)
	}
	defer func() { _ = file.Close() }()
	w.values = map[string]string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "="); ok {
			w.values[name] = strings.Trim(value, `"'`)
		}
	}
	return lines.Err()
}

func (w *World) config(person string) (*rest.Config, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: w.Kubeconfig()}, &clientcmd.ConfigOverrides{CurrentContext: person})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the environment has no kubeconfig context %s: %w", person, err)
	}
	config.QPS = -1 // the clients' own limits are not what is measured
	return config, nil
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(approvalv1alpha1.AddToScheme(scheme))
	utilruntime.Must(connectorsv1alpha1.AddToScheme(scheme))
	return client.New(config, client.Options{Scheme: scheme})
}

// As is a client of one of the people.
func (w *World) As(person string) client.Client { return w.clients[person] }

// Kubeconfig is a file whose current context is the administrator's.
func (w *World) Kubeconfig() string { return filepath.Join(w.dir, "kubeconfig") }

// CAFile holds the authority of every server of the environment.
func (w *World) CAFile() string { return w.values["PROXY_CA"] }

// ServingCertificate is the proxy's own, so that others can be served with the same.
func (w *World) ServingCertificate() (certFile, keyFile string) {
	return filepath.Join(w.dir, "pki", "proxy.crt"), filepath.Join(w.dir, "pki", "proxy.key")
}

// TokenFile holds a person's token.
func (w *World) TokenFile(person string) string { return filepath.Join(w.dir, "tokens", person) }

// PIDFile holds the process ID of one of the environment's processes.
func (w *World) PIDFile(process string) string { return filepath.Join(w.dir, "pids", process) }

// AuditLog is the API server's.
func (w *World) AuditLog() string { return filepath.Join(w.dir, "logs", "audit.log") }

// ProxyURL is where the proxy serves a path of a connector of this package.
func (w *World) ProxyURL(connector, path string) string {
	return w.values["PROXY_URL"] + "/namespaces/" + Protected + "/connectors/" + connector + path
}
