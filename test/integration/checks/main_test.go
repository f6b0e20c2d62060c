// Package checks tests the controllers that answer the built-in checks, and those that say whether rules and connectors
// can be used, against a real API server, with the rights and policies as shipped.
package checks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/controller/approvalrequest"
	"github.com/AlaudaDevops/countersign/pkg/controller/checkkind"
	"github.com/AlaudaDevops/countersign/pkg/controller/connector"
	"github.com/AlaudaDevops/countersign/pkg/controller/rule"
	"github.com/AlaudaDevops/countersign/pkg/controller/script"
	"github.com/AlaudaDevops/countersign/pkg/controller/timewindow"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/test/env"
)

const (
	systemNamespace   = "countersign-system"
	controllerAccount = "countersign-controller"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

var (
	// cluster and running are shared by all tests.
	cluster *env.Cluster
	running *controllers
	scheme  = newScheme()
	// windows is the clock of time windows; monday is 08:00 in Berlin.
	windows = testingclock.NewFakeClock(monday)
	monday  = time.Date(2026, 3, 2, 7, 0, 0, 0, time.UTC)
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	crds, err := filepath.Glob("../../../config/crd/bases/[a-z]*.yaml")
	if err != nil {
		panic(err)
	}
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

// install applies what config/ ships, starts the controllers, and returns when checks of the built-in kinds can be made.
func install(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "../../../config/rbac", "../../../config/roles", "../../../config/policies"); err != nil {
		return err
	}
	if err := applyKinds(ctx, c); err != nil {
		return err
	}
	token, err := c.Token(ctx, systemNamespace, controllerAccount, "", nil)
	if err != nil {
		return err
	}
	running = &controllers{as: c.Bearer(token)}
	if err := running.start(); err != nil {
		return err
	}
	return kindsReady(ctx, c)
}

// applyKinds tries again while the API server does not serve the new group everywhere.
func applyKinds(ctx context.Context, c *env.Cluster) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		last = c.ApplyFiles(ctx, c.Admin(), "../../../config/controller/checkkinds.yaml")
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	return nil
}

func kindsReady(ctx context.Context, c *env.Cluster) error {
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		for _, name := range []string{"approvalrequest", "scriptcheck", "timewindowcheck"} {
			var kind approvalv1alpha1.CheckKind
			if err := admin.Get(ctx, client.ObjectKey{Name: name + ".approval.alaudadevops.io"}, &kind); err != nil {
				return false, err
			}
			if !apimeta.IsStatusConditionTrue(kind.Status.Conditions, approvalv1alpha1.ConditionReady) {
				return false, nil
			}
		}
		return true, nil
	})
}

// controllers run in this process, as the shipped identity, until halt.
type controllers struct {
	as   *rest.Config
	stop func() error
}

// start begins with empty caches, as after a restart of the process.
func (r *controllers) start() error {
	mgr, err := ctrl.NewManager(r.as, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ReaderFailOnMissingInformer: true},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := register(ctx, mgr); err != nil {
		cancel()
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := mgr.Start(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, "the controllers ended:", err)
		}
		done <- err
	}()
	r.stop = func() error {
		cancel()
		return <-done
	}
	return nil
}

func register(ctx context.Context, mgr ctrl.Manager) error {
	reviews, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	var tick clock.RealClock
	c, live, recorder := mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("countersign-controller")
	registry, watcher := &checks.Registry{}, guarded.NewWatcher(reviews, policies.Options{})
	runs := origin.NewCache(tick, dyn, mgr.GetRESTMapper(), origin.DefaultConfig())
	scripts := script.New(tick, c, live, recorder)
	runs.OnChange(scripts.RunChanged)
	return errors.Join(
		mgr.Add(watcher), mgr.Add(runs),
		checkkind.NewController(tick, c, reviews.Discovery(), watcher, recorder).Register(ctx, mgr, registry),
		approvalrequest.New(tick, c, recorder).Register(ctx, mgr),
		timewindow.New(windows, c, recorder).Register(ctx, mgr),
		scripts.Register(ctx, mgr),
		rule.NewController(tick, c, live, registry, recorder).Register(ctx, mgr),
		connector.NewController(tick, c, live, recorder, connector.Options{
			Namespace: systemNamespace, ProxyService: "countersign-proxy", ProxyURL: "https://proxy.example.com", Timeout: 10 * time.Second,
		}).Register(ctx, mgr),
	)
}

// as returns a client of whoever the configuration authenticates.
func as(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// create makes objects as the configuration's user. The API server looks for schemas of new groups every five seconds,
// and policies of theirs are unavailable until then.
func create(t testing.TB, config *rest.Config, objects ...client.Object) {
	t.Helper()
	c := as(t, config)
	for _, object := range objects {
		eventually(t, func(ctx context.Context) error {
			err := c.Create(ctx, object)
			if err != nil && !apierrors.IsServiceUnavailable(err) && !apierrors.IsInternalError(err) {
				require.NoError(t, err)
			}
			return err
		})
	}
}

// eventually waits until the condition returns no error.
func eventually(t testing.TB, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waited in vain: %v", last)
	}
}

// until waits for the object to be so, and leaves it as it is then.
func until[T client.Object](t testing.TB, object T, so func(T) bool) T {
	t.Helper()
	admin := as(t, cluster.Admin())
	eventually(t, func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if !so(object) {
			return fmt.Errorf("%T %s is not yet so: %+v", object, object.GetName(), object)
		}
		return nil
	})
	return object
}

// touch brings the controllers back to an object.
func touch(t testing.TB, object client.Object, value string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"test.example.com/touched":"`+value+`"}}}`))
	require.NoError(t, as(t, cluster.Admin()).Patch(t.Context(), object, patch))
}

func reasonOf(conditions []metav1.Condition) string {
	if c := apimeta.FindStatusCondition(conditions, approvalv1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}
