// Package integration tests the product against a real API server and controller manager, which all tests of the
// package share. The admission policies, the roles and the CRDs are installed as shipped.
package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/env"
)

const (
	systemNamespace = "countersign-system"
	controllerUser  = "system:serviceaccount:countersign-system:countersign-controller"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

// cluster is shared by all tests.
var cluster *env.Cluster

// scheme knows the built-in kinds and ours.
var scheme = newScheme()

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	env.Main(m, &cluster, env.WithCRDs(crds...), env.WithSetup(install))
}

// crds are ours, and stand-ins for those of others.
var crds = []string{"../../config/crd/bases", "testdata/foreign-kinds.yaml"}

// install applies what config/ ships, and returns when the API server acts on all of it.
func install(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "../../config/rbac", "../../config/roles", "../../config/controller/checkkinds.yaml", "../../config/policies"); err != nil {
		return err
	}
	return policiesAct(ctx, c)
}

// policiesAct waits for policies that are installed after ours and so are seen after them: the API server takes
// policies up from a watch, in order, once a second.
func policiesAct(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "testdata/last-policies.yaml"); err != nil {
		return err
	}
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		marked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-policies-mutate", Namespace: systemNamespace}}
		if err := admin.Create(ctx, marked, client.DryRunAll); err != nil || marked.Data["seen"] == "" {
			return false, ignoreForbidden(err)
		}
		refused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last-policies-refuse", Namespace: systemNamespace}}
		err := admin.Create(ctx, refused, client.DryRunAll)
		if err == nil || !apierrors.IsInvalid(err) {
			return false, ignoreForbidden(err)
		}
		return schemasKnown(ctx, admin)
	})
}

// schemasKnown is true when mutating policies can act on our kinds: the API server looks for schemas of new groups
// every five seconds, and refuses until then.
func schemasKnown(ctx context.Context, admin client.Client) (bool, error) {
	for _, object := range []client.Object{
		&connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Name: "schema", Namespace: systemNamespace},
			Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: "https://tool.example.com"}},
		approvalRequest(systemNamespace, "schema"),
		foreign("tekton.dev/v1", "TaskRun", systemNamespace, "schema"),
		foreign("tekton.dev/v1beta1", "CustomRun", systemNamespace, "schema"),
	} {
		err := admin.Create(ctx, object, client.DryRunAll)
		if apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("a %T is refused: %w", object, err)
		}
	}
	return true, nil
}

// ignoreForbidden lets the start wait while the admission plugins themselves are not ready.
func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// as returns a client of whoever the configuration authenticates.
func as(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// impersonate returns a client of the user, whatever the name, in these groups.
func impersonate(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return as(t, config)
}

// eventually waits until the condition returns no error.
func eventually(t testing.TB, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waited in vain: %v", last)
	}
}
