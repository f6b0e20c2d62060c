package guarded

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/AlaudaDevops/countersign/config/policies"
)

// patience bounds waiting for a watch; nothing depends on its length.
const patience = time.Minute

const recordPolicy = "countersign-creator-record"

func TestWatcherSeesEveryChange(t *testing.T) {
	client := fake.NewClientset(installed()...)
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

func awaitGuarded(t *testing.T, watcher *Watcher, changed chan struct{}, want bool) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		if ok, why := watcher.Guarded(); ok == want && why != notRead.why {
			return why
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("guarded did not become %v", want)
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

func installed() []runtime.Object { return objects(policies.Current()) }

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
