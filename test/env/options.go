package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Option changes how Start builds a cluster.
type Option func(*options)

type options struct {
	binaries      string
	stateDir      string
	helper        []string
	auditLevel    auditv1.Level
	apiServerArgs []string
	controllers   []string
	crdDirs       []string
	setup         []func(context.Context, *Cluster) error
}

// detached tells whether the cluster outlives this process.
func (o *options) detached() bool { return len(o.helper) > 0 }

// Detached keeps the cluster's state in the directory and lets its processes outlive this one: a
// later Start with the same directory finds what runs, starts what does not, and keeps data, keys
// and ports. helper is a command that, followed by `issuer --dir <dir>` or `egress --dir
// <dir>`, calls RunIssuer or RunEgress.
func Detached(stateDir string, helper ...string) Option {
	return func(o *options) { o.stateDir, o.helper = stateDir, helper }
}

// WithBinaries names the folder of etcd, kube-apiserver, kube-controller-manager and registry.
// The default is bin/ of this repository.
func WithBinaries(dir string) Option {
	return func(o *options) { o.binaries = dir }
}

// WithAudit makes the API server write one line for every finished request, see AuditEvents.
func WithAudit(level auditv1.Level) Option {
	return func(o *options) { o.auditLevel = level }
}

// WithAPIServerArgs adds flags to kube-apiserver's.
func WithAPIServerArgs(args ...string) Option {
	return func(o *options) { o.apiServerArgs = append(o.apiServerArgs, args...) }
}

// WithControllers adds controllers of kube-controller-manager to DefaultControllers, by the names
// that its --controllers flag takes; "-name" takes one away, "none" alone starts no controller
// manager at all.
func WithControllers(names ...string) Option {
	return func(o *options) { o.controllers = append(o.controllers, names...) }
}

// WithCRDs installs the CustomResourceDefinitions in the directories before the controller manager
// starts. Garbage collection looks for new kinds only every 30 seconds, so kinds that are installed
// later are not collected at once.
func WithCRDs(dirs ...string) Option {
	return func(o *options) { o.crdDirs = append(o.crdDirs, dirs...) }
}

// WithSetup runs the function once the cluster is ready; its error fails Start.
func WithSetup(setup func(context.Context, *Cluster) error) Option {
	return func(o *options) { o.setup = append(o.setup, setup) }
}

func newOptions(opts []Option) (*options, error) {
	o := &options{}
	for _, opt := range opts {
		opt(o)
	}
	if o.stateDir != "" && !o.detached() {
		return nil, errors.New("a detached cluster needs a helper command; pass one to Detached")
	}
	return o, nil
}

func (o *options) binariesDir() (string, error) {
	if o.binaries != "" {
		return o.binaries, nil
	}
	root, err := repositoryRoot()
	return filepath.Join(root, "bin"), err
}

// repositoryRoot is the nearest parent of the working directory that holds test/cluster.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "cluster", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside this repository; name the folder of the cluster's binaries", start)
		}
	}
}

// binary returns the path of a cluster binary. KUBEBUILDER_ASSETS replaces etcd and the API server.
func (o *options) binary(name string) (string, error) {
	dir, err := o.binariesDir()
	if err != nil {
		return "", err
	}
	remedy := "build it with `make cluster`"
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && (name == nameEtcd || name == nameAPIServer) {
		dir, remedy = assets, "correct or unset KUBEBUILDER_ASSETS"
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the binary %s is missing; %s: %w", path, remedy, err)
	}
	return filepath.Abs(path)
}
