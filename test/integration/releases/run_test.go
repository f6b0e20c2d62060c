package releases

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func tekton(kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetAPIVersion("tekton.dev/v1")
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// restart ends the controller as a crash does, and starts it again.
func (c *controller) restart(t *testing.T) {
	t.Helper()
	require.NoError(t, c.halt(syscall.SIGKILL))
	c.again(t)
}

func (c *controller) again(t *testing.T, more ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, c.start(ctx, more...))
}

func TestTheRunFails(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	release := w.release(alice)
	w.ends(w.runOf(release), metav1.ConditionFalse, "Failed", "task \"sign\" failed")
	w.says(release, released, "False Failed")
	assert.Contains(t, told(release, processed), `False Failed: the pipeline run `+release.Status.ManagedProcessing.PipelineRun+` failed (Failed), saying: "task \"sign\" failed"`)
	assert.Contains(t, told(release, validated), "True Succeeded")
	eventually(t, eventIs(w, release, "Warning Failed: the pipeline run"))
}

func TestTheRunIsDeleted(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	release := w.release(alice)
	require.NoError(t, w.admin.Delete(t.Context(), w.runOf(release)))
	w.says(release, released, "False Failed: the pipeline run "+release.Status.ManagedProcessing.PipelineRun+" was deleted while it was going on")
	assert.Empty(t, w.runs(), "it is not started again")
}

func TestTheReleaseIsDeleted(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	release := w.release(alice)
	w.runOf(release)
	require.NoError(t, alice.Delete(t.Context(), release))
	other := w.release(alice)
	w.runOf(other)
	assert.Len(t, w.runs(), 2, "the run of the first goes on")
}

// waiting is a Release that waits for people when the controller crashes. The status is then brought to where it names its
// run, as the controller would have.
func waiting(w *world) (*releasev1alpha1.Release, *unstructured.Unstructured) {
	alice := w.person(w.alice)
	w.plan(alice)
	w.peopleRule()
	release := w.release(alice)
	w.says(release, validated, "from group owners")
	w.answer(release, approvalv1alpha1.DecisionApprove)
	made := w.runOf(release)
	return release, made
}

// asBefore takes back what a crash between the making of the run and the status would have left out.
func asBefore(w *world, release *releasev1alpha1.Release) {
	w.t.Helper()
	require.NoError(w.t, running.halt(syscall.SIGKILL))
	controller := w.controller()
	eventually(w.t, func(ctx context.Context) error {
		if err := controller.Get(ctx, keyOf(release), release); err != nil {
			return err
		}
		release.Status.ManagedProcessing.StartTime = nil
		return controller.Status().Update(ctx, release)
	})
}

func TestS15_ACrashAfterTheRunWasMade(t *testing.T) {
	w := newWorld(t)
	release, made := waiting(w)
	asBefore(w, release)
	running.again(t)
	run := w.runOf(release)
	assert.Equal(t, made.GetUID(), run.GetUID(), "the run is taken up")
	assert.Len(t, w.runs(), 1)
}

func TestS15_ACrashBeforeTheRunWasMade(t *testing.T) {
	w := newWorld(t)
	release, made := waiting(w)
	asBefore(w, release)
	require.NoError(t, w.admin.Delete(t.Context(), made))
	running.again(t)
	run := w.runOf(release)
	assert.NotEqual(t, made.GetUID(), run.GetUID(), "the run is made")
	assert.Equal(t, made.GetName(), run.GetName())
}

func TestS6_ARunOfTheNameThatSomebodyElseMade(t *testing.T) {
	w := newWorld(t)
	release, made := waiting(w)
	asBefore(w, release)
	require.NoError(t, w.admin.Delete(t.Context(), made))
	squatter := tekton("PipelineRun", w.managed, made.GetName())
	squatter.SetLabels(made.GetLabels())
	squatter.SetAnnotations(made.GetAnnotations())
	w.create(w.admin, squatter)
	running.again(t)
	w.says(release, released, "False Failed: the pipeline run "+release.Status.ManagedProcessing.PipelineRun+" was not made by this controller")
}

// Whose kinds these are is seen at once. What holds where they are another product's is tested beside Konflux.
func TestKindsThatBecomeAnotherProductsAreOnlyAskedFor(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	for name, label := range map[string]string{"releases": "konflux", "releaseplans": "konflux"} {
		w.belongsTo(name, label)
		t.Cleanup(func() { w.belongsTo(name, "countersign") })
	}
	release := w.release(alice)
	eventually(t, eventIs(w, release, "Normal Succeeded: "+w.alice+" answers for the Release"))
	require.NoError(t, w.admin.Get(t.Context(), keyOf(release), release))
	assert.Empty(t, release.Status)
	assert.Empty(t, w.runs())
}

func (w *world) belongsTo(plural, product string) {
	w.t.Helper()
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: plural + ".appstudio.redhat.com"}}
	crd.SetGroupVersionKind(crdKind)
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"app.kubernetes.io/part-of":%q}}}`, product))
	require.NoError(w.t, w.admin.Patch(context.Background(), crd, patch))
}
