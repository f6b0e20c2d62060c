package guarded

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/AlaudaDevops/countersign/config/policies"
)

// patience bounds waiting for a watch; nothing depends on its length.
const patience = time.Minute

const recordPolicy = "countersign-creator-record"

func TestWatcherSeesEveryChange(t *testing.T) {
	client := fake.NewClientset(installed(policies.Options{})...)
	watcher, changed := startWatcher(t, NewWatcher(client, policies.Options{}))
	awaitGuarded(t, watcher, changed, true)

	ctx := t.Context()
	validating := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	mutating := client.AdmissionregistrationV1().MutatingAdmissionPolicies()
	bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()

	require.NoError(t, bindings.Delete(ctx, "countersign-deletion", metav1.DeleteOptions{}))
	assert.Contains(t, awaitGuarded(t, watcher, changed, false), "ValidatingAdmissionPolicyBinding countersign-deletion is missing")
	_, err := bindings.Create(ctx, original[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](policies.KindValidatingBinding, "countersign-deletion"), metav1.CreateOptions{})
	require.NoError(t, err)
	awaitGuarded(t, watcher, changed, true)

	weakened := original[*admissionregistrationv1.ValidatingAdmissionPolicy](policies.KindValidatingPolicy, "countersign-status-guard")
	weakened.Spec.Validations[0].Expression = "true"
	_, err = validating.Update(ctx, weakened, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Contains(t, awaitGuarded(t, watcher, changed, false), "ValidatingAdmissionPolicy countersign-status-guard was altered")
	_, err = validating.Update(ctx, original[*admissionregistrationv1.ValidatingAdmissionPolicy](policies.KindValidatingPolicy, "countersign-status-guard"), metav1.UpdateOptions{})
	require.NoError(t, err)
	awaitGuarded(t, watcher, changed, true)

	ignoring := original[*admissionregistrationv1.MutatingAdmissionPolicy](policies.KindMutatingPolicy, recordPolicy)
	ignore := admissionregistrationv1.Ignore
	ignoring.Spec.FailurePolicy = &ignore
	_, err = mutating.Update(ctx, ignoring, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Contains(t, awaitGuarded(t, watcher, changed, false), recordPolicy)
}

func TestWatcherAcceptsAWiderSelectionAndNoNarrowerOne(t *testing.T) {
	client := fake.NewClientset(installed(policies.Options{})...)
	watcher, changed := startWatcher(t, NewWatcher(client, policies.Options{}))
	awaitGuarded(t, watcher, changed, true)
	pods, configMaps := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "configmaps"}
	assert.True(t, watcher.Records(pods))
	assert.False(t, watcher.Records(configMaps))
	before := watcher.state.Load().live

	mutating := client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	validating := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	wide := original[*admissionregistrationv1.MutatingAdmissionPolicyBinding](policies.KindMutatingBinding, recordPolicy)
	wide.Spec.MatchResources = nil
	_, err := mutating.Update(t.Context(), wide, metav1.UpdateOptions{})
	require.NoError(t, err)
	await(t, changed, func() bool { return !maps.Equal(watcher.state.Load().live, before) })
	ok, _ := watcher.Guarded()
	assert.True(t, ok)
	assert.False(t, watcher.Records(configMaps), "nothing asserts it yet")
	assert.False(t, epoch{since: began, policies: before}.covers(watcher.state.Load().live), "what was there before has no record")

	alsoWide := original[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](policies.KindValidatingBinding, recordPolicy)
	alsoWide.Spec.MatchResources = nil
	_, err = validating.Update(t.Context(), alsoWide, metav1.UpdateOptions{})
	require.NoError(t, err)
	await(t, changed, func() bool { return watcher.Records(configMaps) })

	narrow := original[*admissionregistrationv1.MutatingAdmissionPolicyBinding](policies.KindMutatingBinding, recordPolicy)
	narrow.Spec.MatchResources.ResourceRules = narrow.Spec.MatchResources.ResourceRules[1:]
	_, err = mutating.Update(t.Context(), narrow, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Contains(t, awaitGuarded(t, watcher, changed, false), "leaves out objects that the shipped one selects")
	assert.False(t, watcher.Records(pods), "nothing is relied on meanwhile")
}

// Where webhooks write the record the API server may have no mutating policies at all: they are not even asked for.
func TestWatcherOfWebhooks(t *testing.T) {
	options := policies.Options{CreatorWebhook: true}
	client := fake.NewClientset(installed(options)...)
	watcher, changed := startWatcher(t, NewWatcher(client, options))
	awaitGuarded(t, watcher, changed, true)
	assert.True(t, watcher.Records(schema.GroupResource{Resource: "pods"}))
	for _, action := range client.Actions() {
		assert.NotContains(t, action.GetResource().Resource, "mutatingadmissionpolic")
	}

	configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	live, err := configurations.Get(t.Context(), recordPolicy, metav1.GetOptions{})
	require.NoError(t, err)
	live.Generation++
	for i := range live.Webhooks {
		live.Webhooks[i].ClientConfig.CABundle = []byte("trusted")
	}
	before := watcher.state.Load()
	_, err = configurations.Update(t.Context(), live, metav1.UpdateOptions{})
	require.NoError(t, err)
	await(t, changed, func() bool { return watcher.state.Load() != before })
	ok, why := watcher.Guarded()
	assert.True(t, ok, why)

	live.Webhooks[1].Rules = []admissionregistrationv1.RuleWithOperations{everything()}
	_, err = configurations.Update(t.Context(), live, metav1.UpdateOptions{})
	require.NoError(t, err)
	await(t, changed, func() bool { return watcher.state.Load().live.reselected(before.live) })
	ok, why = watcher.Guarded()
	assert.True(t, ok, why)
	configMaps := schema.GroupResource{Resource: "configmaps"}
	assert.False(t, watcher.Records(configMaps), "nothing asserts it yet")
	assert.False(t, epoch{since: began, policies: before.live}.covers(watcher.state.Load().live), "what was there before has no record")
	asserting, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), recordPolicy, metav1.GetOptions{})
	require.NoError(t, err)
	asserting.Webhooks[1].Rules = live.Webhooks[1].Rules
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), asserting, metav1.UpdateOptions{})
	require.NoError(t, err)
	await(t, changed, func() bool { return watcher.Records(configMaps) })

	ignore := admissionregistrationv1.Ignore
	live.Webhooks[0].FailurePolicy = &ignore
	_, err = configurations.Update(t.Context(), live, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Contains(t, awaitGuarded(t, watcher, changed, false), "MutatingWebhookConfiguration countersign-creator-record was altered")
	require.NoError(t, configurations.Delete(t.Context(), recordPolicy, metav1.DeleteOptions{}))
	await(t, changed, func() bool { _, why := watcher.Guarded(); return strings.Contains(why, "is missing") })
}

