package app

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/open"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// leaseName is the Lease of the leader.
const leaseName = "countersign-controller"

// parts are what controllers and webhooks share.
type parts struct {
	options  Options
	clock    clock.WithTicker
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	username string
	registry *checks.Registry
	watcher  *guarded.Watcher
	epoch    *guarded.EpochReader
	origin   origin.Config
	runs     *origin.Cache
	authz    *authz.Authorizer
	people   *directory.Cached
	words    attribution.Vocabulary
}

// Run runs the controller until the context ends.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	// The API server shares itself out by priority and fairness. The client's own limit of twenty calls a second would let
	// the Releases of one team keep everybody's approvals waiting.
	config = rest.CopyConfig(config)
	config.QPS = -1
	mgr, err := newManager(config, options)
	if err != nil {
		return err
	}
	p, err := newParts(ctx, mgr, options)
	if err != nil {
		return err
	}
	for _, add := range []func(context.Context, ctrl.Manager) error{
		p.addGuard, p.addControllers, p.addWebhooks, p.addHealth,
	} {
		if err := add(ctx, mgr); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// Scheme knows every type that the controllers read or write by its Go type.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(approvalv1alpha1.AddToScheme(s))
	utilruntime.Must(connectorsv1alpha1.AddToScheme(s))
	utilruntime.Must(releasev1alpha1.AddToScheme(s))
	return s
}

func newManager(config *rest.Config, options Options) (ctrl.Manager, error) {
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                        Scheme(),
		Metrics:                       metricsserver.Options{BindAddress: options.MetricsAddress},
		HealthProbeBindAddress:        options.HealthAddress,
		LeaderElection:                options.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       options.Namespace,
		LeaderElectionReleaseOnCancel: true,
		// A forgotten watch shows as an error, not as a silent list of every object of a kind.
		Cache: cache.Options{ReaderFailOnMissingInformer: true, DefaultTransform: cache.TransformStripManagedFields()},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: uncached(),
		}},
	})
}

func newParts(ctx context.Context, mgr ctrl.Manager, options Options) (*parts, error) {
	client, dyn, err := newClients(mgr)
	if err != nil {
		return nil, err
	}
	table, err := originTable(options)
	if err != nil {
		return nil, err
	}
	username, err := ownName(ctx, client, options.Username)
	if err != nil {
		return nil, err
	}
	words, err := attribution.LookupVocabulary(options.Vocabulary)
	if err != nil {
		return nil, err
	}
	var tick clock.RealClock
	byWebhook, err := policies.CreatorWebhook(options.CreatorRecord)
	if err != nil {
		return nil, err
	}
	people, err := open.Open(options.DirectoryFile, open.Deps{Clock: tick, Dynamic: dyn, Metrics: metrics.Registry})
	if err != nil {
		return nil, err
	}
	ours, err := hasOwnReleases(ctx, dyn)
	if err != nil {
		return nil, err
	}
	watcher := guarded.NewWatcher(client, policies.Options{Releases: ours, CreatorWebhook: byWebhook})
	return &parts{
		options: options, clock: tick, client: client, dynamic: dyn, username: username,
		registry: &checks.Registry{}, watcher: watcher,
		epoch:  guarded.NewEpochReader(client, watcher, options.Namespace),
		origin: table, runs: origin.NewCache(tick, dyn, mgr.GetRESTMapper(), table),
		// Somebody who was given a right just now asks at once, so a no is not remembered.
		authz:  authz.New(tick, client.AuthorizationV1().SubjectAccessReviews(), authz.WithTTL(authz.DefaultAllowTTL, 0)),
		people: people, words: words,
	}, nil
}

func newClients(mgr ctrl.Manager) (kubernetes.Interface, dynamic.Interface, error) {
	client, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, err
	}
	dyn, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	return client, dyn, err
}

func originTable(options Options) (origin.Config, error) {
	if options.OriginFile == "" {
		return origin.DefaultConfig(), nil
	}
	return origin.LoadConfig(options.OriginFile)
}

// ownName is the user name that the creator records of our checks carry.
func ownName(ctx context.Context, client kubernetes.Interface, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("the API server did not say who this controller is; set --username or let it answer SelfSubjectReviews: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// addGuard watches the admission policies in every replica, and keeps the epoch on the leader.
func (p *parts) addGuard(_ context.Context, mgr ctrl.Manager) error {
	keeper := guarded.NewKeeper(p.clock, p.client, guarded.NewDryRunProber(p.dynamic, p.options.Namespace),
		p.watcher, p.options.Namespace, guarded.WithSettle(p.options.EpochSettle))
	if err := guarded.RegisterMetrics(metrics.Registry, p.watcher); err != nil {
		return err
	}
	for _, runnable := range []interface {
		Start(context.Context) error
	}{p.watcher, p.epoch, keeper, p.runs, &releaseKinds{p.dynamic, p.watcher}} {
		if err := mgr.Add(runnable); err != nil {
			return err
		}
	}
	return nil
}

func (p *parts) addHealth(_ context.Context, mgr ctrl.Manager) error {
	return mgr.AddHealthzCheck("ping", healthz.Ping)
}
