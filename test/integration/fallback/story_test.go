package fallback

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

const (
	alice = "alice@example.com"
	robot = "system:serviceaccount:ci:bot"
)

// forged is a record that somebody else made everything.
func forged(name string) map[string]string {
	return map[string]string{
		approvalv1alpha1.AnnotationCreatedBy: name, approvalv1alpha1.AnnotationChangedBy: name, approvalv1alpha1.AnnotationAuthor: name,
	}
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// trusted is a user who may do everything, so that only attribution can be in his way.
func trusted(t *testing.T, user string) client.Client {
	t.Helper()
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters", "system:authenticated"}}
	return clientOf(t, config)
}

func eventually(t *testing.T, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		if now := condition(ctx); ctx.Err() == nil {
			last = now
		}
		return last == nil, nil
	})
	require.NoError(t, err, "at last: %v", last)
}

// world is a namespace with a connector that only known people's runs may use.
type world struct {
	t         *testing.T
	admin     client.Client
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t, clientOf(t, cluster.Admin()), cluster.Namespace(t)}
	require.NoError(t, w.admin.Create(t.Context(), &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "harbor"},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "oci", Address: "https://harbor.example.com"},
	}))
	require.NoError(t, w.admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "users"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"connectors.alaudadevops.io"}, Resources: []string{"connectors/apis"}, Verbs: []string{"read", "write"}}},
	}))
	require.NoError(t, w.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "users"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "users"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + w.namespace}},
	}))
	w.rule()
	return w
}

// rule lets the connector be used only for what a person stands behind.
func (w *world) rule() {
	w.t.Helper()
	require.NoError(w.t, w.admin.Create(w.t.Context(), &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "accountable"},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: w.harbor(),
			CheckTemplate: approvalv1alpha1.CheckTemplate{
				APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "AttributionCheck", Spec: runtime.RawExtension{Raw: []byte(`{}`)},
			},
		},
	}))
}

func (w *world) harbor() approvalv1alpha1.ObjectReference {
	return approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Name: "harbor"}
}

// job is one that never runs.
func (w *world) job(name string) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "example.com/image"}},
		}}},
	}
}

func (w *world) pipelineRun(name string) *unstructured.Unstructured {
	run := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	run.SetAPIVersion("tekton.dev/v1")
	run.SetKind("PipelineRun")
	run.SetNamespace(w.namespace)
	run.SetName(name)
	return run
}

// askFor makes a run as the user, and asks for the connector for it.
func (w *world) askFor(user string, run client.Object) *approvalv1alpha1.ResourceCheckRequest {
	w.t.Helper()
	kind := run.GetObjectKind().GroupVersionKind()
	require.NoError(w.t, trusted(w.t, user).Create(w.t.Context(), run))
	request := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "rcr-"},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: w.harbor(), Reason: "push",
			Context: approvalv1alpha1.RequestContext{Resource: &approvalv1alpha1.ObjectReference{
				APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: run.GetName(),
			}},
		},
	}
	require.NoError(w.t, trusted(w.t, user).Create(w.t.Context(), request))
	return request
}

// answered waits until the request's one AttributionCheck has the state and the reason.
func (w *world) answered(request *approvalv1alpha1.ResourceCheckRequest, state duckv1alpha1.CheckState, reason string) approvalv1alpha1.AttributionCheckStatus {
	w.t.Helper()
	var checks approvalv1alpha1.AttributionCheckList
	eventually(w.t, func(ctx context.Context) error {
		err := w.admin.List(ctx, &checks, client.InNamespace(w.namespace), client.MatchingLabels{approvalv1alpha1.LabelRequestUID: string(request.UID)})
		if err != nil {
			return err
		}
		if len(checks.Items) != 1 {
			return fmt.Errorf("there are %d checks", len(checks.Items))
		}
		if status := checks.Items[0].Status; status.State != state || status.Reason != reason {
			return fmt.Errorf("the check is %s (%s): %s", status.State, status.Reason, status.Message)
		}
		return nil
	})
	return checks.Items[0].Status
}

