package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/AlaudaDevops/countersign/pkg/archive"
	"github.com/AlaudaDevops/countersign/pkg/controller/approvalrequest"
	attributioncheck "github.com/AlaudaDevops/countersign/pkg/controller/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/checkkind"
	"github.com/AlaudaDevops/countersign/pkg/controller/connector"
	"github.com/AlaudaDevops/countersign/pkg/controller/release"
	"github.com/AlaudaDevops/countersign/pkg/controller/releaseplan"
	"github.com/AlaudaDevops/countersign/pkg/controller/request"
	"github.com/AlaudaDevops/countersign/pkg/controller/rule"
	"github.com/AlaudaDevops/countersign/pkg/controller/script"
	"github.com/AlaudaDevops/countersign/pkg/controller/timewindow"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// requestWorkers is how many requests are looked at at once: each mostly waits for the API server.
const requestWorkers = 8

// uncached are the kinds that are read one by one: nobody here may list or watch Secrets.
func uncached() []client.Object {
	return []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}
}

// addControllers is the list of all controllers.
func (p *parts) addControllers(ctx context.Context, mgr ctrl.Manager) error {
	if err := registerMetrics(metrics.Registry); err != nil {
		return err
	}
	requests, err := p.newRequests(ctx, mgr)
	if err != nil {
		return err
	}
	kinds := checkkind.NewController(p.clock, mgr.GetClient(), p.client.Discovery(), p.watcher, mgr.GetEventRecorder("checkkind"))
	if err := kinds.Register(ctx, mgr, p.registry); err != nil {
		return err
	}
	scripts := script.New(p.clock, mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("script"))
	p.runs.OnChange(requests.RunChanged)
	p.runs.OnChange(scripts.RunChanged)
	attributions := p.newAttributions(mgr)
	p.runs.OnChange(attributions.RunChanged)
	releases, plans := p.newReleases(mgr)
	p.runs.OnChange(releases.RunChanged)
	for _, register := range []func(context.Context, ctrl.Manager) error{
		rule.NewController(p.clock, mgr.GetClient(), mgr.GetAPIReader(), p.registry, mgr.GetEventRecorder("rule")).Register,
		connector.NewController(p.clock, mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("connector"), connector.Options{
			Namespace: p.options.Namespace, ProxyService: p.options.ProxyService, ProxyURL: p.options.ProxyURL, Timeout: p.options.ToolTimeout,
		}).Register,
		requests.Register,
		approvalrequest.New(p.clock, mgr.GetClient(), mgr.GetEventRecorder("approvalrequest")).Register,
		timewindow.New(p.clock, mgr.GetClient(), mgr.GetEventRecorder("timewindow")).Register,
		scripts.Register,
		attributions.Register,
		releases.Register,
		plans.Register,
	} {
		if err := register(ctx, mgr); err != nil {
			return err
		}
	}
	return nil
}

// registerMetrics registers what packages count for the whole process.
func registerMetrics(registry prometheus.Registerer) error {
	for _, register := range []func(prometheus.Registerer) error{
		origin.RegisterMetrics, approvalrequest.RegisterMetrics, timewindow.RegisterMetrics, script.RegisterMetrics,
		attributioncheck.RegisterMetrics,
		release.RegisterMetrics, releaseplan.RegisterMetrics,
	} {
		if err := register(registry); err != nil {
			return err
		}
	}
	return nil
}

func (p *parts) newRequests(ctx context.Context, mgr ctrl.Manager) (*request.Controller, error) {
	if err := request.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	sink, err := archive.Open(p.options.Archive)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	live := origin.NewLive(p.dynamic, mgr.GetRESTMapper())
	return request.NewController(request.Dependencies{
		Clock: p.clock, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Dynamic: p.dynamic, Metadata: objects,
		Mapper: mgr.GetRESTMapper(), Kinds: p.registry,
		Runs: request.Runs{
			Watched: p.runs, Live: live, Climber: origin.NewClimber(live, p.origin, p.epoch.Since), Since: p.epoch.Since,
		},
		Archive: sink, Recorder: mgr.GetEventRecorder("request"), Metrics: metrics.Registry,
	}, request.Options{
		Username: p.username, Retention: p.options.Retention, ReasksPerSecond: p.options.ReasksPerSecond, Workers: requestWorkers,
	})
}

func (p *parts) newAttributions(mgr ctrl.Manager) *attributioncheck.Controller {
	live := origin.NewLive(p.dynamic, mgr.GetRESTMapper())
	return attributioncheck.New(attributioncheck.Dependencies{
		Clock: p.clock, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Mapper: mgr.GetRESTMapper(),
		Origins: live, Watched: p.runs, Climber: origin.NewClimber(live, p.origin, p.epoch.Since), Since: p.epoch.Since,
		Guard: p.watcher, People: p.people, Vocabulary: p.words, Recorder: mgr.GetEventRecorder("attribution"),
	}, p.username)
}

// newReleases makes the controllers of the Release kinds, which begin once those are installed.
func (p *parts) newReleases(mgr ctrl.Manager) (*release.Controller, *releaseplan.Controller) {
	releases := release.New(release.Dependencies{
		Clock: p.clock, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Mapper: mgr.GetRESTMapper(), Guard: p.watcher, Since: p.epoch.Since,
		Recorder: mgr.GetEventRecorder("release"),
	}, release.Options{Username: p.username, Vocabulary: p.words})
	plans := releaseplan.New(releaseplan.Dependencies{
		Clock: p.clock, Client: mgr.GetClient(), People: p.people, Recorder: mgr.GetEventRecorder("releaseplan"),
	}, releaseplan.Options{Vocabulary: p.words, Recheck: p.options.StandingRecheck})
	return releases, plans
}
