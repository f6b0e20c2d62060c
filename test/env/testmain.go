package env

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// startTimeout is generous: other test binaries may use all processors.
	startTimeout = 2 * time.Minute
	// namespaceTimeout bounds the making of a namespace, for the same reason.
	namespaceTimeout = time.Minute
	interrupted      = 130
)

// Main is the body of a TestMain: it starts one cluster that all tests of the binary share, stores
// it in shared, runs the tests, stops the cluster and exits.
func Main(m *testing.M, shared **Cluster, opts ...Option) {
	os.Exit(runTests(m, shared, opts))
}

func runTests(m *testing.M, shared **Cluster, opts []Option) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cluster, err := Start(ctx, opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	stopOnInterrupt(cluster)
	*shared = cluster
	return m.Run()
}

func stopOnInterrupt(cluster *Cluster) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		_ = cluster.Stop() // the exit code already says that the run was cut
		os.Exit(interrupted)
	}()
}

var notNameable = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace returns the name of a fresh namespace, named after the test, in which pods may be
// created. It is deleted, without waiting, when the test ends.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), namespaceTimeout)
	defer cancel()
	name, err := c.newNamespace(ctx, t.Name())
	if err != nil {
		t.Fatalf("no namespace for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := c.deleteNamespace(name); err != nil {
			t.Errorf("the test's namespace %s cannot be deleted: %v", name, err)
		}
	})
	return name
}

func (c *Cluster) newNamespace(ctx context.Context, test string) (string, error) {
	prefix := strings.Trim(notNameable.ReplaceAllString(strings.ToLower(test), "-"), "-")
	namespace, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix[:min(len(prefix), 40)] + "-"},
	}, metav1.CreateOptions{})
	if err != nil || !c.runsControllers() {
		return namespace.GetName(), err
	}
	return namespace.Name, c.processes.await(ctx, "the namespace's default service account", func(ctx context.Context) error {
		return c.defaultServiceAccount(ctx, namespace.Name)
	})
}

func (c *Cluster) deleteNamespace(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), namespaceTimeout)
	defer cancel()
	err := c.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
