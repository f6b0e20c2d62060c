package rule

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

type world struct {
	t        *testing.T
	clock    *testingclock.FakeClock
	client   client.WithWatch
	registry *checks.Registry
	events   *events.FakeRecorder
	ctrl     *Controller
	requeued time.Duration
	// refused is what the API server answers to checks that are made.
	refused error
	// tried is the last check that was made for a try.
	tried *unstructured.Unstructured
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme, corev1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	w := &world{t: t, clock: testingclock.NewFakeClock(start), events: events.NewFakeRecorder(100), registry: &checks.Registry{}}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&approvalv1alpha1.ResourceCheckRule{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			w.tried, _ = obj.(*unstructured.Unstructured)
			if w.refused != nil {
				return w.refused
			}
			return c.Create(ctx, obj, opts...)
		}}).Build()
	w.ctrl = NewController(w.clock, w.client, w.client, w.registry, w.events)
	w.register(metav1.ConditionTrue)
	return w
}

// register takes the kind ApprovalRequest up.
func (w *world) register(ready metav1.ConditionStatus) {
	kind := &approvalv1alpha1.CheckKind{ObjectMeta: metav1.ObjectMeta{Name: "approvalrequest.approval.alaudadevops.io", Generation: 1}}
	kind.Spec = approvalv1alpha1.CheckKindSpec{APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ApprovalRequest", RequestField: ".spec.request"}
	kind.Status.Conditions = []metav1.Condition{{Type: approvalv1alpha1.ConditionReady, Status: ready, ObservedGeneration: 1,
		Reason: approvalv1alpha1.ReasonNotInstalled, Message: "its CRD is missing"}}
	w.registry.Set(kind)
}

func makeRule(change ...func(*approvalv1alpha1.ResourceCheckRule)) *approvalv1alpha1.ResourceCheckRule {
	rule := &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "push", UID: "u1", Generation: 2},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: "Connector", Name: "harbor"},
			CheckTemplate: approvalv1alpha1.CheckTemplate{
				APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ApprovalRequest",
				Spec: runtime.RawExtension{Raw: []byte(`{"policies":[{"name":"owners","numberOfApprovalsRequired":1,"approvers":[{"type":"Group","name":"prod-owners"}]}]}`)},
			},
		},
	}
	for _, c := range change {
		c(rule)
	}
	return rule
}

func connector() *connectorsv1alpha1.Connector {
	return &connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "harbor"}}
}

func (w *world) reconcile() *approvalv1alpha1.ResourceCheckRule {
	w.t.Helper()
	key := types.NamespacedName{Namespace: "prod", Name: "push"}
	result, err := w.ctrl.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
	require.NoError(w.t, err)
	w.requeued = result.RequeueAfter
	rule := &approvalv1alpha1.ResourceCheckRule{}
	require.NoError(w.t, w.client.Get(context.Background(), key, rule))
	return rule
}

func (w *world) event() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return ""
	}
}

func ready(rule *approvalv1alpha1.ResourceCheckRule) *metav1.Condition {
	return apimeta.FindStatusCondition(rule.Status.Conditions, approvalv1alpha1.ConditionReady)
}

func TestReady(t *testing.T) {
	w := newWorld(t, makeRule(), connector())
	rule := w.reconcile()
	assert.Equal(t, metav1.ConditionTrue, ready(rule).Status, ready(rule).Message)
	assert.Equal(t, int64(2), ready(rule).ObservedGeneration)
	assert.Equal(t, int64(2), rule.Status.ObservedGeneration)
	assert.True(t, ready(rule).LastTransitionTime.Time.Equal(start))
	assert.Equal(t, recheckReady, w.requeued)
	assert.Contains(t, w.event(), "Normal Ready")

	require.NotNil(t, w.tried)
	asked, _, err := unstructured.NestedString(w.tried.Object, "spec", "request", "rule", "name")
	require.NoError(t, err)
	assert.Equal(t, "push", asked, "the try has a question like a real one")
	var made approvalv1alpha1.ApprovalRequestList
	require.NoError(t, w.client.List(context.Background(), &made))
	assert.Empty(t, made.Items, "the try leaves nothing behind")

	version := rule.ResourceVersion
	w.clock.Step(time.Hour)
	assert.Equal(t, version, w.reconcile().ResourceVersion, "nothing is written while nothing changes")
	assert.Empty(t, w.event())
}

