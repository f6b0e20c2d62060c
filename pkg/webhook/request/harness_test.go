package request

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
	"github.com/AlaudaDevops/countersign/pkg/webhook/asked"
)

var (
	epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	now   = epoch.Add(24 * time.Hour)

	tektonController = "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller"
)

// harness is a webhook over a cluster that is a few objects.
type harness struct {
	t       *testing.T
	webhook *Webhook
	clock   *clocktesting.FakePassiveClock
	client  client.Client
	// refused are the wishes that are not allowed, as "user verb resource ns/name"; everything else is.
	refused map[string]bool
	asked   []string
	nodes   []*origin.Node
	since   time.Time
}

func newHarness(t *testing.T, objects ...client.Object) *harness {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, approvalv1alpha1.AddToScheme(scheme))
	require.NoError(t, connectorsv1alpha1.AddToScheme(scheme))
	require.NoError(t, releasev1alpha1.AddToScheme(scheme))
	h := &harness{t: t, clock: clocktesting.NewFakePassiveClock(now), refused: map[string]bool{}, since: epoch}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&approvalv1alpha1.ResourceCheckRequest{}).
		WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{SubResourceApply: h.applyAskers})
	builder.WithIndex(&approvalv1alpha1.ResourceCheckRequest{}, asked.IndexObject, asked.ByObject)
	h.client = builder.Build()
	since := func() time.Time { return h.since }
	h.webhook = New(Deps{
		Clock: h.clock, Live: h.client, Cache: h.client, Status: h.client, Mapper: mapper(), Access: h, Origins: h,
		Climber: origin.NewClimber(h, origin.DefaultConfig(), since), Runs: origin.DefaultConfig(), Since: since,
	})
	return h
}

// applyAskers merges a set of askers, which the fake client cannot, as it does not know the schema.
func (h *harness) applyAskers(ctx context.Context, c client.Client, subresource string, obj runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	data, err := json.Marshal(obj)
	require.NoError(h.t, err)
	var applied, stored approvalv1alpha1.ResourceCheckRequest
	require.NoError(h.t, json.Unmarshal(data, &applied))
	require.Equal(h.t, "status", subresource)
	if err := c.Get(ctx, client.ObjectKeyFromObject(&applied), &stored); err != nil {
		return err
	}
	require.Equal(h.t, stored.UID, applied.UID)
	stored.Status.Askers = append(stored.Status.Askers, applied.Status.Askers...)
	return c.Status().Update(ctx, &stored)
}

func mapper() apimeta.RESTMapper {
	m := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, connectorsv1alpha1.GroupVersion, releasev1alpha1.GroupVersion})
	m.Add(connectorsv1alpha1.GroupVersion.WithKind("Connector"), apimeta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), apimeta.RESTScopeNamespace)
	m.Add(releasev1alpha1.GroupVersion.WithKind("ReleasePlan"), apimeta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), apimeta.RESTScopeRoot)
	return m
}

// Allowed implements Access.
func (h *harness) Allowed(_ context.Context, user authz.UserInfo, a authz.ResourceAttributes) (bool, string, error) {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	wish := fmt.Sprintf("%s %s %s %s/%s", user.Username, a.Verb, resource, a.Namespace, a.Name)
	h.asked = append(h.asked, wish)
	return !h.refused[wish], "", nil
}

// Get implements origin.Source.
func (h *harness) Get(_ context.Context, kind schema.GroupKind, namespace, name string) (*origin.Node, error) {
	for _, n := range h.nodes {
		if n.GroupKind() == kind && n.Namespace == namespace && n.Name == name {
			return n, nil
		}
	}
	return nil, origin.ErrNotFound
}

var versions = map[string]string{"Pod": "v1", "Job": "batch/v1", "TaskRun": "tekton.dev/v1", "PipelineRun": "tekton.dev/v1", "Release": "appstudio.redhat.com/v1alpha1"}

// run adds an object of namespace apps, whose UID is its name.
func (h *harness) run(kind, name, creator string, owner *origin.Node, accounts ...string) *origin.Node {
	n := &origin.Node{
		GroupVersionKind: schema.FromAPIVersionAndKind(versions[kind], kind), Namespace: "apps", Name: name, UID: types.UID(name),
		CreatedBy: creator, Created: now.Add(-time.Hour), ServiceAccounts: accounts,
	}
	if owner != nil {
		n.Owner = &origin.Owner{GroupVersionKind: &owner.GroupVersionKind, Name: owner.Name, UID: owner.UID}
		n.CreatedFor = owner.UID
	}
	h.nodes = append(h.nodes, n)
	return n
}

// pipeline adds a run that alice started, with one task and its pod.
func (h *harness) pipeline() (run, task, pod *origin.Node) {
	run = h.run("PipelineRun", "run", "alice", nil, "builder", "deployer")
	task = h.run("TaskRun", "task", tektonController, run, "deployer")
	pod = h.run("Pod", "pod", tektonController, task, "deployer")
	return run, task, pod
}

