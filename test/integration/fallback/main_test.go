// Package fallback tests that everything rests on the creator record just as well where webhooks write it: an API server
// that knows no mutating policies, what config/ ships with the component creator-webhook, and the whole controller.
package fallback

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/cmd/controller/app"
	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/controller"
	"github.com/AlaudaDevops/countersign/test/env/shipped"
)

const (
	systemNamespace = "countersign-system"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

var (
	// cluster is shared by all tests.
	cluster *env.Cluster
	// metrics is where the controller tells whether it is guarded.
	metrics string
	scheme  = app.Scheme()
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	const kind = "admissionregistration.k8s.io/v1/mutatingadmissionpolic"
	env.Main(m, &cluster, env.WithSetup(install), env.WithCRDs("../testdata/foreign-kinds.yaml"),
		env.WithAPIServerArgs("--disable-admission-plugins=MutatingAdmissionPolicy", "--runtime-config="+kind+"ies=false,"+kind+"ybindings=false"))
}

// install applies what is shipped, runs the controller in this process, and returns when checks can be made and creators
// are believed. Until webhooks are served none of our kinds can be created.
func install(ctx context.Context, c *env.Cluster) error {
	manifests, err := shipped.Build("../../../config", func(kind, _ string) bool {
		return kind == "Deployment" || kind == "CheckKind"
	}, "creator-webhook")
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, c.Admin(), manifests); err != nil {
		return err
	}
	options, err := controller.Start(ctx, c, configure)
	if err != nil {
		return err
	}
	metrics = "http://" + options.MetricsAddress + "/metrics"
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		return c.ApplyFiles(ctx, c.Admin(), "../../../config/controller/checkkinds.yaml") == nil && kindReady(ctx, admin) && believed(ctx, admin, time.Time{}) == nil, nil
	})
}

// configure gives the controller a directory that knows Alice, and tells it what the component tells its Deployment.
func configure(dir string, o *app.Options) error {
	o.CreatorRecord, o.DirectoryFile = policies.CreatorRecordWebhook, filepath.Join(dir, "directory.yaml")
	people := filepath.Join(dir, "people.yaml")
	if err := os.WriteFile(o.DirectoryFile, fmt.Appendf(nil, "{type: static, static: {path: %q}}", people), 0o600); err != nil {
		return err
	}
	return os.WriteFile(people, []byte("people: [{username: "+alice+", uid: p-1, displayName: Alice}]"), 0o600)
}

func kindReady(ctx context.Context, admin client.Client) bool {
	var kind approvalv1alpha1.CheckKind
	err := admin.Get(ctx, client.ObjectKey{Name: "attributioncheck.approval.alaudadevops.io"}, &kind)
	return err == nil && apimeta.IsStatusConditionTrue(kind.Status.Conditions, approvalv1alpha1.ConditionReady)
}

// believed tells that the epoch began after a moment, and that what is created from now on has a creator that is believed:
// times have the precision of a second. A probe shows that the webhooks act.
func believed(ctx context.Context, admin client.Client, after time.Time) error {
	var epoch corev1.ConfigMap
	if err := admin.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "countersign-epoch"}, &epoch); err != nil {
		return err
	}
	since, err := time.Parse(time.RFC3339, epoch.Data["since"])
	if err != nil || !since.After(after) || !time.Now().Truncate(time.Second).After(since) {
		return fmt.Errorf("creators are believed since %q", epoch.Data["since"])
	}
	probe := &releasev1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "probe"}}
	if err := admin.Create(ctx, probe, client.DryRunAll); err != nil {
		return err
	}
	if probe.Annotations[approvalv1alpha1.AnnotationCreatedBy] == "" {
		return fmt.Errorf("creators are not recorded yet")
	}
	return nil
}
