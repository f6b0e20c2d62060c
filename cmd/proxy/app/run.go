package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/directory/open"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/proxy"
	"github.com/AlaudaDevops/countersign/pkg/proxy/accesslog"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// startTimeout bounds what is asked of the API server before serving.
const startTimeout = 30 * time.Second

// parts are what the proxy is made of.
type parts struct {
	options  Options
	clock    clock.RealClock
	config   *rest.Config
	client   kubernetes.Interface
	watcher  *guarded.Watcher
	epoch    *guarded.EpochReader
	authz    *authz.Authorizer
	watches  *gate.Watches
	gate     *gate.Gate
	verifier *token.Verifier
	reviewer *token.Reviewer
	log      *accesslog.Writer
	people   proxy.People
}

// Run runs the proxy until the context ends and everything under way has been served or cut.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	p, err := newParts(ctx, config, options)
	if err != nil {
		return err
	}
	server, err := p.listen()
	if err != nil {
		return errors.Join(err, p.log.Close())
	}
	// What decides must go on while the last requests are served.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, background := errgroup.WithContext(background)
	serving, cancel := context.WithCancel(ctx)
	for _, start := range []func(context.Context) error{p.watcher.Start, p.epoch.Start, p.verifier.Start, p.gate.Start, p.compareReadings} {
		group.Go(func() error { return start(background) })
	}
	group.Go(func() error {
		<-background.Done()
		cancel()
		return nil
	})
	err = server.Serve(serving)
	stop()
	return errors.Join(err, group.Wait(), p.log.Close())
}

func newParts(ctx context.Context, config *rest.Config, options Options) (*parts, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p := &parts{options: options, config: rest.CopyConfig(config)}
	p.watches = gate.NewWatches(p.clock)
	p.config.Wrap(p.watches.Wrap)
	byWebhook, err := policies.CreatorWebhook(options.CreatorRecord)
	if err != nil {
		return nil, err
	}
	if p.client, err = kubernetes.NewForConfig(p.config); err != nil {
		return nil, err
	}
	p.watcher = guarded.NewWatcher(p.client, policies.Options{CreatorWebhook: byWebhook})
	p.epoch = guarded.NewEpochReader(p.client, p.watcher, options.Namespace)
	p.authz = authz.New(p.clock, p.client.AuthorizationV1().SubjectAccessReviews(),
		authz.WithTTL(options.AuthorizationTTL, min(options.AuthorizationTTL, authz.DefaultDenyTTL)))
	for _, add := range []func(context.Context) error{p.addGate, p.addTokens, p.addPeople, p.addLog} {
		if err := add(ctx); err != nil {
			return nil, err
		}
	}
	return p, guarded.RegisterMetrics(metrics.Registry, p.watcher)
}

func (p *parts) addGate(context.Context) error {
	dyn, err := dynamic.NewForConfig(p.config)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(p.config, client)
	if err != nil {
		return err
	}
	table := origin.DefaultConfig()
	if p.options.OriginFile != "" {
		if table, err = origin.LoadConfig(p.options.OriginFile); err != nil {
			return err
		}
	}
	p.gate = gate.New(gate.Options{
		Clock: p.clock, Dynamic: dyn, Kubernetes: p.client, Mapper: mapper, Authorizer: p.authz, Guard: p.watcher, Watches: p.watches,
		Epoch: p.epoch.Since, Origin: &table, Namespace: p.options.Namespace, Name: p.options.LeaseName, Staleness: p.options.Staleness,
	})
	return nil
}

func (p *parts) addTokens(ctx context.Context) error {
	people := &token.Config{}
	if p.options.AuthenticationConfig != "" {
		var err error
		if people, err = token.LoadConfig(p.options.AuthenticationConfig); err != nil {
			return err
		}
	}
	cluster, err := token.ClusterFor(ctx, p.config, p.options.Issuers, p.options.Audiences)
	if err != nil {
		return err
	}
	if p.verifier, err = token.New(cluster, people, token.Options{Clock: p.clock}); err != nil {
		return err
	}
	p.reviewer = token.NewReviewer(p.client.AuthenticationV1().TokenReviews(), cluster.Issuers, p.options.Audiences, token.Options{Clock: p.clock})
	return nil
}

func (p *parts) addPeople(context.Context) error {
	if p.options.DirectoryFile == "" {
		return nil
	}
	dyn, err := dynamic.NewForConfig(p.config)
	if err != nil {
		return err
	}
	people, err := open.Open(p.options.DirectoryFile, open.Deps{Clock: p.clock, Dynamic: dyn, Metrics: metrics.Registry})
	if err != nil {
		return err
	}
	p.people = people
	return nil
}

func (p *parts) addLog(context.Context) error {
	sink := os.Stdout
	if p.options.AccessLog != "-" {
		var err error
		if sink, err = os.OpenFile(p.options.AccessLog, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640); err != nil {
			return fmt.Errorf("the access log cannot be opened: %w", err)
		}
	}
	lost, log := lostLines(), ctrl.Log.WithName("accesslog")
	p.log = accesslog.NewWriter(sink, 0, func(lines int, err error) {
		lost.Add(float64(lines))
		log.Error(err, "Access log lines are lost; the proxy is not ready until one can be written again", "lines", lines)
	})
	return nil
}

func (p *parts) listen() (*proxy.Server, error) {
	handler := proxy.New(proxy.Options{
		Clock: p.clock, Gate: p.gate, Authenticator: p.authenticator(), Authorizer: p.authz, Secrets: secrets{p.client}, AccessLog: p.log,
		People:       p.people,
		HostSuffixes: p.options.HostSuffixes, PublicURL: p.options.PublicURL, Upstream: p.options.Upstream, Streams: p.options.Streams,
		Metrics: metrics.Registry,
	})
	server := p.options.Server
	server.Log, server.Ready, server.Metrics = ctrl.Log.WithName("proxy"), p.ready, metrics.Registry
	return proxy.Listen(handler, server)
}

func (p *parts) authenticator() token.Authenticator {
	if p.options.StrictTokenReview {
		return p.reviewer
	}
	return p.verifier
}

// ready says why nothing can be answered.
func (p *parts) ready() error {
	if !p.epoch.HasSynced() {
		return errors.New("the epoch of the admission policies was not read yet; wait a moment")
	}
	if err := p.log.Err(); err != nil {
		return fmt.Errorf("the access log cannot be written: %w", err)
	}
	return errors.Join(p.gate.Ready(), p.verifier.Ready())
}

// compareReadings tells once whether the proxy and the API server read a token alike. Where they differ, the
// authentication settings of the two differ, and the proxy would take callers for others than the API server does.
func (p *parts) compareReadings(ctx context.Context) error {
	log := ctrl.Log.WithName("token")
	content, err := os.ReadFile(p.options.SelfToken)
	if err != nil {
		log.Info("The reading of tokens is not compared with the API server's: there is no token to compare by", "file", p.options.SelfToken)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	mismatch := readingMismatch()
	differences, err := p.reviewer.CompareReading(ctx, p.verifier, strings.TrimSpace(string(content)))
	switch {
	case err != nil:
		log.Error(err, "The reading of tokens cannot be compared with the API server's")
	case len(differences) > 0:
		mismatch.Set(1)
		log.Error(nil, "The proxy reads tokens otherwise than the API server; give both the same authentication configuration", "differences", differences)
	default:
		log.Info("The proxy reads tokens as the API server does")
	}
	return nil
}

// secrets reads Secrets one by one and by name.
type secrets struct{ client kubernetes.Interface }

// Secret implements upstream.Secrets.
func (s secrets) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return s.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}
