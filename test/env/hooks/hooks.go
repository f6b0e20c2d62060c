// Package hooks serves webhooks from a test's process as the controller does: behind their Service, with the certificate
// that they made themselves, and with the rights of the controller's service account.
package hooks

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/certs"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/port"
)

const (
	systemNamespace = "countersign-system"
	account         = "countersign-controller"

	// Service is the one that the shipped webhook configurations name.
	Service = systemNamespace + "/countersign-webhook:443"
)

// Server is where webhooks are registered, and what they are made of.
type Server struct {
	ctrlwebhook.Server
	Manager ctrl.Manager
	// Live reads from and writes to the API server.
	Live client.Client
	// Access remembers no refusal: tests give rights and use them at once.
	Access *authz.Authorizer
}

// Options say what is served.
type Options struct {
	Scheme *runtime.Scheme
	// Configurations are the names of the webhook configurations; none means the shipped ones.
	Configurations []string
	// Register adds the webhooks, before anything runs.
	Register func(context.Context, *Server) error
}

// Serve serves webhooks until the process ends, and returns their address: 127.0.0.1:port.
func Serve(ctx context.Context, c *env.Cluster, o Options) (string, error) {
	token, err := c.Token(ctx, systemNamespace, account, "", nil)
	if err != nil {
		return "", err
	}
	number, err := port.Reserve()
	if err != nil {
		return "", err
	}
	ctx = context.WithoutCancel(ctx) // they outlive the set-up
	mgr, err := newManager(ctx, c.Bearer(token), number, &o)
	if err != nil {
		return "", err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the webhooks ended:", err)
			os.Exit(1)
		}
	}()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(number)), nil
}

func newManager(ctx context.Context, as *rest.Config, number int, o *Options) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(as, ctrl.Options{
		Scheme: o.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, err
	}
	live, err := client.New(as, client.Options{Scheme: o.Scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, err
	}
	keeper, err := certs.NewKeeper(clock.RealClock{}, live, certs.Options{Namespace: systemNamespace, Configurations: o.Configurations})
	if err != nil {
		return nil, err
	}
	if err := keeper.Register(ctx, mgr); err != nil {
		return nil, err
	}
	reviews, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	server := &Server{
		Server:  ctrlwebhook.NewServer(ctrlwebhook.Options{Host: "127.0.0.1", Port: number, TLSOpts: []func(*tls.Config){keeper.Configure}}),
		Manager: mgr, Live: live,
		Access: authz.New(clock.RealClock{}, reviews.AuthorizationV1().SubjectAccessReviews(), authz.WithTTL(time.Second, 0)),
	}
	if err := o.Register(ctx, server); err != nil {
		return nil, err
	}
	return mgr, mgr.Add(server.Server)
}

// PoliciesAct is true once the API server acts on test/integration/testdata/last-policies.yaml. It takes policies up in
// the order of their installation, so it acts on all that were installed before.
func PoliciesAct(ctx context.Context, admin client.Client) bool {
	marked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-policies-mutate", Namespace: systemNamespace}}
	if err := admin.Create(ctx, marked, client.DryRunAll); err != nil || marked.Data["seen"] == "" {
		return false
	}
	refused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-policies-refuse", Namespace: systemNamespace}}
	return admin.Create(ctx, refused, client.DryRunAll) != nil
}
