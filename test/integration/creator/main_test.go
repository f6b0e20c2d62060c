// Package creator tests who is recorded to have created and changed objects. Each test runs twice, on a real API server
// that writes the record by its policies, and on one that has no mutating policies and asks the controller's webhooks.
// Everything is installed as shipped, with the one line in a kustomization that chooses between the two.
package creator

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/shipped"
)

const (
	systemNamespace = "countersign-system"
	controllerUser  = "system:serviceaccount:countersign-system:countersign-controller"
	proxyUser       = "system:serviceaccount:countersign-system:countersign-proxy"
	tenants         = "tenants"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

// plane is an API server that keeps creator records in one of the two ways.
type plane struct {
	*env.Cluster
	name      string
	byWebhook bool
	// webhooks is the way to the webhooks, if there are any.
	webhooks *way
}

// planes are shared by all tests.
var planes = []*plane{{name: "policy"}, {name: "webhook", byWebhook: true}}

var scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var starts errgroup.Group
	for _, p := range planes {
		starts.Go(func() error { return p.start(ctx) })
		defer func() {
			if p.Cluster == nil {
				return
			}
			if err := p.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}()
	}
	if err := starts.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// crds are stand-ins for those of others. Ours are installed with everything else.
var crds = []string{"../testdata/foreign-kinds.yaml", "testdata/plain.yaml"}

// start starts the API server; that of the webhooks knows no mutating policies.
func (p *plane) start(ctx context.Context) (err error) {
	options := []env.Option{env.WithCRDs(crds...)}
	if p.byWebhook {
		const kind = "admissionregistration.k8s.io/v1/mutatingadmissionpolic"
		options = append(options, env.WithSetup(p.serve),
			env.WithAPIServerArgs("--disable-admission-plugins=MutatingAdmissionPolicy", "--runtime-config="+kind+"ies=false,"+kind+"ybindings=false"))
	}
	options = append(options, env.WithSetup(installed(p.components()...)))
	p.Cluster, err = env.Start(ctx, options...)
	return err
}

// each runs a test on both planes.
func each(t *testing.T, test func(t *testing.T, p *plane)) {
	t.Helper()
	for _, p := range planes {
		t.Run(p.name, func(t *testing.T) { test(t, p) })
	}
}

// installed applies what config/ ships, with a component, and returns when the API server acts on all of it.
func installed(components ...string) func(context.Context, *env.Cluster) error {
	return func(ctx context.Context, c *env.Cluster) error {
		manifests, err := built(components...)
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, c.Admin(), manifests); err != nil {
			return err
		}
		return acts(ctx, c)
	}
}

// built is what `kubectl apply -k` would send, without what would run in pods, and without the webhooks that are not
// about creators: nobody serves them here.
func built(components ...string) (string, error) {
	return shipped.Build("../../../config", func(kind, name string) bool {
		return kind == "Deployment" || name == "countersign" && strings.HasSuffix(kind, "WebhookConfiguration")
	}, components...)
}

// acts waits for a policy that is installed after ours and so is seen after them, and for records of all kinds that
// the tests use: the API server takes up schemas of new kinds once in a few seconds, and refuses until then.
func acts(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "testdata/tenants.yaml"); err != nil {
		return err
	}
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		err := admin.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-policy", Namespace: systemNamespace}}, client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			return false, nil
		}
		for name, object := range kinds(metav1.NamespaceDefault, "ready") {
			if err := admin.Create(ctx, object, client.DryRunAll); err != nil || record(object)["created-by"] == "" {
				return false, refusal(name, err)
			}
		}
		return true, nil
	})
}

// refusal is an error that waiting does not mend.
func refusal(name string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// namespace is a fresh one in which tenants, and callers whom nobody knows, may do everything.
func (p *plane) namespace(t *testing.T) string {
	t.Helper()
	namespace := p.Namespace(t)
	require.NoError(t, p.admin(t).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tenants},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "everything"},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: tenants},
			{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:anonymous"},
		},
	}))
	return namespace
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

func (p *plane) admin(t *testing.T) client.Client { return clientOf(t, p.Admin()) }

// anonymous is nobody. What kinds there are he may not ask.
func (p *plane) anonymous(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(p.Anonymous(), client.Options{Scheme: scheme, Mapper: p.admin(t).RESTMapper()})
	require.NoError(t, err)
	return c
}

// user is a tenant of that name. The administrator impersonates him, because only so a user can have any name.
func (p *plane) user(t *testing.T, name string, groups ...string) client.Client {
	t.Helper()
	return clientOf(t, p.acting(name, append(groups, tenants)...))
}

func (p *plane) acting(name string, groups ...string) *rest.Config {
	config := p.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:authenticated")}
	return config
}

// holder is a user with a cluster-wide right on creators.
func (p *plane) holder(t *testing.T, name, role string) client.Client {
	t.Helper()
	admin := p.admin(t)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "holder-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), binding)) })
	return p.user(t, name)
}

// reread returns the object as it is stored, with its kind.
func reread[T client.Object](t *testing.T, p *plane, object T) T {
	t.Helper()
	stored := object.DeepCopyObject().(T)
	require.NoError(t, p.admin(t).Get(t.Context(), client.ObjectKeyFromObject(object), stored))
	kind, err := apiutil.GVKForObject(stored, scheme)
	require.NoError(t, err)
	stored.GetObjectKind().SetGroupVersionKind(kind)
	return stored
}

// eventually waits until the condition returns no error.
func eventually(t *testing.T, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last error
	if err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("waited in vain: %v", last)
	}
}