// everything is a rule that selects all objects and subresources.
func everything() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
	}
}

// That specs and statuses are held fast counts only where the Release kinds are ours, which may turn out later.
func TestWatcherWantsReleasePoliciesOnlyWithOurReleases(t *testing.T) {
	client := fake.NewClientset(installed(policies.Options{})...)
	watcher, changed := startWatcher(t, NewWatcher(client, policies.Options{}))
	awaitGuarded(t, watcher, changed, true)
	watcher.WantReleases(true)
	assert.Contains(t, awaitGuarded(t, watcher, changed, false), "countersign-release-immutability")
	watcher.WantReleases(false)
	awaitGuarded(t, watcher, changed, true)

	key := policies.Key{Kind: policies.KindValidatingPolicy, Name: "countersign-release-status-guard"}
	altered := original[*admissionregistrationv1.ValidatingAdmissionPolicy](key.Kind, key.Name)
	altered.Spec.Validations[0].Expression = "true"
	before := watcher.state.Load()
	_, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), altered, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Same(t, before, watcher.state.Load(), "it is not even compared")
	watcher.WantReleases(true)
	assert.Contains(t, awaitGuarded(t, watcher, changed, false), "countersign-release-")
}

// Who answers for a Release is our record wherever it is kept.
func TestWatcherWantsThePolicyOfTheReleaseRecordEverywhere(t *testing.T) {
	for name, options := range map[string]policies.Options{"ours": {Releases: true}, "another product's": {}} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(installed(options)...)
			watcher, changed := startWatcher(t, NewWatcher(client, options))
			awaitGuarded(t, watcher, changed, true)
			key := policies.Key{Kind: policies.KindValidatingPolicy, Name: "countersign-release-attribution"}
			require.NoError(t, client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), key.Name, metav1.DeleteOptions{}))
			assert.Contains(t, awaitGuarded(t, watcher, changed, false), "countersign-release-attribution is missing")
		})
	}
}

