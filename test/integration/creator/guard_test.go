package creator

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
)

// guard is what a controller and a proxy run, each with the rights that are shipped.
type guard struct {
	watcher *guarded.Watcher
	epoch   *guarded.EpochReader
}

func (p *plane) guard(t *testing.T) *guard {
	t.Helper()
	ofController := p.acting(controllerUser, "system:serviceaccounts")
	controller, err := kubernetes.NewForConfig(ofController)
	require.NoError(t, err)
	forgeries, err := dynamic.NewForConfig(ofController)
	require.NoError(t, err)
	proxy, err := kubernetes.NewForConfig(p.acting(proxyUser, "system:serviceaccounts"))
	require.NoError(t, err)

	options := policies.Options{Releases: true, CreatorWebhook: p.byWebhook}
	seen := guarded.NewWatcher(controller, options)
	keeper := guarded.NewKeeper(clock.RealClock{}, controller, guarded.NewDryRunProber(forgeries, systemNamespace), seen, systemNamespace, guarded.WithSettle(0))
	g := &guard{watcher: guarded.NewWatcher(proxy, policies.Options{CreatorWebhook: p.byWebhook})}
	g.epoch = guarded.NewEpochReader(proxy, g.watcher, systemNamespace)
	ctx, cancel := context.WithCancel(context.Background())
	runs := []func(context.Context) error{seen.Start, keeper.Start, g.watcher.Start, g.epoch.Start}
	done := make(chan error, len(runs))
	for _, run := range runs {
		go func() { done <- run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range runs {
			assert.NoError(t, <-done)
		}
	})
	return g
}

func (g *guard) awaitGuarded(t *testing.T, want bool) (why string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		ok, reason := g.watcher.Guarded()
		why = reason
		if ok != want || !g.watcher.HasSynced() {
			return fmt.Errorf("guarded is %v: %s", ok, reason)
		}
		return nil
	})
	return why
}

func (g *guard) awaitEpoch(t *testing.T, after time.Time) (since time.Time) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if since = g.epoch.Since(); !since.After(after) {
			return fmt.Errorf("records count since %s", since)
		}
		return nil
	})
	return since
}

// awaitNextSecond waits until the API server's clock, which counts in seconds, has moved on.
func awaitNextSecond(t *testing.T, p *plane, from time.Time) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		now := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "now"}}
		if err := p.admin(t).Create(ctx, now, client.DryRunAll); err != nil {
			return err
		}
		if !now.CreationTimestamp.After(from) {
			return fmt.Errorf("it is still %s", from)
		}
		return nil
	})
}

func TestS5_WebhooksThatWriteTheRecordAreGuarded(t *testing.T) {
	p := planes[1]
	admin, g := p.admin(t), p.guard(t)
	g.awaitGuarded(t, true)
	began := g.awaitEpoch(t, time.Time{})

	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: policies.CreatorRecord}}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(mutating), mutating))
	require.NotEmpty(t, mutating.Webhooks[0].ClientConfig.CABundle, "the controller put it in, and it does not count")
	shipped := mutating.DeepCopy().Webhooks
	put := func(webhooks []admissionregistrationv1.MutatingWebhook) {
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(mutating), mutating))
		mutating.Webhooks = webhooks
		require.NoError(t, admin.Update(t.Context(), mutating))
	}

	for name, edit := range map[string]func(*admissionregistrationv1.MutatingWebhook){
		"ignored when it fails": func(w *admissionregistrationv1.MutatingWebhook) { *w.FailurePolicy = admissionregistrationv1.Ignore },
		"not for some namespaces": func(w *admissionregistrationv1.MutatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"another server": func(w *admissionregistrationv1.MutatingWebhook) { w.ClientConfig.Service.Name = "theirs" },
	} {
		t.Run(name, func(t *testing.T) {
			altered := slices.Clone(shipped)
			altered[0] = *altered[0].DeepCopy()
			edit(&altered[0])
			put(altered)
			assert.Contains(t, g.awaitGuarded(t, false), "MutatingWebhookConfiguration countersign-creator-record was altered")
			assert.Zero(t, g.epoch.Since(), "nothing is proven meanwhile")
			awaitNextSecond(t, p, began)
			put(shipped)
			g.awaitGuarded(t, true)
			began = g.awaitEpoch(t, began)
		})
	}
}