func connector(edits ...func(*connectorsv1alpha1.Connector)) *connectorsv1alpha1.Connector {
	c := &connectorsv1alpha1.Connector{}
	c.Namespace, c.Name, c.UID = "prod", "harbor", "harbor-uid"
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func account(name string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{}
	a.Namespace, a.Name, a.UID = "apps", name, types.UID(name+"-uid")
	return a
}

func person(name string, groups ...string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: name, UID: name + "-uid", Groups: append(groups, "system:authenticated"),
		Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=abc"}, "scopes": {"all"}}}
}

func serviceAccountUser(name, jti string, pod *origin.Node) authenticationv1.UserInfo {
	u := authenticationv1.UserInfo{
		Username: "system:serviceaccount:apps:" + name, UID: name + "-uid",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:apps", "system:authenticated"},
		Extra:  map[string]authenticationv1.ExtraValue{},
	}
	if jti != "" {
		u.Extra["authentication.kubernetes.io/credential-id"] = authenticationv1.ExtraValue{"JTI=" + jti}
	}
	if pod != nil {
		u.Extra["authentication.kubernetes.io/pod-name"] = authenticationv1.ExtraValue{pod.Name}
		u.Extra["authentication.kubernetes.io/pod-uid"] = authenticationv1.ExtraValue{string(pod.UID)}
	}
	return u
}

// ask is the smallest request for prod/harbor; edits are further YAML, merged at the top.
func ask(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := parse(t, `
apiVersion: approval.alaudadevops.io/v1alpha1
kind: ResourceCheckRequest
metadata: {namespace: apps, generateName: rcr-}
spec:
  objectRef: {apiVersion: connectors.alaudadevops.io/v1alpha1, kind: Connector, namespace: prod, name: harbor}
  reason: promote 1.4.2
`)
	merge(u.Object, parse(t, text).Object)
	return u
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	return u
}

// merge overlays objects; a null takes a field away.
func merge(into, from map[string]any) {
	for key, value := range from {
		inner, isObject := value.(map[string]any)
		there, wasObject := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isObject && wasObject:
			merge(there, inner)
		default:
			into[key] = value
		}
	}
}

// create runs both steps, as the API server does, and returns the object as it would be stored.
func (h *harness) create(user authenticationv1.UserInfo, u *unstructured.Unstructured) (*approvalv1alpha1.ResourceCheckRequest, error) {
	h.t.Helper()
	return h.admit(user, u, func(*unstructured.Unstructured) {}, false)
}

// admit lets another webhook act between the steps.
func (h *harness) admit(user authenticationv1.UserInfo, u *unstructured.Unstructured, between func(*unstructured.Unstructured), dryRun bool) (*approvalv1alpha1.ResourceCheckRequest, error) {
	h.t.Helper()
	r := &admit.Review{Caller: admit.CallerOf(user), Operation: admissionv1.Create, Namespace: u.GetNamespace(), Object: wire(h.t, u), DryRun: dryRun}
	if err := h.webhook.Mutate(h.t.Context(), r); err != nil {
		return nil, err
	}
	r.Object = wire(h.t, r.Object)
	between(r.Object)
	if err := h.webhook.Validate(h.t.Context(), r); err != nil {
		return nil, err
	}
	return typed(h.t, r.Object), nil
}

// update runs both steps for a change of a stored object.
func (h *harness) update(user authenticationv1.UserInfo, old, u *unstructured.Unstructured) (*approvalv1alpha1.ResourceCheckRequest, error) {
	h.t.Helper()
	r := &admit.Review{Caller: admit.CallerOf(user), Operation: admissionv1.Update, Namespace: "apps", Object: wire(h.t, u), Old: wire(h.t, old)}
	if err := h.webhook.Mutate(h.t.Context(), r); err != nil {
		return nil, err
	}
	r.Object = wire(h.t, r.Object)
	if err := h.webhook.Validate(h.t.Context(), r); err != nil {
		return nil, err
	}
	return typed(h.t, r.Object), nil
}

// wire is an object as it comes over the network.
func wire(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	data, err := json.Marshal(u)
	require.NoError(t, err)
	read := &unstructured.Unstructured{}
	require.NoError(t, read.UnmarshalJSON(data))
	return read
}

func typed(t *testing.T, u *unstructured.Unstructured) *approvalv1alpha1.ResourceCheckRequest {
	t.Helper()
	req := &approvalv1alpha1.ResourceCheckRequest{}
	require.NoError(t, admit.Decode(u, req))
	return req
}

// store keeps an admitted request, with a status.
func (h *harness) store(req *approvalv1alpha1.ResourceCheckRequest, edits ...func(*approvalv1alpha1.ResourceCheckRequest)) *approvalv1alpha1.ResourceCheckRequest {
	h.t.Helper()
	stored := req.DeepCopy()
	stored.UID = types.UID("uid-of-" + stored.Name)
	for _, edit := range edits {
		edit(stored)
	}
	status := stored.Status.DeepCopy()
	require.NoError(h.t, h.client.Create(h.t.Context(), stored))
	stored.Status = *status
	require.NoError(h.t, h.client.Status().Update(h.t.Context(), stored))
	return stored
}

func mutate(t *testing.T, h *harness, user authenticationv1.UserInfo, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	r := &admit.Review{Caller: admit.CallerOf(user), Operation: admissionv1.Create, Namespace: u.GetNamespace(), Object: wire(t, u)}
	require.NoError(t, h.webhook.Mutate(t.Context(), r))
	return wire(t, r.Object)
}

func updateReview(user authenticationv1.UserInfo, old, u *unstructured.Unstructured) *admit.Review {
	return &admit.Review{Caller: admit.CallerOf(user), Operation: admissionv1.Update, Namespace: "apps", Object: u, Old: old}
}
