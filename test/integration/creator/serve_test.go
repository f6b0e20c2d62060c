package creator

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/certs"
	"github.com/AlaudaDevops/countersign/pkg/webhook/creator"
	"github.com/AlaudaDevops/countersign/test/env"
)

const (
	controllerAccount = "countersign-controller"
	webhookService    = systemNamespace + "/countersign-webhook:443"
)

// webhooks is the way to the webhooks.
var webhooks = &way{}

// way leads connections on, unless it is interrupted.
type way struct {
	to string

	mutex       sync.Mutex
	interrupted bool
	open        []net.Conn
}

// interrupt cuts all connections and refuses new ones, or takes them again.
func (w *way) interrupt(interrupted bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.interrupted = interrupted
	for _, connection := range w.open {
		_ = connection.Close()
	}
	w.open = nil
}

// serve takes connections until the process ends.
func (w *way) serve(listener net.Listener) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		if !w.keep(from, to) {
			_, _ = from.Close(), to.Close()
			continue
		}
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	}
}

func (w *way) keep(both ...net.Conn) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.interrupted {
		return false
	}
	w.open = append(w.open, both...)
	return true
}

// serve runs the webhooks until the process ends, as the shipped identity with the shipped rights.
func serve(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "../../../config/rbac", "../../../config/webhook/service.yaml"); err != nil {
		return err
	}
	token, err := c.Token(ctx, systemNamespace, controllerAccount, "", nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // they outlive the set-up
	mgr, err := newManager(ctx, c.Bearer(token), address)
	if err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the webhooks ended:", err)
			os.Exit(1)
		}
	}()
	webhooks.to = net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port))
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go webhooks.serve(relay)
	return c.Route(webhookService, relay.Addr().String())
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
	keeper, err := certs.NewKeeper(clock.RealClock{}, live, certs.Options{Namespace: systemNamespace, Configurations: []string{policies.CreatorRecord}})
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
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: address.Port, TLSOpts: []func(*tls.Config){keeper.Configure}})
	// Tests give rights and use them at once, so no refusal is remembered.
	creator.New(authz.New(clock.RealClock{}, reviews.AuthorizationV1().SubjectAccessReviews(), authz.WithTTL(time.Second, 0))).Register(server)
	return mgr, mgr.Add(server)
}