func TestWatcherStartsUnguarded(t *testing.T) {
	ok, why := NewWatcher(fake.NewClientset(), policies.Options{}).Guarded()
	assert.False(t, ok)
	assert.Contains(t, why, "have not been read yet")
}

func TestWatcherMissesWhatIsNotInstalled(t *testing.T) {
	client := fake.NewClientset()
	watcher, changed := startWatcher(t, NewWatcher(client, policies.Options{}))
	assert.Contains(t, awaitGuarded(t, watcher, changed, false), "is missing")
}

// An upgrade replaces policies one after the other, after the components.
func TestWatcherAcceptsTheReleaseBefore(t *testing.T) {
	before, now := sets()
	mixed := policies.Set{}
	tests := map[string]struct {
		live policies.Set
		want bool
	}{
		"this release":       {now, true},
		"the release before": {before, true},
		"half of each": {func() policies.Set {
			for key, object := range now {
				mixed[key] = object
			}
			key := policies.Key{Kind: policies.KindMutatingBinding, Name: "countersign-a"}
			mixed[key] = before[key]
			return mixed
		}(), true},
		"neither": {policies.Set{}, false},
		"what only one has is missing in both": {policies.Set{
			policies.Key{Kind: policies.KindMutatingBinding, Name: "countersign-a"}: now[policies.Key{Kind: policies.KindMutatingBinding, Name: "countersign-a"}],
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(objects(tc.live)...)
			watcher, changed := startWatcher(t, newWatcher(client, []policies.Set{now, before}))
			awaitGuarded(t, watcher, changed, tc.want)
		})
	}
}

func TestWatcherForgetsForeignPolicies(t *testing.T) {
	watcher := NewWatcher(fake.NewClientset(), policies.Options{})
	foreign := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs", Annotations: map[string]string{"a": "b"}},
		Spec:       admissionregistrationv1.ValidatingAdmissionPolicySpec{Variables: []admissionregistrationv1.Variable{{Name: "a"}}},
	}
	stripped, err := watcher.strip(foreign)
	require.NoError(t, err)
	assert.Equal(t, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, stripped)
}

// startWatcher returns a channel that gets a value after changes.
func startWatcher(t *testing.T, watcher *Watcher) (*Watcher, chan struct{}) {
	t.Helper()
	changed := make(chan struct{}, 1)
	watcher.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- watcher.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return watcher, changed
}

func awaitGuarded(t *testing.T, watcher *Watcher, changed chan struct{}, want bool) (sentence string) {
	t.Helper()
	await(t, changed, func() bool {
		ok, why := watcher.Guarded()
		sentence = why
		return ok == want && why != notRead.why
	})
	return sentence
}

func await(t *testing.T, changed chan struct{}, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-changed:
		case <-deadline:
			t.Fatal("waited in vain")
		}
	}
}

func sets() (before, now policies.Set) {
	binding := func(name, policy string) *admissionregistrationv1.MutatingAdmissionPolicyBinding {
		return &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy},
		}
	}
	key := func(name string) policies.Key { return policies.Key{Kind: policies.KindMutatingBinding, Name: name} }
	before = policies.Set{
		key("countersign-a"):   binding("countersign-a", "old"),
		key("countersign-old"): binding("countersign-old", "old"),
	}
	now = policies.Set{
		key("countersign-a"):   binding("countersign-a", "new"),
		key("countersign-new"): binding("countersign-new", "new"),
	}
	return before, now
}

func installed(options policies.Options) []runtime.Object {
	return objects(policies.Accepted(options)[0])
}

func objects(set policies.Set) []runtime.Object {
	var all []runtime.Object
	for _, object := range set {
		all = append(all, object.(runtime.Object).DeepCopyObject())
	}
	return all
}

func original[T runtime.Object](kind, name string) T {
	return policies.Current()[policies.Key{Kind: kind, Name: name}].(T).DeepCopyObject().(T)
}