func TestAPersonsRunIsBelievedToBeHis(t *testing.T) {
	w := newWorld(t)
	for _, run := range []client.Object{w.job("build"), w.pipelineRun("build")} {
		status := w.answered(w.askFor(alice, run), duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
		assert.Equal(t, alice, status.Author.Username)
		assert.True(t, status.Verified)
	}
}

func TestS1_ARobotsRunIsNobodyElses(t *testing.T) {
	w := newWorld(t)
	for _, run := range []client.Object{w.job("nightly"), w.pipelineRun("nightly")} {
		run.SetAnnotations(forged(alice))
		status := w.answered(w.askFor(robot, run), duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonOnlyRobot)
		assert.Contains(t, status.Message, "only the robot "+robot+" stands behind")
	}
}

func TestS1_AReleaseIsWhosMadeIt(t *testing.T) {
	w := newWorld(t)
	release := &releasev1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "rel-1", Annotations: forged("mallory@example.com")},
		Spec:       releasev1alpha1.ReleaseSpec{ReleasePlan: "to-prod", Snapshot: "shop-1"},
	}
	require.NoError(t, trusted(t, alice).Create(t.Context(), release))
	again := client.MergeFrom(release.DeepCopy())
	for key, value := range forged("mallory@example.com") {
		release.Annotations[key] = value
	}
	require.NoError(t, trusted(t, "mallory@example.com").Patch(t.Context(), release, again))
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(release), release))
	for key := range forged("") {
		assert.Equal(t, alice, release.Annotations[key], key)
	}
	assert.Equal(t, attribution.LabelValue(alice), release.Labels["release.rhtap.openshift.io/author"])
}

// guarded waits until the controller says that it is, or is not.
func guarded(t *testing.T, want string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, metrics, http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil || !strings.Contains(string(text), "\ncountersign_guarded "+want+"\n") {
			return fmt.Errorf("countersign_guarded is not %s: %w", want, err)
		}
		return nil
	})
}

func TestS5_WithoutTheWebhooksNothingIsBelieved(t *testing.T) {
	w := newWorld(t)
	guarded(t, "1")
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: policies.CreatorRecord}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: policies.CreatorRecord}}
	for _, configuration := range []client.Object{mutating, validating} {
		require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration))
		require.NoError(t, w.admin.Delete(t.Context(), configuration))
		configuration.SetResourceVersion("")
		configuration.SetUID("")
		configuration.SetManagedFields(nil)
	}
	restored := false
	restore := func() {
		for _, configuration := range []client.Object{mutating, validating} {
			require.NoError(t, w.admin.Create(context.Background(), configuration))
		}
		restored = true
	}
	t.Cleanup(func() {
		if !restored {
			restore()
		}
	})
	guarded(t, "0")

	run := w.job("forged")
	eventually(t, func(ctx context.Context) error { // the API server forgets them on its own time
		probe := w.job("probe")
		probe.SetAnnotations(forged(alice))
		if err := trusted(t, robot).Create(ctx, probe, client.DryRunAll); err != nil || probe.Annotations[approvalv1alpha1.AnnotationCreatedBy] != alice {
			return fmt.Errorf("the webhooks still act: %w", err)
		}
		return nil
	})
	run.SetAnnotations(forged(alice))
	request := w.askFor(robot, run)
	require.Equal(t, alice, run.Annotations[approvalv1alpha1.AnnotationCreatedBy], "the forgery stands")
	eventually(t, func(ctx context.Context) error {
		var kind approvalv1alpha1.CheckKind
		if err := w.admin.Get(ctx, client.ObjectKey{Name: "attributioncheck.approval.alaudadevops.io"}, &kind); err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(kind.Status.Conditions, approvalv1alpha1.ConditionReady)
		if ready == nil || ready.Reason != approvalv1alpha1.ReasonStatusUnguarded || !strings.Contains(ready.Message, "WebhookConfiguration countersign-creator-record is missing") {
			return fmt.Errorf("the kind says %+v", ready)
		}
		return nil
	})
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(request), request))
	assert.False(t, apimeta.IsStatusConditionTrue(request.Status.Conditions, approvalv1alpha1.ConditionReady), "nothing is granted meanwhile")

	gap := time.Now().Truncate(time.Second)
	restore()
	guarded(t, "1")
	eventually(t, func(ctx context.Context) error { return believed(ctx, w.admin, gap.Add(-time.Second)) })
	status := w.answered(request, duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonNoAuthor)
	assert.NotContains(t, status.Message, alice, "what was forged in the gap is not believed afterwards")
	w.answered(w.askFor(alice, w.job("after")), duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed)
}
