package creates

import (
	"context"
	"net"
	"net/http"

	"k8s.io/utils/clock"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/creator"
	"github.com/AlaudaDevops/countersign/test/bench/serve"
)

// serve serves the webhooks, whether or not the API server asks them, until the plane is closed.
func (p *Plane) serve(ctx context.Context) error {
	pair, err := p.cluster.CA().IssueServer("127.0.0.1")
	if err != nil {
		return err
	}
	certFile, keyFile, err := pair.Write(p.dir, "webhooks")
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.webhooks = server{url: "https://" + listener.Addr().String(), ca: p.cluster.CA().CertPEM()}
	handler := http.NewServeMux()
	reviews := p.cluster.Client().AuthorizationV1().SubjectAccessReviews()
	creator.New(authz.New(clock.RealClock{}, reviews)).Register(ctrlwebhook.NewServer(ctrlwebhook.Options{WebhookMux: handler}))
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.serving.Go(func() error {
		return serve.Until(ctx, &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}, listener, certFile, keyFile)
	})
	return nil
}
