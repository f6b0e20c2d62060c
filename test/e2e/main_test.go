// Package e2e runs whole stories against the development environment: real processes, real API server, real
// clients. Each test has namespaces and a tool of its own.
package e2e

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// timeout bounds every wait of a test. It says nothing about how fast things are.
const timeout = 60 * time.Second

// plane is the environment that all tests share.
var plane environment

type environment struct {
	dir    string
	people staff
	bin    string
	values map[string]string
	scheme *runtime.Scheme
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	log.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "countersign-e2e-")
	if err != nil {
		return failed(err)
	}
	bin, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		return failed(err)
	}
	plane = environment{dir: dir, bin: bin, scheme: newScheme()}
	defer plane.down()
	if err := plane.people.start(); err != nil {
		return failed(err)
	}
	defer plane.people.stop()
	if err := plane.up(); err != nil {
		return failed(err)
	}
	return runMany(m)
}

// runMany runs more tests at once than there are processors, because most of the time they wait for the
// environment, and looks at its logs afterwards.
func runMany(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		return failed(err)
	}
	code := m.Run()
	if err := quietLogs(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: the logs show what they must not:", err)
		return 1
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "the environment did not start:", err)
	return 1
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(approvalv1alpha1.AddToScheme(s))
	utilruntime.Must(connectorsv1alpha1.AddToScheme(s))
	utilruntime.Must(releasev1alpha1.AddToScheme(s))
	return s
}

func (e *environment) up() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, filepath.Join(e.bin, "dev"), "up", "--dir", e.dir,
		"--directory-config="+e.people.config, "--standing-recheck=2s").CombinedOutput()
	if err != nil {
		return fmt.Errorf("dev up: %w\n%s", err, output)
	}
	file, err := os.Open(filepath.Join(e.dir, "env"))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	e.values = map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "="); ok {
			e.values[name] = strings.Trim(value, `"'`)
		}
	}
	return nil
}

// down keeps the logs of a failed run when COUNTERSIGN_KEEP is set.
func (e *environment) down() {
	if os.Getenv("COUNTERSIGN_KEEP") != "" {
		fmt.Fprintln(os.Stderr, "kept:", e.dir)
		return
	}
	output, err := exec.Command(filepath.Join(e.bin, "dev"), "down", "--dir", e.dir).CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "dev down: %v\n%s", err, output)
	}
	_ = os.RemoveAll(e.dir)
}

// config is the kubeconfig context of a person.
func (e *environment) config(t testing.TB, person string) *rest.Config {
	t.Helper()
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: filepath.Join(e.dir, "kubeconfig")},
		&clientcmd.ConfigOverrides{CurrentContext: person})
	config, err := loader.ClientConfig()
	if err != nil {
		t.Fatalf("no kubeconfig context %s: %v", person, err)
	}
	config.QPS, config.Burst = 200, 400
	return config
}

// as is a client of a person.
func (e *environment) as(t testing.TB, person string) client.Client {
	t.Helper()
	return e.client(t, e.config(t, person))
}

// impersonating is a client of the administrator who acts as somebody.
func (e *environment) impersonating(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	config := e.config(t, "admin")
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return e.client(t, config)
}

func (e *environment) client(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: e.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// token is a person's token.
func (e *environment) token(t testing.TB, person string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, "tokens", person))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// mint makes another token of a person, with a jti of its own.
func (e *environment) mint(t testing.TB, person string, args ...string) string {
	t.Helper()
	output, err := exec.Command(filepath.Join(e.dir, "token"), append([]string{person}, args...)...).Output()
	if err != nil {
		t.Fatalf("no token for %s: %v", person, err)
	}
	return strings.TrimSpace(string(output))
}