func TestNotReady(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "approval.alaudadevops.io", Kind: "ApprovalRequest"}, "x", nil)
	tests := map[string]struct {
		rule    *approvalv1alpha1.ResourceCheckRule
		kind    metav1.ConditionStatus
		refused error
		missing bool
		reason  string
		message string
	}{
		"nobody registered the kind": {rule: makeRule(func(r *approvalv1alpha1.ResourceCheckRule) { r.Spec.CheckTemplate.Kind = "Lottery" }),
			reason: "UnknownCheckKind", message: "no CheckKind registers Lottery.approval.alaudadevops.io"},
		"the kind is not ready": {kind: metav1.ConditionFalse, reason: "UnknownCheckKind", message: "its CRD is missing"},
		"the template is refused": {refused: invalid, reason: "InvalidTemplate",
			message: "the API server refuses a check made from spec.checkTemplate: " + invalid.Error()},
		"the template is forbidden": {refused: apierrors.NewForbidden(schema.GroupResource{Resource: "approvalrequests"}, "x", nil),
			reason: "InvalidTemplate", message: "the API server refuses"},
		"the template is no object": {rule: makeRule(func(r *approvalv1alpha1.ResourceCheckRule) { r.Spec.CheckTemplate.Spec.Raw = []byte(`[1]`) }),
			reason: "InvalidTemplate", message: "no check can be made from spec.checkTemplate"},
		"a webhook without dry run": {refused: apierrors.NewBadRequest("admission webhook lottery.example.com does not support dry run"),
			reason: "DryRunUnsupported", message: "does not support dry run, so the template cannot be tried"},
		"a pattern that cannot be read": {rule: makeRule(func(r *approvalv1alpha1.ResourceCheckRule) {
			r.Spec.When = &approvalv1alpha1.OperationSelector{HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{"/a/**/b"}}}
		}), reason: "InvalidSpec", message: "spec.when cannot be read, so the rule applies to everything"},
		"the object is missing": {missing: true, reason: "ObjectMissing", message: "there is no Connector harbor in namespace prod yet"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rule := tt.rule
			if rule == nil {
				rule = makeRule()
			}
			w := newWorld(t, rule)
			if !tt.missing {
				require.NoError(t, w.client.Create(context.Background(), connector()))
			}
			if tt.kind != "" {
				w.register(tt.kind)
			}
			w.refused = tt.refused
			condition := ready(w.reconcile())
			assert.Equal(t, metav1.ConditionFalse, condition.Status)
			assert.Equal(t, tt.reason, condition.Reason)
			assert.Contains(t, condition.Message, tt.message)
			assert.Equal(t, recheckNotReady, w.requeued)
			assert.True(t, strings.HasPrefix(w.event(), "Warning "+tt.reason))
		})
	}
}

func TestAnAPIServerThatDoesNotAnswerChangesNothing(t *testing.T) {
	w := newWorld(t, makeRule(), connector())
	w.reconcile()
	w.refused = apierrors.NewServiceUnavailable("later")
	_, err := w.ctrl.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "prod", Name: "push"}})
	require.Error(t, err)
	w.refused = nil
	assert.Equal(t, metav1.ConditionTrue, ready(w.reconcile()).Status)
}

func TestNothingIsSaidBeforeTheRegistryHasSeenTheKind(t *testing.T) {
	kind := &approvalv1alpha1.CheckKind{ObjectMeta: metav1.ObjectMeta{Name: "approvalrequest.approval.alaudadevops.io"},
		Spec: approvalv1alpha1.CheckKindSpec{APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ApprovalRequest"}}
	w := newWorld(t, makeRule(), connector(), kind)
	w.registry.Delete(kind.Name)
	assert.Nil(t, ready(w.reconcile()), "a restart must not close what the rule guards")
	assert.Equal(t, recheckLagging, w.requeued)
	w.register(metav1.ConditionTrue)
	assert.Equal(t, metav1.ConditionTrue, ready(w.reconcile()).Status)
}

func TestRecovers(t *testing.T) {
	w := newWorld(t, makeRule())
	assert.Equal(t, approvalv1alpha1.ReasonObjectMissing, ready(w.reconcile()).Reason)
	require.NoError(t, w.client.Create(context.Background(), connector()))
	w.clock.Step(time.Minute)
	condition := ready(w.reconcile())
	assert.Equal(t, metav1.ConditionTrue, condition.Status)
	assert.True(t, condition.LastTransitionTime.Time.Equal(start.Add(time.Minute)))
}

func TestWhatBringsRulesBack(t *testing.T) {
	other := makeRule(func(r *approvalv1alpha1.ResourceCheckRule) { r.Name, r.Spec.ObjectRef.Name = "other", "gitlab" })
	w := newWorld(t, makeRule(), other)
	got := w.ctrl.rulesOfConnector(context.Background(), connector())
	require.Len(t, got, 1)
	assert.Equal(t, "prod/push", got[0].String())
	assert.Len(t, w.ctrl.allRules(context.Background(), nil), 2)
	w.ctrl.kindChanged(schema.GroupKind{})
	w.ctrl.kindChanged(schema.GroupKind{})
	assert.Len(t, w.ctrl.kinds, 1, "a change of a kind never waits")
}
