// Package attribution tests who is found accountable, with the whole controller as it is shipped: its webhooks, its
// policies, its rights, a real API server, and a directory that can be made to know, forget and fall silent.
package attribution

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/cmd/controller/app"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/controller"
)

const (
	systemNamespace = "countersign-system"
	controllerUser  = "system:serviceaccount:countersign-system:countersign-controller"
	// integration is the one service account that may make automated Releases.
	integration = "system:serviceaccount:integration-service:controller"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

var (
	// cluster and staff are shared by all tests.
	cluster *env.Cluster
	staff   = newService()
	scheme  = newScheme()
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	env.Main(m, &cluster, env.WithSetup(install), env.WithCRDs(
		"../../../config/crd/bases", "../../../config/crd/release", "../testdata/foreign-kinds.yaml", "testdata/pipelines.yaml"))
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme, releasev1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// install applies what config/ ships, runs the controller in this process, and returns when checks can be made and
// creators are believed.
func install(ctx context.Context, c *env.Cluster) error {
	if err := c.ApplyFiles(ctx, c.Admin(), "../../../config/rbac", "../../../config/roles", "../../../config/policies",
		"../../../config/webhook/service.yaml", "../../../config/webhook/manifests.yaml"); err != nil {
		return err
	}
	if _, err := controller.Start(ctx, c, configure); err != nil {
		return err
	}
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	for _, condition := range []wait.ConditionWithContextFunc{
		func(ctx context.Context) (bool, error) {
			return c.ApplyFiles(ctx, c.Admin(), "../../../config/controller/checkkinds.yaml") == nil, nil
		},
		func(ctx context.Context) (bool, error) { return kindReady(ctx, admin), nil },
		func(ctx context.Context) (bool, error) { return epochBegan(ctx, admin), nil },
	} {
		if err := wait.PollUntilContextCancel(ctx, tick, true, condition); err != nil {
			return err
		}
	}
	return nil
}

// configure gives the controller its directory.
func configure(dir string, o *app.Options) error {
	o.DirectoryFile, o.AutomatedAccounts = filepath.Join(dir, "directory.yaml"), []string{integration}
	return staff.start(dir, o.DirectoryFile)
}

func kindReady(ctx context.Context, admin client.Client) bool {
	var kind approvalv1alpha1.CheckKind
	err := admin.Get(ctx, client.ObjectKey{Name: "attributioncheck.approval.alaudadevops.io"}, &kind)
	return err == nil && apimeta.IsStatusConditionTrue(kind.Status.Conditions, approvalv1alpha1.ConditionReady)
}

// epochBegan tells that what is created from now on has a creator that is believed: times have the precision of a second.
// Probes show that webhooks and policies act.
func epochBegan(ctx context.Context, admin client.Client) bool {
	var epoch corev1.ConfigMap
	if admin.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "countersign-epoch"}, &epoch) != nil {
		return false
	}
	since, err := time.Parse(time.RFC3339, epoch.Data["since"])
	if err != nil || !time.Now().Truncate(time.Second).After(since) {
		return false
	}
	probe := &releasev1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "probe"}}
	return admin.Create(ctx, probe, client.DryRunAll) == nil && probe.Annotations[approvalv1alpha1.AnnotationCreatedBy] != ""
}
