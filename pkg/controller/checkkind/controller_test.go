package checkkind

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// world is the API server as the controller sees it.
type world struct {
	served    map[string][]metav1.APIResource
	discovery error
	denied    map[string]bool
	unguarded string
	unread    bool
}

func (w *world) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	if w.discovery != nil {
		return nil, w.discovery
	}
	resources, ok := w.served[gv]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
	}
	return &metav1.APIResourceList{APIResources: resources}, nil
}

func (w *world) Guarded() (bool, string) { return w.unguarded == "", w.unguarded }
func (w *world) HasSynced() bool         { return !w.unread }
func (w *world) OnChange(func())         {}

func (w *world) create(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
	review, ok := obj.(*authorizationv1.SelfSubjectAccessReview)
	if !ok {
		return c.Create(ctx, obj, opts...)
	}
	a := review.Spec.ResourceAttributes
	review.Status.Allowed = !w.denied[strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/")]
	return nil
}

func gates(status bool, edit ...func(*metav1.APIResource)) map[string][]metav1.APIResource {
	resources := []metav1.APIResource{{Name: "gates", Kind: "Gate", Namespaced: true}}
	for _, e := range edit {
		e(&resources[0])
	}
	if status {
		resources = append(resources, metav1.APIResource{Name: "gates/status", Kind: "Gate", Namespaced: true})
	}
	return map[string][]metav1.APIResource{"example.com/v1": resources}
}

func makeKind(edit ...func(*approvalv1alpha1.CheckKind)) *approvalv1alpha1.CheckKind {
	kind := &approvalv1alpha1.CheckKind{
		ObjectMeta: metav1.ObjectMeta{Name: "gate.example.com", Generation: 2},
		Spec:       approvalv1alpha1.CheckKindSpec{APIVersion: "example.com/v1", Kind: "Gate"},
	}
	for _, e := range edit {
		e(kind)
	}
	return kind
}

func newController(t *testing.T, w *world, kind *approvalv1alpha1.CheckKind) (*Controller, *events.FakeRecorder) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, approvalv1alpha1.AddToScheme(scheme))
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(kind).WithStatusSubresource(kind).
		WithInterceptorFuncs(interceptor.Funcs{Create: w.create}).Build()
	recorder := events.NewFakeRecorder(10)
	return NewController(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), c, w, w, recorder), recorder
}

func (c *Controller) reconcileOnce(t *testing.T, name string) (*metav1.Condition, time.Duration) {
	t.Helper()
	result, err := c.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	require.NoError(t, err)
	var kind approvalv1alpha1.CheckKind
	require.NoError(t, c.client.Get(context.Background(), client.ObjectKey{Name: name}, &kind))
	return apimeta.FindStatusCondition(kind.Status.Conditions, approvalv1alpha1.ConditionReady), result.RequeueAfter
}

