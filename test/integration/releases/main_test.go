// Package releases tests Releases from their creation to the end of their pipeline run: the controller process as it is
// assembled, with its webhooks, policies and rights as shipped, against a real API server. The tests play Tekton and the
// organisation's directory of people.
package releases

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/cmd/controller/app"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/hooks"
	"github.com/AlaudaDevops/countersign/test/env/port"
)

const (
	systemNamespace   = "countersign-system"
	controllerAccount = "countersign-controller"
	controllerUser    = "system:serviceaccount:countersign-system:countersign-controller"

	// integration is the one service account that may make automated Releases.
	integrationNamespace = "integration-service"
	integrationAccount   = "controller"
	integration          = "system:serviceaccount:integration-service:controller"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond

	// asController makes this test binary be the controller instead.
	asController = "COUNTERSIGN_TEST_AS_CONTROLLER"
)

var (
	// cluster and running are shared by all tests.
	cluster *env.Cluster
	running *controller
	sso     *people
	scheme  = app.Scheme()
)

func TestMain(m *testing.M) {
	if os.Getenv(asController) != "" {
		os.Exit(beController())
	}
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "countersign-releases-")
	if err != nil {
		panic(err)
	}
	running = &controller{dir: dir}
	code := run(m)
	if os.Getenv("COUNTERSIGN_KEEP") == "" {
		_ = os.RemoveAll(dir)
	} else {
		fmt.Fprintln(os.Stderr, "kept:", dir)
	}
	os.Exit(code)
}

// run ends the controller before the cluster.
func run(m *testing.M) int {
	sso = newPeople()
	defer sso.server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	c, err := env.Start(ctx, env.WithAudit(auditv1.LevelMetadata), env.WithCRDs("../../../config/crd/bases", "../testdata/foreign-kinds.yaml", "testdata/pipelines.yaml"), env.WithSetup(install))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cluster = c
	code := m.Run()
	if err := errors.Join(running.halt(syscall.SIGTERM), c.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// beController runs the controller's own command in this process.
func beController() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := app.NewCommand()
	cmd.SetArgs(os.Args[1:])
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// install applies what config/ ships, but for the Release kinds, starts the controller, and only then installs those: it
// picks them up without a restart.
func install(ctx context.Context, c *env.Cluster) error {
	cluster = c
	if err := c.ApplyFiles(ctx, c.Admin(), "../../../config/rbac", "../../../config/roles", "../../../config/policies",
		"../../../config/webhook/service.yaml", "../../../config/webhook/manifests.yaml", "../testdata/last-policies.yaml"); err != nil {
		return err
	}
	if err := retried(ctx, func() error { return c.ApplyFiles(ctx, c.Admin(), "../../../config/controller/checkkinds.yaml") }); err != nil {
		return err
	}
	if err := running.start(ctx); err != nil {
		return err
	}
	if err := c.InstallCRDs(ctx, "../../../config/crd/release"); err != nil {
		return err
	}
	return answered(ctx, c)
}

// retried tries again while the API server does not serve new groups everywhere.
func retried(ctx context.Context, do func() error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
		last = do()
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// answered waits until policies, webhooks and the kinds of checks act.
func answered(ctx context.Context, c *env.Cluster) error {
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		if !hooks.PoliciesAct(ctx, admin) {
			return false, nil
		}
		made := &releasev1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: systemNamespace}}
		if err := admin.Create(ctx, made, client.DryRunAll); err != nil || made.Annotations[approvalv1alpha1.AnnotationAuthor] == "" ||
			made.Annotations[approvalv1alpha1.AnnotationCreatedBy] == "" {
			return false, nil
		}
		return kindsReady(ctx, admin) && epochKnown(ctx, admin), nil
	})
}

func kindsReady(ctx context.Context, admin client.Client) bool {
	for _, name := range []string{"approvalrequest", "attributioncheck"} {
		var kind approvalv1alpha1.CheckKind
		if err := admin.Get(ctx, client.ObjectKey{Name: name + ".approval.alaudadevops.io"}, &kind); err != nil ||
			!apimeta.IsStatusConditionTrue(kind.Status.Conditions, approvalv1alpha1.ConditionReady) {
			return false
		}
	}
	return true
}

// epochKnown tells that creators are believed from now on. The record has whole seconds, so what is made in the same
// second is not.
func epochKnown(ctx context.Context, admin client.Client) bool {
	var epoch corev1.ConfigMap
	if err := admin.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "countersign-epoch"}, &epoch); err != nil {
		return false
	}
	since, err := time.Parse(time.RFC3339, epoch.Data["since"])
	return err == nil && time.Since(since) > time.Second
}

var errEnded = errors.New("it is not to end by itself")

// controller is the controller's process.
type controller struct {
	dir  string
	port int
	cmd  *exec.Cmd
	done chan error
}

// start returns when the webhooks answer. More arguments come after those that every test has.
func (c *controller) start(ctx context.Context, more ...string) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	health, err := port.Reserve()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := append([]string{"--kubeconfig", filepath.Join(c.dir, "kubeconfig"), "--development",
		"--webhook-address", "127.0.0.1", "--webhook-port", strconv.Itoa(c.port), "--health-address", net.JoinHostPort("127.0.0.1", strconv.Itoa(health)),
		"--metrics-address", "0", "--epoch-settle", "0s", "--archive", filepath.Join(c.dir, "archive"), "--directory-config", filepath.Join(c.dir, "directory.yaml"),
		"--automated-service-accounts", integration}, more...)
	c.cmd = exec.Command(self, args...)
	c.cmd.Env = append(os.Environ(), asController+"=yes")
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.done = make(chan error, 1)
	go func() { c.done <- c.cmd.Wait() }()
	return c.healthy(ctx, health)
}

// prepare writes what the controller reads, once.
func (c *controller) prepare(ctx context.Context) error {
	if c.port != 0 {
		return nil
	}
	number, err := port.Reserve()
	if err != nil {
		return err
	}
	c.port = number
	token, err := cluster.Token(ctx, systemNamespace, controllerAccount, "", nil)
	if err != nil {
		return err
	}
	kubeconfig, err := cluster.Kubeconfig("controller", cluster.Bearer(token))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"kubeconfig": kubeconfig, "token": []byte(ssoToken), "directory.yaml": sso.config(filepath.Join(c.dir, "token"))} {
		if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return cluster.Route(hooks.Service, net.JoinHostPort("127.0.0.1", strconv.Itoa(number)))
}

// healthy waits for readiness: the serving certificate and the webhooks.
func (c *controller) healthy(ctx context.Context, number int) error {
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-c.done:
			log, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			return false, fmt.Errorf("the controller ended: %w: %s", errors.Join(errEnded, err), log)
		default:
		}
		return isReady(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", number)), nil
	})
}

// halt ends the process; SIGKILL is a crash.
func (c *controller) halt(how syscall.Signal) error {
	if c.cmd == nil {
		return nil
	}
	if err := c.cmd.Process.Signal(how); err != nil {
		return err
	}
	err := <-c.done
	c.cmd = nil
	if how == syscall.SIGKILL {
		return nil
	}
	return err
}
