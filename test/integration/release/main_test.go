// Package release tests the admission of Releases and ReleasePlans against a real API server, which calls the webhooks as
// shipped: through their Service, with the certificate that they made themselves, and with the rights of the controller's
// service account.
package release

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/webhook/release"
	"github.com/AlaudaDevops/countersign/pkg/webhook/releaseplan"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/hooks"
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
	address, err := hooks.Serve(ctx, c, hooks.Options{Scheme: scheme, Register: dispatch})
	if err != nil {
		return err
	}
	if err := c.Route(hooks.Service, address); err != nil {
		return err
	}
	return answered(ctx, c)
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
func dispatch(_ context.Context, server *hooks.Server) error {
	byVocabulary := map[string]*paths{}
	for _, vocabulary := range attribution.Vocabularies() {
		p := &paths{handlers: map[string]admission.Handler{}}
		release.New(release.Deps{Live: server.Live, Access: server.Access, Vocabulary: vocabulary, Automated: sets.New(integration)}).Register(p)
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
	return nil
}

// answered waits until policies and webhooks act.
func answered(ctx context.Context, c *env.Cluster) error {
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		if !hooks.PoliciesAct(ctx, admin) {
			return false, nil
		}
		made := &releasev1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: systemNamespace}}
		err := admin.Create(ctx, made, client.DryRunAll)
		return err == nil && made.Annotations[approvalv1alpha1.AnnotationAuthor] != "", nil
	})
}