func TestReady(t *testing.T) {
	cases := map[string]struct {
		world   world
		edit    func(*approvalv1alpha1.CheckKind)
		reason  string
		message string
	}{
		"ready":         {world: world{served: gates(true)}, reason: approvalv1alpha1.ReasonReady},
		"group missing": {reason: approvalv1alpha1.ReasonNotInstalled, message: "does not serve the kind Gate of example.com/v1"},
		"kind missing": {
			world: world{served: gates(true)}, edit: func(k *approvalv1alpha1.CheckKind) { k.Spec.Kind = "Door" },
			reason: approvalv1alpha1.ReasonNotInstalled,
		},
		"no status subresource": {world: world{served: gates(false)}, reason: approvalv1alpha1.ReasonStatusUnguarded, message: "no status subresource"},
		"cluster-scoped": {
			world:  world{served: gates(true, func(r *metav1.APIResource) { r.Namespaced = false })},
			reason: approvalv1alpha1.ReasonInvalidSpec, message: "namespaced kind",
		},
		"not allowed": {
			world:  world{served: gates(true), denied: map[string]bool{"create gates.example.com": true, "create gates": true, "watch gates": true}},
			reason: approvalv1alpha1.ReasonForbidden, message: "may not watch gates.example.com, create gates.example.com",
		},
		"policies missing": {
			world:  world{served: gates(true), unguarded: "countersign-status-guard is missing"},
			reason: approvalv1alpha1.ReasonStatusUnguarded, message: "countersign-status-guard is missing",
		},
		"expression": {
			world: world{served: gates(true)}, edit: func(k *approvalv1alpha1.CheckKind) { k.Spec.State = &approvalv1alpha1.StateReader{CEL: "1 +"} },
			reason: approvalv1alpha1.ReasonInvalidExpression, message: "does not compile",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kind := makeKind()
			if c.edit != nil {
				c.edit(kind)
			}
			controller, recorder := newController(t, &c.world, kind)
			ready, again := controller.reconcileOnce(t, kind.Name)
			assert.Equal(t, c.reason, ready.Reason)
			assert.Equal(t, c.reason == approvalv1alpha1.ReasonReady, ready.Status == metav1.ConditionTrue)
			assert.Equal(t, int64(2), ready.ObservedGeneration)
			assert.Contains(t, ready.Message, c.message)
			assert.Positive(t, again)
			assert.Contains(t, <-recorder.Events, c.reason)

			controller.reconcileOnce(t, kind.Name)
			assert.Empty(t, recorder.Events, "an event tells of a transition only")
		})
	}
}

func TestStatusOfBuiltInKindsMustBeWritable(t *testing.T) {
	kind := makeKind(func(k *approvalv1alpha1.CheckKind) {
		k.Name, k.Spec.APIVersion, k.Spec.Kind = "approvalrequest.approval.alaudadevops.io", approvalv1alpha1.GroupVersion.String(), "ApprovalRequest"
	})
	w := &world{
		served: map[string][]metav1.APIResource{kind.Spec.APIVersion: {
			{Name: "approvalrequests", Kind: "ApprovalRequest", Namespaced: true}, {Name: "approvalrequests/status", Kind: "ApprovalRequest", Namespaced: true},
		}},
		denied: map[string]bool{"patch approvalrequests/status": true},
	}
	controller, _ := newController(t, w, kind)
	ready, _ := controller.reconcileOnce(t, kind.Name)
	assert.Equal(t, approvalv1alpha1.ReasonForbidden, ready.Reason)
	assert.Contains(t, ready.Message, "patch approvalrequests/status")
}

func TestNothingIsSaidBeforeThePoliciesWereRead(t *testing.T) {
	w := &world{served: gates(true)}
	controller, _ := newController(t, w, makeKind())
	_, _ = controller.reconcileOnce(t, "gate.example.com")
	w.unread, w.unguarded = true, "The policies have not been read yet."
	ready, again := controller.reconcileOnce(t, "gate.example.com")
	assert.Equal(t, metav1.ConditionTrue, ready.Status, "what was ready stays so")
	assert.Equal(t, retryUnknown, again)
}

func TestPickedUpWhenInstalled(t *testing.T) {
	w := &world{}
	controller, _ := newController(t, w, makeKind())
	ready, again := controller.reconcileOnce(t, "gate.example.com")
	require.Equal(t, approvalv1alpha1.ReasonNotInstalled, ready.Reason)
	assert.Equal(t, recheckNotReady, again)

	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "gates.example.com"}}
	assert.Len(t, controller.kindsOfGroup(context.Background(), crd), 1)
	crd.Name = "gates.another.com"
	assert.Empty(t, controller.kindsOfGroup(context.Background(), crd))
	assert.Len(t, controller.allKinds(context.Background(), nil), 1)

	w.served = gates(true)
	ready, again = controller.reconcileOnce(t, "gate.example.com")
	assert.Equal(t, metav1.ConditionTrue, ready.Status)
	assert.Equal(t, recheckReady, again)
}

func TestSilentAPIServerIsNoVerdict(t *testing.T) {
	controller, _ := newController(t, &world{discovery: errors.New("timeout")}, makeKind())
	_, err := controller.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "gate.example.com"}})
	assert.ErrorContains(t, err, "does not say whether it serves")
}
