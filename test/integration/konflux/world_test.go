package konflux

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

const (
	alice = "alice@example.com"
	bob   = "bob@example.com"
	// gone is nobody whom the directory knows.
	gone = "gone@example.com"
	// releaseService writes the statuses of Releases and their plans.
	releaseService = "system:serviceaccount:release-service:release-service-controller-manager"
)

type (
	aRelease = *releasev1alpha1.Release
	aPlan    = *releasev1alpha1.ReleasePlan
)

// world is a tenant's namespace, in which everybody with a name may release, and Konflux writes statuses.
type world struct {
	t      testing.TB
	tenant string
	admin  client.Client
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, tenant: cluster.Namespace(t), admin: as(t, cluster.Admin())}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "konflux"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"appstudio.redhat.com"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}}
	require.NoError(t, w.admin.Create(t.Context(), role))
	w.bind("ClusterRole", "countersign-release-manager", rbacv1.GroupKind, "system:authenticated")
	w.bind("Role", role.Name, rbacv1.UserKind, releaseService)
	w.create(w.admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: integrationNamespace}})
	w.create(w.admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: integrationNamespace, Name: integrationAccount}})
	w.create(w.admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "robot"}})
	return w
}

func (w *world) bind(kind, role, subjectKind, subject string) {
	w.t.Helper()
	require.NoError(w.t, w.admin.Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, GenerateName: "binding-"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: subjectKind, Name: subject}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
	}))
}

func (w *world) robot() string { return "system:serviceaccount:" + w.tenant + ":robot" }

func as(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// user acts under the name, whatever it is.
func (w *world) user(name string) client.Client {
	w.t.Helper()
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	return as(w.t, config)
}

// create makes an object, unless it is there already, as soon as the rights count.
func (w *world) create(by client.Client, object client.Object) {
	w.t.Helper()
	eventually(w.t, func(ctx context.Context) error { return client.IgnoreAlreadyExists(by.Create(ctx, object)) })
}

func (w *world) plan(name string, edits ...func(client.Object)) aPlan {
	plan := &releasev1alpha1.ReleasePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: "managed"},
	}
	for _, edit := range edits {
		edit(plan)
	}
	return plan
}

func (w *world) release(name string, edits ...func(client.Object)) aRelease {
	release := &releasev1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       releasev1alpha1.ReleaseSpec{Snapshot: "shop-abc", ReleasePlan: "plan"},
	}
	for _, edit := range edits {
		edit(release)
	}
	return release
}

// asking has a plan ask for somebody to stand for it, and automated tells that a program makes the Release.
func asking(o client.Object) { o.GetLabels()[words.StandingLabel] = "true" }

func automated(o client.Object) { o.GetLabels()[words.AutomatedLabel] = "true" }

func annotated(name, value string) func(client.Object) {
	return func(o client.Object) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[name] = value
		o.SetAnnotations(annotations)
	}
}

// check is the one attribution check of the tenant, once it is decided.
func (w *world) check() *approvalv1alpha1.AttributionCheck {
	w.t.Helper()
	var list approvalv1alpha1.AttributionCheckList
	eventually(w.t, func(ctx context.Context) error {
		if err := w.admin.List(ctx, &list, client.InNamespace(w.tenant)); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.State == "pending" {
			return fmt.Errorf("there are %d checks, and one should be decided: %+v", len(list.Items), list.Items)
		}
		return nil
	})
	return &list.Items[0]
}

// tells waits for an event about the object that begins so.
func (w *world) tells(object client.Object, begins string) {
	w.t.Helper()
	eventually(w.t, func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := w.admin.List(ctx, &list, client.InNamespace(w.tenant)); err != nil {
			return err
		}
		var notes []string
		for i := range list.Items {
			note := list.Items[i].Type + " " + list.Items[i].Reason + ": " + list.Items[i].Note
			if notes = append(notes, note); list.Items[i].Regarding.UID == object.GetUID() && strings.HasPrefix(note, begins) {
				return nil
			}
		}
		return fmt.Errorf("there is no such event among %q", notes)
	})
}

// leftAlone asserts that the status is Konflux' own, and nothing is run.
func (w *world) leftAlone(release aRelease) {
	w.t.Helper()
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(release), release))
	assert.Empty(w.t, release.Status)
	runs := &metav1.PartialObjectMetadataList{}
	runs.SetGroupVersionKind(runKind)
	require.NoError(w.t, w.admin.List(w.t.Context(), runs))
	assert.Empty(w.t, runs.Items)
}

// withoutWebhooks takes ours away for the time of the test.
func (w *world) withoutWebhooks() {
	w.t.Helper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	key := client.ObjectKey{Name: "countersign"}
	require.NoError(w.t, w.admin.Get(w.t.Context(), key, mutating))
	require.NoError(w.t, w.admin.Get(w.t.Context(), key, validating))
	probed := func(wantAuthor bool) func(context.Context) error {
		return func(ctx context.Context) error {
			if (authorOfProbe(ctx, w.admin) != "") != wantAuthor {
				return errors.New("the webhooks are not yet as they should be")
			}
			return nil
		}
	}
	for _, configuration := range []client.Object{mutating, validating} {
		require.NoError(w.t, w.admin.Delete(w.t.Context(), configuration))
		configuration.SetResourceVersion("")
		configuration.SetUID("")
	}
	w.t.Cleanup(func() {
		assert.NoError(w.t, w.admin.Create(context.Background(), mutating))
		assert.NoError(w.t, w.admin.Create(context.Background(), validating))
		eventually(w.t, probed(true))
	})
	eventually(w.t, probed(false))
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
