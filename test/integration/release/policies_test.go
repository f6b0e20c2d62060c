package release

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

func TestS5_OnlyWhoDecidesWritesTheStatuses(t *testing.T) {
	w := newWorld(t)
	w.mayAll(alice)
	w.bind("ClusterRole", "cluster-admin", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: bob})
	eventually(t, func(ctx context.Context) error { return w.may(ctx, bob, "update", "releases", "status", true) })
	admission := &releasev1alpha1.ReleasePlanAdmission{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "admission"}}
	for _, object := range []client.Object{w.plan("plan"), w.release("release"), admission} {
		w.create(w.user(alice), object)
		for _, by := range []string{alice, bob} {
			stored := object.DeepCopyObject().(client.Object)
			require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(object), stored))
			err := w.user(by).Status().Update(t.Context(), stored)
			assert.ErrorContains(t, err, "ValidatingAdmissionPolicy 'countersign-release-status-guard'", "%T by %s", object, by)
			assert.ErrorContains(t, err, "written by the approval controller alone")
			require.NoError(t, w.admin.Status().Update(t.Context(), stored))
		}
	}
}

// withoutWebhooks takes ours away for the time of the test: then the policies are the last who look.
func withoutWebhooks(t *testing.T, w *world) {
	t.Helper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	key := client.ObjectKey{Name: "countersign"}
	require.NoError(t, w.admin.Get(t.Context(), key, mutating))
	require.NoError(t, w.admin.Get(t.Context(), key, validating))
	author := func(ctx context.Context) string {
		probe := w.release("probe")
		if err := w.admin.Create(ctx, probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		return probe.Annotations[approvalv1alpha1.AnnotationAuthor]
	}
	wait := func(want string) {
		eventually(t, func(ctx context.Context) error {
			if got := author(ctx); got != want {
				return fmt.Errorf("the author of a Release is %q, not %q", got, want)
			}
			return nil
		})
	}
	admin := author(t.Context())
	require.NotEmpty(t, admin)
	require.NoError(t, w.admin.Delete(t.Context(), mutating.DeepCopy()))
	require.NoError(t, w.admin.Delete(t.Context(), validating.DeepCopy()))
	t.Cleanup(func() {
		mutating.ObjectMeta = metav1.ObjectMeta{Name: mutating.Name, Labels: mutating.Labels}
		validating.ObjectMeta = metav1.ObjectMeta{Name: validating.Name, Labels: validating.Labels}
		assert.NoError(t, w.admin.Create(context.Background(), mutating))
		assert.NoError(t, w.admin.Create(context.Background(), validating))
		wait(admin)
	})
	wait("")
}

func TestThePoliciesAssertWithoutTheWebhooks(t *testing.T) {
	w := newWorld(t)
	w.bind("ClusterRole", "countersign-release-manager", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: controllerAccount})
	p := w.plan("plan", w.asking)
	w.create(w.user(alice), p)
	mine, automated := w.release("mine"), w.release("automated", w.automated)
	w.create(w.user(alice), mine)
	w.create(w.user(integration), automated)
	withoutWebhooks(t, w)

	author := func(name string) func(client.Object) {
		return func(o client.Object) { annotate(o, approvalv1alpha1.AnnotationAuthor, name) }
	}
	automatedBy := func(name string) func(client.Object) {
		return func(o client.Object) { annotate(o, approvalv1alpha1.AnnotationAutomated, name) }
	}
	stand := func(text string) func(client.Object) {
		return func(o client.Object) { annotate(o, approvalv1alpha1.AnnotationStanding, text) }
	}
	accept := func(text string) func(client.Object) {
		return func(o client.Object) { annotate(o, approvalv1alpha1.AnnotationAccept, text) }
	}
	drop := func(o client.Object) { o.SetAnnotations(nil) }
	tests := map[string]struct {
		object  client.Object
		by      string
		changes []func(client.Object)
		refused string
	}{
		"new Release, nobody":             {w.release("new"), alice, nil, ""},
		"new Release, oneself":            {w.release("new"), alice, []func(client.Object){author(alice)}, ""},
		"new Release, another":            {w.release("new"), alice, []func(client.Object){author(bob)}, "nobody but who makes it"},
		"new Release, automated":          {w.release("new"), robot, []func(client.Object){automatedBy(robot)}, ""},
		"new Release, automated another":  {w.release("new"), robot, []func(client.Object){automatedBy(integration)}, "nobody but who makes it"},
		"new Release, both":               {w.release("new"), robot, []func(client.Object){automatedBy(robot), author(robot)}, "nobody but who makes it"},
		"new Release, automated person":   {w.release("new"), alice, []func(client.Object){automatedBy(alice)}, "only service accounts"},
		"stored Release, noise":           {mine, bob, []func(client.Object){func(o client.Object) { annotate(o, "x", "y") }}, ""},
		"stored Release, another":         {mine, bob, []func(client.Object){author(bob)}, "cannot be changed"},
		"stored Release, dropped":         {mine, alice, []func(client.Object){drop}, "cannot be changed"},
		"stored Release, automated later": {mine, alice, []func(client.Object){automatedBy(alice)}, "cannot be changed"},
		"stored Release, other standing":  {automated, bob, []func(client.Object){stand("{}")}, "cannot be changed"},
		"stored Release, laundered":       {automated, bob, []func(client.Object){author(bob)}, "cannot be changed"},
		"stored Release, copied":          {automated, controllerUser, []func(client.Object){author(alice)}, ""},
		"new plan, oneself":               {w.plan("new"), alice, []func(client.Object){author(alice), stand("{}")}, ""},
		"new plan, another":               {w.plan("new"), alice, []func(client.Object){author(bob)}, "nobody is made to stand"},
		"new plan, a robot":               {w.plan("new"), robot, []func(client.Object){author(robot)}, "nobody is made to stand"},
		"new plan, standing alone":        {w.plan("new"), alice, []func(client.Object){stand("{}")}, "standing under"},
		"new plan, accepted":              {w.plan("new"), alice, []func(client.Object){accept("true")}, "was not taken up"},
		"stored plan, noise":              {p, bob, []func(client.Object){func(o client.Object) { annotate(o, "x", "y") }}, ""},
		"stored plan, another":            {p, bob, []func(client.Object){author("carol")}, "nobody is made to stand"},
		"stored plan, back dated":         {p, bob, []func(client.Object){stand("{}")}, "standing under"},
		"stored plan, taken back":         {p, alice, []func(client.Object){drop, accept("false")}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			object := tc.object.DeepCopyObject().(client.Object)
			isNew := object.GetName() == "new"
			if !isNew {
				require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			}
			for _, change := range tc.changes {
				change(object)
			}
			by, err := w.user(tc.by), error(nil)
			if strings.HasSuffix(tc.by, controllerAccount) {
				by = w.decider()
			}
			if isNew {
				err = by.Create(t.Context(), object, client.DryRunAll)
			} else {
				err = by.Update(t.Context(), object, client.DryRunAll)
			}
			if tc.refused == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "ValidatingAdmissionPolicy 'countersign-release-attribution'")
			assert.ErrorContains(t, err, tc.refused)
		})
	}
}