// Clusters of their own: the selection is for everybody.
func TestS5_AWiderSelectionIsGuardedAndANarrowerOneIsNot(t *testing.T) {
	for name, tc := range map[string]struct {
		p      *plane
		narrow func(t *testing.T, admin client.Client)
	}{
		"policy":  {&plane{name: "widened"}, narrowBinding},
		"webhook": {&plane{name: "widened webhooks", byWebhook: true}, narrowWebhook},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tc.p.start(t.Context()))
			t.Cleanup(func() { assert.NoError(t, tc.p.Stop()) })
			widens(t, tc.p, tc.narrow)
		})
	}
}

func widens(t *testing.T, p *plane, narrow func(*testing.T, client.Client)) {
	admin, g := p.admin(t), p.guard(t)
	g.awaitGuarded(t, true)
	began := g.awaitEpoch(t, time.Time{})
	namespace := p.namespace(t)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "before", Annotations: forged()}}
	require.NoError(t, p.user(t, "alice").Create(t.Context(), configMap))
	assert.Equal(t, "olga", record(configMap)["changed-by"], "it is not selected: anybody may write what he likes")
	assert.False(t, g.watcher.Records(schema.GroupResource{Resource: "configmaps"}))

	awaitNextSecond(t, p, began)
	p.widen(t)
	g.awaitGuarded(t, true)
	eventually(t, func(context.Context) error {
		if !g.watcher.Records(schema.GroupResource{Resource: "configmaps"}) {
			return fmt.Errorf("ConfigMaps are not recorded yet")
		}
		return nil
	})
	widened := g.awaitEpoch(t, began)
	assert.False(t, configMap.CreationTimestamp.After(widened), "what was written before the selection was widened is not believed")

	t.Run("everything has a record", func(t *testing.T) { everythingHasARecord(t, p, namespace) })
	t.Run("the kinds without spec that everybody has", func(t *testing.T) { contentOfBuiltins(t, p, namespace) })
	t.Run("what was recorded before is", func(t *testing.T) {
		object := run("TaskRun", namespace, "run")
		object.SetAnnotations(forged())
		require.NoError(t, p.user(t, "alice").Create(t.Context(), object))
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)))
	})
	t.Run("reviews and leases are left alone", func(t *testing.T) { othersWork(t, p) })
	if p.byWebhook {
		t.Run("what is needed to come back is left alone", func(t *testing.T) { comesBack(t, p, namespace) })
	}
	t.Run("narrowed", func(t *testing.T) {
		narrow(t, admin)
		assert.Contains(t, g.awaitGuarded(t, false), "leaves out objects that the shipped one selects")
		assert.Zero(t, g.epoch.Since())
	})
}

