// Package release tests the admission of Releases and ReleasePlans against a real API server, which calls the webhooks as
// shipped: through their Service, with the certificate that they made themselves, and with the rights of the controller's
// service account.
package release

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
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
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/certs"
	"github.com/AlaudaDevops/countersign/pkg/webhook/release"
	"github.com/AlaudaDevops/countersign/pkg/webhook/releaseplan"
	"github.com/AlaudaDevops/countersign/test/env"
)

const (
	systemNamespace   = "countersign-system"
	controllerAccount = "countersign-controller"
	controllerUser    = "system:serviceaccount:countersign-system:countersign-controller"
	// integration is the one service account that may make automated Releases.
	integration = "system:serviceaccount:integration-service:controller"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

// cluster is shared by all tests.
var cluster *env.Cluster

var scheme = newScheme()

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	env.Main(m, &cluster, env.WithCRDs("../../../config/crd/bases", "../../../config/crd/release"), env.WithSetup(install))
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, approvalv1alpha1.AddToScheme, releasev1alpha1.AddToScheme} {
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
	reviews, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: "127.0.0.1", Port: address.Port, TLSOpts: []func(*tls.Config){keeper.Configure}})
	// Refusals are not remembered: tests give rights and use them at once.
	dispatch(server, live, authz.New(clock.RealClock{}, reviews.AuthorizationV1().SubjectAccessReviews(), authz.WithTTL(time.Second, 0)))
	return mgr, mgr.Add(server)
}

// worlds holds the vocabulary of namespaces that have another than the default one.
var worlds sync.Map

// paths keeps what a webhook registers.
type paths struct {
	ctrlwebhook.Server
	handlers map[string]admission.Handler
}

func (p *paths) Register(path string, hook http.Handler) {
	p.handlers[path] = hook.(*admission.Webhook).Handler
}

// dispatch serves the webhooks once for each vocabulary, by namespace.
func dispatch(server ctrlwebhook.Server, live client.Client, access release.Access) {
	byVocabulary := map[string]*paths{}
	for _, vocabulary := range attribution.Vocabularies() {
		p := &paths{handlers: map[string]admission.Handler{}}
		release.New(release.Deps{Live: live, Access: access, Vocabulary: vocabulary, Automated: sets.New(integration)}).Register(p)
		releaseplan.New(releaseplan.Deps{Clock: clock.RealClock{}, Vocabulary: vocabulary}).Register(p)
		byVocabulary[vocabulary.Name] = p
	}
	for _, path := range []string{release.MutatePath, release.ValidatePath, releaseplan.MutatePath, releaseplan.ValidatePath} {
		server.Register(path, &admission.Webhook{Handler: admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
			name, found := worlds.Load(req.Namespace)
			if !found {
				name = attribution.VocabularyRHTAP
			}
			return byVocabulary[name.(string)].handlers[path].Handle(ctx, req)
		})})
	}
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
		made := &releasev1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: systemNamespace}}
		err := admin.Create(ctx, made, client.DryRunAll)
		return err == nil && made.Annotations[approvalv1alpha1.AnnotationAuthor] != "", nil
	})
}
