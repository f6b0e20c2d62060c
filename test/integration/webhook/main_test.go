// Package webhook tests the admission webhooks against a real API server, which calls them as shipped: through their
// Service, with the certificate that they made themselves, and with the rights of the controller's service account.
package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/webhook/asked"
	"github.com/AlaudaDevops/countersign/pkg/webhook/certs"
	"github.com/AlaudaDevops/countersign/pkg/webhook/connector"
	"github.com/AlaudaDevops/countersign/pkg/webhook/request"
	"github.com/AlaudaDevops/countersign/pkg/webhook/response"
	"github.com/AlaudaDevops/countersign/pkg/webhook/rule"
	"github.com/AlaudaDevops/countersign/pkg/webhook/script"
	"github.com/AlaudaDevops/countersign/pkg/webhook/timewindow"
	"github.com/AlaudaDevops/countersign/test/env"
)

const (
	systemNamespace   = "countersign-system"
	controllerAccount = "countersign-controller"
	tektonController  = "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

// cluster is shared by all tests.
var cluster *env.Cluster

// registry holds the check kinds that rules are tried with. No controller fills it here.
var registry = &checks.Registry{}

var scheme = newScheme()

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	crds, err := filepath.Glob("../../../config/crd/bases/[a-z]*.yaml")
	if err != nil {
		panic(err)
	}
	crds = append(crds, "../testdata/foreign-kinds.yaml")
	env.Main(m, &cluster, env.WithCRDs(crds...), env.WithSetup(install))
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// install applies what config/ ships, starts the webhooks in this process, and returns when the API server asks them.
func install(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "../../../config/rbac", "../../../config/roles", "../../../config/policies",
		"../testdata/last-policies.yaml", "../../../config/webhook/service.yaml", "../../../config/webhook/manifests.yaml"); err != nil {
		return err
	}
	if err := serve(ctx, c); err != nil {
		return err
	}
	return answered(ctx, c)
}

// serve runs the webhooks until the process ends, as the shipped identity.
func serve(ctx context.Context, c *env.Cluster) error {
	token, err := c.Token(ctx, systemNamespace, controllerAccount, "", nil)
	if err != nil {
		return err
	}
	as := c.Bearer(token)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // they outlive the set-up
	mgr, err := newManager(ctx, as, address)
	if err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the webhooks ended:", err)
			os.Exit(1)
		}
	}()
	return c.Route(systemNamespace+"/countersign-webhook:443", net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port)))
}

func newManager(ctx context.Context, as *rest.Config, address *net.TCPAddr) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(as, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, err
	}
	live, err := client.New(as, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, err
	}
	keeper, err := certs.NewKeeper(clock.RealClock{}, live, certs.Options{Namespace: systemNamespace})
	if err != nil {
		return nil, err
	}
	if err := keeper.Register(ctx, mgr); err != nil {
		return nil, err
	}
	if err := asked.SetupIndex(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: "127.0.0.1", Port: address.Port, TLSOpts: []func(*tls.Config){keeper.Configure}})
	hooks, err := newHooks(mgr, live)
	if err != nil {
		return nil, err
	}
	for _, hook := range hooks {
		hook.Register(server)
	}
	return mgr, mgr.Add(server)
}

type hook interface{ Register(ctrlwebhook.Server) }

// newHooks remembers no refusals: tests give rights and use them at once.
func newHooks(mgr ctrl.Manager, live client.Client) ([]hook, error) {
	reviews, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	var tick clock.RealClock
	access := authz.New(tick, reviews.AuthorizationV1().SubjectAccessReviews(), authz.WithTTL(time.Second, 0))
	origins := origin.NewLive(dyn, mgr.GetRESTMapper())
	begun := time.Now().Add(-time.Hour)
	since := func() time.Time { return begun }
	return []hook{
		request.New(request.Deps{
			Clock: tick, Live: live, Cache: mgr.GetCache(), Status: live, Mapper: mgr.GetRESTMapper(), Access: access, Origins: origins,
			Climber: origin.NewClimber(origins, origin.DefaultConfig(), since), Runs: origin.DefaultConfig(), Since: since,
		}),
		response.New(response.Deps{Live: live, Mapper: mgr.GetRESTMapper(), Access: access}),
		rule.New(rule.Deps{Clock: tick, Live: live, Cache: mgr.GetCache(), Trial: live, Registry: registry, Access: access}),
		connector.New(connector.Deps{Live: live, Access: access}), script.New(), timewindow.New(),
	}, nil
}

// answered waits until policies and webhooks act. The policies of testdata were installed last, so when those act, ours
// do.
func answered(ctx context.Context, c *env.Cluster) error {
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		marked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-policies-mutate", Namespace: systemNamespace}}
		if err := admin.Create(ctx, marked, client.DryRunAll); err != nil || marked.Data["seen"] == "" {
			return false, nil
		}
		if err := admin.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-policies-refuse", Namespace: systemNamespace}}, client.DryRunAll); err == nil {
			return false, nil
		}
		err := admin.Create(ctx, newRequest(systemNamespace, "none"), client.DryRunAll)
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), nil
	})
}