func narrowBinding(t *testing.T, admin client.Client) {
	t.Helper()
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policies.CreatorRecord}}
	require.NoError(t, admin.Patch(t.Context(), binding, client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"matchResources":{"objectSelector":{"matchLabels":{"recorded":"yes"}}}}}`))))
}

func narrowWebhook(t *testing.T, admin client.Client) {
	t.Helper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: policies.CreatorRecord}}
	require.NoError(t, admin.Patch(t.Context(), configuration, client.RawPatch(types.JSONPatchType,
		[]byte(`[{"op":"remove","path":"/webhooks/1/rules/0"}]`))))
}

// comesBack shows what works while webhooks that are asked about everything do not answer, and what does not.
func comesBack(t *testing.T, p *plane, namespace string) {
	admin, apiServer := p.admin(t), clientOf(t, p.acting("system:apiserver", "system:masters"))
	p.webhooks.interrupt(true)
	t.Cleanup(func() { p.webhooks.interrupt(false) })
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role"}}
	ofOurs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "epoch"}}
	ofTenants := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "unrecorded"}}
	for name, write := range map[string]error{
		"a tenant's":                          admin.Create(t.Context(), ofTenants.DeepCopy(), client.DryRunAll),
		"a role":                              admin.Create(t.Context(), role.DeepCopy(), client.DryRunAll),
		"a pod in the name of the API server": apiServer.Create(t.Context(), pod(namespace, "unrecorded"), client.DryRunAll),
	} {
		assert.ErrorContains(t, write, "failed calling webhook", name)
	}
	assert.NoError(t, admin.Create(t.Context(), ofOurs, client.DryRunAll), "the controller starts")
	assert.NoError(t, apiServer.Create(t.Context(), role, client.DryRunAll), "the API server starts")
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: policies.CreatorRecord}}
	assert.NoError(t, admin.Delete(t.Context(), configuration, client.DryRunAll), "an administrator gets out")
	othersWork(t, p)
}

// widen applies the lines of a kustomization, and returns when they act.
func (p *plane) widen(t *testing.T) {
	t.Helper()
	manifests, err := built(p.components("creators-everywhere")...)
	require.NoError(t, err)
	require.NoError(t, p.Apply(t.Context(), p.Admin(), manifests))
	eventually(t, func(ctx context.Context) error {
		seen := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "seen"}}
		if err := p.admin(t).Create(ctx, seen, client.DryRunAll); err != nil || record(seen)["created-by"] == "" {
			return fmt.Errorf("a ConfigMap has no record yet: %w", err)
		}
		return nil
	})
}

// components are what the plane is installed with, and more.
func (p *plane) components(more ...string) []string {
	if p.byWebhook {
		return append(more, "creator-webhook")
	}
	return more
}

func everythingHasARecord(t *testing.T, p *plane, namespace string) {
	alice := p.user(t, "alice", "system:masters") // cluster-scoped objects are not a tenant's
	for name, object := range map[string]client.Object{
		"configmap":      &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "everything"}},
		"secret":         &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "everything"}},
		"service":        &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "everything"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		"serviceaccount": &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "everything"}},
		"claim": &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "everything"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *storage()}},
		}},
		"role":        &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "everything"}},
		"clusterrole": &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-" + namespace}},
		"namespace":   &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "of-" + namespace}},
		"foreign":     foreign("checks.example.com/v1", "SignOff", namespace, "everything"),
	} {
		object.SetAnnotations(forged())
		require.NoError(t, alice.Create(t.Context(), object), name)
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)), name)
		require.NoError(t, merged(forgedJSON)(t.Context(), p.user(t, "mallory", "system:masters"), object), name)
		assert.Equal(t, createdBy("alice"), record(reread(t, p, object)), name)
	}
}

func contentOfBuiltins(t *testing.T, p *plane, namespace string) {
	alice, bob := p.user(t, "alice"), p.user(t, "bob")
	for name, tc := range map[string]struct {
		object  client.Object
		content string
	}{
		"data":       {&corev1.ConfigMap{}, `{"data":{"a":"b"}}`},
		"binaryData": {&corev1.ConfigMap{}, `{"binaryData":{"a":"Yg=="}}`},
		"immutable":  {&corev1.ConfigMap{}, `{"immutable":true}`},
		"stringData": {&corev1.Secret{}, `{"stringData":{"a":"b"}}`},
		"rules":      {&rbacv1.Role{}, `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
		"subjects": {&rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "everything"}},
			`{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"a"}]}`},
		"imagePullSecrets": {&corev1.ServiceAccount{}, `{"imagePullSecrets":[{"name":"a"}]}`},
	} {
		tc.object.SetNamespace(namespace)
		tc.object.SetGenerateName("content-")
		require.NoError(t, alice.Create(t.Context(), tc.object), name)
		require.NoError(t, merged(`{"metadata":{"labels":{"a":"b"}}}`)(t.Context(), bob, tc.object), name)
		assert.Equal(t, createdBy("alice"), record(reread(t, p, tc.object)), name)
		require.NoError(t, merged(tc.content)(t.Context(), bob, tc.object), name)
		assert.Equal(t, changedBy("alice", "bob"), record(reread(t, p, tc.object)), name)
	}
}
