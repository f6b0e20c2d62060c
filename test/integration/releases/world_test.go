package releases

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

var words = attribution.Default()

// world is a tenant's namespace, in which everybody with a name may release, with a namespace that it releases to.
type world struct {
	t               testing.TB
	tenant, managed string
	admin           client.Client
	// alice is a name of this test alone, so that nothing is remembered of her.
	alice string
}

// newWorld has a plan of nobody's and everything that its Releases need.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, tenant: cluster.Namespace(t), managed: cluster.Namespace(t), admin: as(t, cluster.Admin())}
	w.alice = "alice@" + w.tenant + ".example.com"
	w.bind("countersign-release-manager", "system:authenticated")
	w.bind("countersign-owner", "owners")
	w.bind("countersign-approver", "owners")
	admission := &releasev1alpha1.ReleasePlanAdmission{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.managed, Name: "shop"},
		Spec: releasev1alpha1.ReleasePlanAdmissionSpec{
			Applications: []string{"shop"}, Origin: w.tenant, Policy: "strict",
			Pipeline: &releasev1alpha1.Pipeline{PipelineRef: releasev1alpha1.PipelineRef{Name: "push"}, ServiceAccountName: "pusher"},
		},
	}
	pipeline := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	pipeline.SetAPIVersion("tekton.dev/v1")
	pipeline.SetKind("Pipeline")
	pipeline.SetNamespace(w.managed)
	pipeline.SetName("push")
	for _, object := range []client.Object{admission, pipeline} {
		require.NoError(t, w.admin.Create(t.Context(), object))
	}
	return w
}

func (w *world) bind(role, group string) {
	w.t.Helper()
	require.NoError(w.t, w.admin.Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, GenerateName: "binding-"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}))
}

func as(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	config.QPS, config.Burst = 200, 400
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// person is somebody with a token of his own.
func (w *world) person(email string, groups ...string) client.Client {
	w.t.Helper()
	config, err := cluster.Person(email, groups...)
	require.NoError(w.t, err)
	return as(w.t, config)
}

// account is a service account.
func (w *world) account(namespace, name string) client.Client {
	w.t.Helper()
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
	} {
		require.NoError(w.t, client.IgnoreAlreadyExists(w.admin.Create(w.t.Context(), object)))
	}
	token, err := cluster.Token(w.t.Context(), namespace, name, "", nil)
	require.NoError(w.t, err)
	return as(w.t, cluster.Bearer(token))
}

// controller is our controller's identity.
func (w *world) controller() client.Client {
	return w.account(systemNamespace, controllerAccount)
}

// plan is made by whoever stands for it, if it asks for somebody.
func (w *world) plan(by client.Client, edits ...func(*releasev1alpha1.ReleasePlan)) *releasev1alpha1.ReleasePlan {
	w.t.Helper()
	plan := &releasev1alpha1.ReleasePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "prod", Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: w.managed},
	}
	for _, edit := range edits {
		edit(plan)
	}
	w.create(by, plan)
	return plan
}

func standing(plan *releasev1alpha1.ReleasePlan) { plan.Labels[words.StandingLabel] = "true" }

func (w *world) release(by client.Client, edits ...func(*releasev1alpha1.Release)) *releasev1alpha1.Release {
	w.t.Helper()
	release := &releasev1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, GenerateName: "shop-", Labels: map[string]string{}},
		Spec:       releasev1alpha1.ReleaseSpec{Snapshot: "shop-abc", ReleasePlan: "prod"},
	}
	for _, edit := range edits {
		edit(release)
	}
	w.create(by, release)
	return release
}

func automated(release *releasev1alpha1.Release) { release.Labels[words.AutomatedLabel] = "true" }

// create tries again while the API server looks for schemas of new groups, and while the webhooks are away.
func (w *world) create(by client.Client, object client.Object) {
	w.t.Helper()
	eventually(w.t, func(ctx context.Context) error {
		err := by.Create(ctx, object)
		if err != nil && !apierrors.IsServiceUnavailable(err) && !apierrors.IsInternalError(err) {
			require.NoError(w.t, err)
		}
		return err
	})
}

// peopleRule has the owners approve every Release.
func (w *world) peopleRule() {
	w.t.Helper()
	w.create(w.person("olga@example.com", "owners"), &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "owners"},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: "appstudio.redhat.com/v1alpha1", Kind: "ReleasePlan", Name: "prod"},
			CheckTemplate: approvalv1alpha1.CheckTemplate{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "ApprovalRequest", Spec: runtime.RawExtension{
				Raw: []byte(`{"policies":[{"name":"owners","approvers":[{"type":"Group","name":"owners"}],"numberOfApprovalsRequired":1}]}`),
			}},
		},
	})
}

