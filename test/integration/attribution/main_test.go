// Package attribution tests who is found accountable, with the whole controller as it is shipped: its webhooks, its
// policies, its rights, a real API server, and a directory that can be made to know, forget and fall silent.
package attribution

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
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
	integration = "system:serviceaccount:integration-service:controller"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

var (
	// cluster and staff are shared by all tests.
	cluster *env.Cluster
	staff   = newService()
	scheme  = newScheme()
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	env.Main(m, &cluster, env.WithSetup(install), env.WithCRDs(
		"../../../config/crd/bases", "../../../config/crd/release", "../testdata/foreign-kinds.yaml", "testdata/pipelines.yaml"))
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme, releasev1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// install applies what config/ ships, runs the controller in this process, and returns when checks can be made and
// creators are believed.
func install(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "../../../config/rbac", "../../../config/roles", "../../../config/policies",
		"../../../config/webhook/service.yaml", "../../../config/webhook/manifests.yaml"); err != nil {
		return err
	}
	health, err := run(ctx, c)
	if err != nil {
		return err
	}
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	for _, condition := range []wait.ConditionWithContextFunc{
		func(context.Context) (bool, error) { return answers("http://" + health + "/readyz"), nil },
		func(ctx context.Context) (bool, error) {
			return c.ApplyFiles(ctx, c.Admin(), "../../../config/controller/checkkinds.yaml") == nil, nil
		},
		func(ctx context.Context) (bool, error) { return kindReady(ctx, admin), nil },
		func(ctx context.Context) (bool, error) { return epochBegan(ctx, admin), nil },
	} {
		if err := wait.PollUntilContextCancel(ctx, tick, true, condition); err != nil {
			return err
		}
	}
	return nil
}

// run runs the controller until the process ends, as the shipped identity.
func run(ctx context.Context, c *env.Cluster) (health string, err error) {
	dir, err := os.MkdirTemp(c.StateDir(), "controller-")
	if err != nil {
		return "", err
	}
	o := app.DefaultOptions()
	o.DirectoryFile, o.Archive = filepath.Join(dir, "directory.yaml"), filepath.Join(dir, "archive.jsonl")
	if err := staff.start(dir, o.DirectoryFile); err != nil {
		return "", err
	}
	token, err := c.Token(ctx, systemNamespace, controllerAccount, "", nil)
	if err != nil {
		return "", err
	}
	o.WebhookAddress, o.MetricsAddress, o.EpochSettle, o.AutomatedAccounts = "127.0.0.1", "0", 0, []string{integration}
	if o.WebhookPort, err = port.Reserve(); err != nil {
		return "", err
	}
	number, err := port.Reserve()
	if err != nil {
		return "", err
	}
	o.HealthAddress = net.JoinHostPort("127.0.0.1", strconv.Itoa(number))
	if err := o.Validate(); err != nil {
		return "", err
	}
	go func() {
		if err := app.Run(context.WithoutCancel(ctx), c.Bearer(token), o); err != nil {
			fmt.Fprintln(os.Stderr, "the controller ended:", err)
			os.Exit(1)
		}
	}()
	return o.HealthAddress, c.Route(hooks.Service, net.JoinHostPort("127.0.0.1", strconv.Itoa(o.WebhookPort)))
}

func answers(url string) bool {
	response, err := http.Get(url)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func kindReady(ctx context.Context, admin client.Client) bool {
	var kind approvalv1alpha1.CheckKind
	err := admin.Get(ctx, client.ObjectKey{Name: "attributioncheck.approval.alaudadevops.io"}, &kind)
	return err == nil && apimeta.IsStatusConditionTrue(kind.Status.Conditions, approvalv1alpha1.ConditionReady)
}

// epochBegan tells that what is created from now on has a creator that is believed: times have the precision of a second.
// Probes show that webhooks and policies act.
func epochBegan(ctx context.Context, admin client.Client) bool {
	var epoch corev1.ConfigMap
	if admin.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "countersign-epoch"}, &epoch) != nil {
		return false
	}
	since, err := time.Parse(time.RFC3339, epoch.Data["since"])
	if err != nil || !time.Now().Truncate(time.Second).After(since) {
		return false
	}
	probe := &releasev1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "probe"}}
	return admin.Create(ctx, probe, client.DryRunAll) == nil && probe.Annotations[approvalv1alpha1.AnnotationCreatedBy] != ""
}
