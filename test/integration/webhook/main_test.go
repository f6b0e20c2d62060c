// Package webhook tests the admission webhooks against a real API server, which calls them as shipped: through their
// Service, with the certificate that they made themselves, and with the rights of the controller's service account.
package webhook

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/webhook/asked"
	"github.com/AlaudaDevops/countersign/pkg/webhook/connector"
	"github.com/AlaudaDevops/countersign/pkg/webhook/request"
	"github.com/AlaudaDevops/countersign/pkg/webhook/response"
	"github.com/AlaudaDevops/countersign/pkg/webhook/rule"
	"github.com/AlaudaDevops/countersign/pkg/webhook/script"
	"github.com/AlaudaDevops/countersign/pkg/webhook/timewindow"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/hooks"
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
	address, err := hooks.Serve(ctx, c, hooks.Options{Scheme: scheme, Register: register})
	if err != nil {
		return err
	}
	if err := c.Route(hooks.Service, address); err != nil {
		return err
	}
	return answered(ctx, c)
}

type hook interface{ Register(ctrlwebhook.Server) }

func register(ctx context.Context, server *hooks.Server) error {
	mgr, live, access := server.Manager, server.Live, server.Access
	if err := asked.SetupIndex(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	var tick clock.RealClock
	origins := origin.NewLive(dyn, mgr.GetRESTMapper())
	begun := time.Now().Add(-time.Hour)
	since := func() time.Time { return begun }
	for _, hook := range []hook{
		request.New(request.Deps{
			Clock: tick, Live: live, Cache: mgr.GetCache(), Status: live, Mapper: mgr.GetRESTMapper(), Access: access, Origins: origins,
			Climber: origin.NewClimber(origins, origin.DefaultConfig(), since), Runs: origin.DefaultConfig(), Since: since,
		}),
		response.New(response.Deps{Live: live, Mapper: mgr.GetRESTMapper(), Access: access}),
		rule.New(rule.Deps{Clock: tick, Live: live, Cache: mgr.GetCache(), Trial: live, Registry: registry, Access: access}),
		connector.New(connector.Deps{Live: live, Access: access}), script.New(), timewindow.New(),
	} {
		hook.Register(server)
	}
	return nil
}

// answered waits until policies and webhooks act, and the API server has looked for the schemas of our groups, which it
// does every five seconds: policies need them.
func answered(ctx context.Context, c *env.Cluster) error {
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		if !hooks.PoliciesAct(ctx, admin) || admin.Create(ctx, harbor(systemNamespace), client.DryRunAll) != nil {
			return false, nil
		}
		err := admin.Create(ctx, newRequest(systemNamespace, "none"), client.DryRunAll)
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), nil
	})
}