// answer is an owner's word on the Release.
func (w *world) answer(release *releasev1alpha1.Release, decision approvalv1alpha1.ApprovalDecision) {
	w.t.Helper()
	owner := w.person("bob@example.com", "owners")
	var check approvalv1alpha1.CheckReference
	eventually(w.t, func(ctx context.Context) error {
		request, err := w.requestOf(ctx, release)
		if err != nil {
			return err
		}
		for _, ref := range request.Status.RequestRefs {
			if ref.Kind == "ApprovalRequest" {
				check = ref
				return nil
			}
		}
		return fmt.Errorf("nobody has been asked yet: %+v", request.Status)
	})
	w.create(owner, &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: check.Namespace, GenerateName: "answer-"},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Name: check.ObjectName}, Decision: decision, Comment: "because",
		},
	})
}

func (w *world) requestOf(ctx context.Context, release *releasev1alpha1.Release) (*approvalv1alpha1.ResourceCheckRequest, error) {
	if err := w.admin.Get(ctx, client.ObjectKeyFromObject(release), release); err != nil {
		return nil, err
	}
	if release.Status.Request == "" {
		return nil, fmt.Errorf("the Release has no request yet: %+v", release.Status)
	}
	request := &approvalv1alpha1.ResourceCheckRequest{}
	return request, w.admin.Get(ctx, client.ObjectKey{Namespace: w.tenant, Name: release.Status.Request}, request)
}

// requests are all of the tenant's.
func (w *world) requests() []approvalv1alpha1.ResourceCheckRequest {
	w.t.Helper()
	var list approvalv1alpha1.ResourceCheckRequestList
	require.NoError(w.t, w.admin.List(w.t.Context(), &list, client.InNamespace(w.tenant)))
	return list.Items
}

// runs are those in the managed namespace.
func (w *world) runs() []unstructured.Unstructured {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("tekton.dev/v1")
	list.SetKind("PipelineRunList")
	require.NoError(w.t, w.admin.List(w.t.Context(), list, client.InNamespace(w.managed)))
	return list.Items
}

// runOf is the run that the Release names, once it goes on.
func (w *world) runOf(release *releasev1alpha1.Release) *unstructured.Unstructured {
	w.t.Helper()
	w.until(release, func(r *releasev1alpha1.Release) bool {
		return r.Status.ManagedProcessing != nil && r.Status.ManagedProcessing.StartTime != nil
	})
	namespace, name, _ := strings.Cut(release.Status.ManagedProcessing.PipelineRun, "/")
	run := &unstructured.Unstructured{}
	run.SetAPIVersion("tekton.dev/v1")
	run.SetKind("PipelineRun")
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, run))
	return run
}

// ends plays Tekton.
func (w *world) ends(run *unstructured.Unstructured, status metav1.ConditionStatus, reason, message string) {
	w.t.Helper()
	run.Object["status"] = map[string]any{
		"conditions": []any{map[string]any{
			"type": "Succeeded", "status": string(status), "reason": reason, "message": message, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}},
		"completionTime": time.Now().UTC().Format(time.RFC3339),
	}
	require.NoError(w.t, w.admin.Status().Update(w.t.Context(), run))
}

// until waits for the Release to be so, and leaves it as it is then.
func (w *world) until(release *releasev1alpha1.Release, so func(*releasev1alpha1.Release) bool) *releasev1alpha1.Release {
	w.t.Helper()
	eventually(w.t, func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(release), release); err != nil {
			return err
		}
		if !so(release) {
			return fmt.Errorf("the Release is not yet so: %+v", release.Status)
		}
		return nil
	})
	return release
}

// told is a condition in one line.
func told(release *releasev1alpha1.Release, kind string) string {
	c := apimeta.FindStatusCondition(release.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// says waits for a condition to hold these words.
func (w *world) says(release *releasev1alpha1.Release, kind, text string) {
	w.t.Helper()
	w.until(release, func(r *releasev1alpha1.Release) bool { return strings.Contains(told(r, kind), text) })
}

// events are the notes about an object.
func (w *world) events(object client.Object) []string {
	w.t.Helper()
	var list eventsv1.EventList
	require.NoError(w.t, w.admin.List(w.t.Context(), &list, client.InNamespace(object.GetNamespace())))
	var notes []string
	for i := range list.Items {
		if list.Items[i].Regarding.UID == object.GetUID() {
			notes = append(notes, list.Items[i].Type+" "+list.Items[i].Reason+": "+list.Items[i].Note)
		}
	}
	return notes
}

func params(run *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	list, _, _ := unstructured.NestedSlice(run.Object, "spec", "params")
	for _, entry := range list {
		param := entry.(map[string]any)
		out[param["name"].(string)] = fmt.Sprint(param["value"])
	}
	return out
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
