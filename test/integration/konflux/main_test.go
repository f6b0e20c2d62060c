// Package konflux tests Countersign beside Konflux: config/konflux as it is built and applied, on an API server whose Release
// kinds are another product's. The tests play the controllers of Konflux.
package konflux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/cmd/controller/app"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/controller"
	"github.com/AlaudaDevops/countersign/test/env/hooks"
)

const (
	systemNamespace = "countersign-system"
	// integration makes automated Releases, as config/konflux has it.
	integrationNamespace = "integration-service"
	integrationAccount   = "integration-service-controller-manager"
	integration          = "system:serviceaccount:integration-service:integration-service-controller-manager"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

var (
	// cluster is shared by all tests.
	cluster *env.Cluster
	scheme  = app.Scheme()
	// words are those of config/konflux.
	words = vocabulary()
)

func vocabulary() attribution.Vocabulary {
	words, err := attribution.LookupVocabulary(attribution.VocabularyAppStudio)
	if err != nil {
		panic(err)
	}
	return words
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	env.Main(m, &cluster, env.WithCRDs("testdata/konflux-crds.yaml", "../testdata/foreign-kinds.yaml"), env.WithSetup(install))
}

// install applies config/konflux. Its CheckKinds go last, because the webhooks are asked about them.
func install(ctx context.Context, c *env.Cluster) error {
	built, err := exec.CommandContext(ctx, "../../../bin/kubectl", "kustomize", "../../../config/konflux").Output()
	if err != nil {
		return err
	}
	var first []string
	var args []string
	for _, document := range strings.Split(string(built), "\n---\n") {
		if strings.Contains(document, "\nkind: CheckKind\n") {
			continue
		}
		first = append(first, document)
		if strings.Contains(document, "\nkind: Deployment\n") && strings.Contains(document, "\n  name: countersign-controller\n") {
			if args, err = argsOf(document); err != nil {
				return err
			}
		}
	}
	if err := c.Apply(ctx, c.Admin(), first...); err != nil {
		return err
	}
	if err := c.ApplyFiles(ctx, c.Admin(), "../testdata/last-policies.yaml"); err != nil {
		return err
	}
	if _, err := controller.Start(ctx, c, func(dir string, o *app.Options) error { return configure(dir, o, args) }); err != nil {
		return err
	}
	return ready(ctx, c, string(built))
}

// argsOf are the controller's as they are deployed.
func argsOf(document string) ([]string, error) {
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict([]byte(document), &deployment); err != nil {
		return nil, err
	}
	return deployment.Spec.Template.Spec.Containers[0].Args, nil
}

// configure gives the controller the arguments that are deployed, but for where it listens, and people.
func configure(dir string, o *app.Options, args []string) error {
	here := *o
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.WebhookPort, o.HealthAddress, o.MetricsAddress = here.WebhookPort, here.HealthAddress, here.MetricsAddress
	people := filepath.Join(dir, "people.yaml")
	o.DirectoryFile = filepath.Join(dir, "directory.yaml")
	if err := os.WriteFile(people, []byte("people:\n  - username: "+alice+"\n  - username: "+bob+"\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(o.DirectoryFile, fmt.Appendf(nil, "type: static\nstatic: {path: %q}\n", people), 0o600)
}

// ready applies all that was built, and returns when webhooks, policies and the kind of the check act.
func ready(ctx context.Context, c *env.Cluster, built string) error {
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	for _, condition := range []wait.ConditionWithContextFunc{
		func(ctx context.Context) (bool, error) { return c.Apply(ctx, c.Admin(), built) == nil, nil },
		func(ctx context.Context) (bool, error) { return hooks.PoliciesAct(ctx, admin), nil },
		func(ctx context.Context) (bool, error) { return kindReady(ctx, admin), nil },
		func(ctx context.Context) (bool, error) { return epochBegan(ctx, admin), nil },
	} {
		if err := wait.PollUntilContextCancel(ctx, tick, true, condition); err != nil {
			return err
		}
	}
	return nil
}

func kindReady(ctx context.Context, admin client.Client) bool {
	var kind approvalv1alpha1.CheckKind
	err := admin.Get(ctx, client.ObjectKey{Name: "attributioncheck.approval.alaudadevops.io"}, &kind)
	return err == nil && apimeta.IsStatusConditionTrue(kind.Status.Conditions, approvalv1alpha1.ConditionReady)
}

// epochBegan tells that what is created from now on has a creator that is believed: times have the precision of a second.
func epochBegan(ctx context.Context, admin client.Client) bool {
	var epoch corev1.ConfigMap
	if admin.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "countersign-epoch"}, &epoch) != nil {
		return false
	}
	since, err := time.Parse(time.RFC3339, epoch.Data["since"])
	if err != nil || !time.Now().Truncate(time.Second).After(since) {
		return false
	}
	return authorOfProbe(ctx, admin) != ""
}

// authorOfProbe is the author that a new Release of the administrator's gets; empty without webhooks.
func authorOfProbe(ctx context.Context, admin client.Client) string {
	probe := &releasev1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "probe"},
		Spec:       releasev1alpha1.ReleaseSpec{Snapshot: "snapshot", ReleasePlan: "plan"},
	}
	if err := admin.Create(ctx, probe, client.DryRunAll); err != nil {
		return ""
	}
	return probe.Annotations[approvalv1alpha1.AnnotationAuthor]
}
