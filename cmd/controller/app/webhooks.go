package app

import (
	"context"
	"crypto/tls"

	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/webhook/asked"
	"github.com/AlaudaDevops/countersign/pkg/webhook/certs"
	"github.com/AlaudaDevops/countersign/pkg/webhook/connector"
	"github.com/AlaudaDevops/countersign/pkg/webhook/creator"
	"github.com/AlaudaDevops/countersign/pkg/webhook/release"
	"github.com/AlaudaDevops/countersign/pkg/webhook/releaseplan"
	"github.com/AlaudaDevops/countersign/pkg/webhook/request"
	"github.com/AlaudaDevops/countersign/pkg/webhook/response"
	"github.com/AlaudaDevops/countersign/pkg/webhook/rule"
	"github.com/AlaudaDevops/countersign/pkg/webhook/script"
	"github.com/AlaudaDevops/countersign/pkg/webhook/timewindow"
)

// addWebhooks serves the list of all webhooks, in every replica.
func (p *parts) addWebhooks(ctx context.Context, mgr ctrl.Manager) error {
	live, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return err
	}
	keeper, err := certs.NewKeeper(p.clock, live, certs.Options{
		Namespace: p.options.Namespace, Lifetime: p.options.CertLifetime, Configurations: p.configurations(),
	})
	if err != nil {
		return err
	}
	if err := keeper.Register(ctx, mgr); err != nil {
		return err
	}
	if err := asked.SetupIndex(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{
		Host: p.options.WebhookAddress, Port: p.options.WebhookPort, TLSOpts: []func(*tls.Config){keeper.Configure},
	})
	for _, hook := range []interface{ Register(webhook.Server) }{
		p.requestWebhook(mgr, live),
		response.New(response.Deps{Live: live, Mapper: mgr.GetRESTMapper(), Access: p.authz}),
		rule.New(rule.Deps{Clock: p.clock, Live: live, Cache: mgr.GetCache(), Trial: live, Registry: p.registry, Access: p.authz}),
		connector.New(connector.Deps{Live: live, Access: p.authz}),
		script.New(),
		timewindow.New(),
		creator.New(p.authz),
		release.New(release.Deps{Live: live, Access: p.authz, Vocabulary: p.words, Automated: sets.New(p.options.AutomatedAccounts...)}),
		releaseplan.New(releaseplan.Deps{Clock: p.clock, Vocabulary: p.words}),
	} {
		hook.Register(server)
	}
	if err := mgr.AddReadyzCheck("certificate", keeper.Ready); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhooks", server.StartedChecker()); err != nil {
		return err
	}
	return mgr.Add(server)
}

// configurations are the webhook configurations that the API server is to trust. Those of the creator record are served
// in any case, but there only if webhooks write it.
func (p *parts) configurations() []string {
	names := []string{certs.DefaultConfiguration}
	if p.options.CreatorRecord == policies.CreatorRecordWebhook {
		names = append(names, policies.CreatorRecord)
	}
	return names
}

func (p *parts) requestWebhook(mgr ctrl.Manager, live client.Client) *request.Webhook {
	origins := origin.NewLive(p.dynamic, mgr.GetRESTMapper())
	return request.New(request.Deps{
		Clock: p.clock, Live: live, Cache: mgr.GetCache(), Status: live, Mapper: mgr.GetRESTMapper(), Access: p.authz,
		Origins: origins, Climber: origin.NewClimber(origins, p.origin, p.epoch.Since), Runs: p.origin, Since: p.epoch.Since,
		Limits: request.Limits{
			PerPerson: p.options.PerPerson, PerServiceAccount: p.options.PerServiceAccount, PerNamespace: p.options.PerNamespace,
		},
	})
}
