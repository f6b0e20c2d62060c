package releases

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// standingIs tells whether the plan says so of who stands for it.
func standingIs(w *world, plan *releasev1alpha1.ReleasePlan, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := w.admin.Get(ctx, keyOf(plan), plan); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(plan.Status.Conditions, releasev1alpha1.ConditionStandingAttributionValid)
		if c == nil || string(c.Status)+" "+c.Reason != want {
			return fmt.Errorf("the plan is not yet so: %+v", plan.Status)
		}
		return nil
	}
}

func eventIs(w *world, object client.Object, begins string) func(context.Context) error {
	return func(context.Context) error {
		notes := w.events(object)
		for _, note := range notes {
			if strings.HasPrefix(note, begins) {
				return nil
			}
		}
		return fmt.Errorf("there is no such event among %q", notes)
	}
}

func eventuallyAsked(t *testing.T, name string, times int) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if asked := sso.questions(name); asked < times {
			return fmt.Errorf("the directory was asked %d times", asked)
		}
		return nil
	})
}

func TestPeopleApproveARelease(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	w.peopleRule()
	release := w.release(alice)
	w.says(release, validated, "waits for the answer to rule owners from group owners")
	assert.Contains(t, told(release, validated), "Unknown ChecksPending")
	assert.Contains(t, told(release, released), "Unknown Progressing")
	assert.Empty(t, w.runs())
	w.answer(release, approvalv1alpha1.DecisionApprove)
	w.runOf(release)
	assert.Len(t, w.requests(), 1)
	eventually(t, eventIs(w, release, "Normal ChecksPending: "))
	eventually(t, eventIs(w, release, "Normal Succeeded: "+w.alice))
	eventually(t, eventIs(w, release, "Normal Progressing: the pipeline run "+w.managed))
}

func TestPeopleRejectARelease(t *testing.T) {
	w := newWorld(t)
	alice := w.person(w.alice)
	w.plan(alice)
	w.peopleRule()
	release := w.release(alice)
	w.answer(release, approvalv1alpha1.DecisionReject)
	w.says(release, released, "False Failed")
	assert.Contains(t, told(release, validated), "False ChecksRejected")
	assert.Contains(t, told(release, validated), "because")
	assert.Empty(t, w.runs())
	eventually(t, eventIs(w, release, "Warning ChecksRejected: "))
}

// Who may write rules cannot make the author's verification go away.
func TestTheAttributionRuleIsRestored(t *testing.T) {
	weaken := map[string]func(*approvalv1alpha1.ResourceCheckRule){
		"no person": func(r *approvalv1alpha1.ResourceCheckRule) {
			r.Spec.CheckTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"requireHuman":false}`)}
		},
		"only reads": func(r *approvalv1alpha1.ResourceCheckRule) {
			r.Spec.When = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationRead}}
		},
		"somebody else's": func(r *approvalv1alpha1.ResourceCheckRule) {
			r.Spec.CheckTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"requireHuman":true,"resource":{"apiVersion":"v1","kind":"ConfigMap","name":"kube-root-ca.crt"}}`)}
		},
		"gone": nil,
	}
	for name, change := range weaken {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sso.leaves(w.alice)
			w.plan(w.person("carol@example.com"))
			w.peopleRule()
			first := w.release(w.person("carol@example.com"))
			w.says(first, validated, "from group owners")

			olga := w.person("olga@example.com", "owners")
			rule := &approvalv1alpha1.ResourceCheckRule{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "attribution-prod"}}
			require.NoError(t, w.admin.Get(t.Context(), keyOf(rule), rule))
			before := rule.DeepCopy()
			if change == nil {
				require.NoError(t, olga.Delete(t.Context(), rule))
			} else {
				change(rule)
				require.NoError(t, olga.Update(t.Context(), rule))
			}
			// alice has left, so a Release of hers must fail by the rule as it was.
			release := w.release(w.person(w.alice))
			w.says(release, released, "False Failed")
			assert.Contains(t, told(release, validated), "False ValidationError")
			require.NoError(t, w.admin.Get(t.Context(), keyOf(before), rule))
			assert.Equal(t, before.Spec, rule.Spec)
			// What waited is asked again, and goes on.
			w.answer(first, approvalv1alpha1.DecisionApprove)
			w.runOf(first)
			assert.Len(t, w.runs(), 1)
		})
	}
}

// A rule that took the name for something else must not let Releases through, and says so.
func TestAnotherRuleHasTheName(t *testing.T) {
	w := newWorld(t)
	w.create(w.person("olga@example.com", "owners"), &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "attribution-prod"},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef:     approvalv1alpha1.ObjectReference{APIVersion: "appstudio.redhat.com/v1alpha1", Kind: "ReleasePlan", Name: "other"},
			CheckTemplate: approvalv1alpha1.CheckTemplate{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "AttributionCheck"},
		},
	})
	alice := w.person(w.alice)
	w.plan(alice)
	release := w.release(alice)
	w.says(release, validated, "Unknown RuleNotReady: the rule "+w.tenant+"/attribution-prod guards something else")
	require.NoError(t, w.admin.Delete(t.Context(), &approvalv1alpha1.ResourceCheckRule{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "attribution-prod"}}))
	w.touch(release)
	w.runOf(release)
}

func (w *world) touch(object client.Object) {
	w.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"test.example.com/touched":"yes"}}}`))
	require.NoError(w.t, w.admin.Patch(w.t.Context(), object, patch))
}

// What a Release lacks is told at once, and nobody is asked.
func TestWhatIsMissing(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world)
		edit    func(*releasev1alpha1.Release)
		want    string
	}{
		"plan":     {func(*world) {}, nil, "stands on no ReleasePlan"},
		"snapshot": {func(w *world) { w.plan(w.person(w.alice)) }, func(r *releasev1alpha1.Release) { r.Spec.Snapshot = "" }, "spec.snapshot is empty"},
		"admission": {func(w *world) {
			w.plan(w.person(w.alice), func(p *releasev1alpha1.ReleasePlan) { p.Spec.Application = "other" })
		}, nil, "no ReleasePlanAdmission in namespace"},
		"target": {func(w *world) {
			w.plan(w.person(w.alice), func(p *releasev1alpha1.ReleasePlan) { p.Spec.Target = "" })
		}, nil, "names no target"},
		"leave of the other side": {func(w *world) {
			w.plan(w.person(w.alice))
			admission := &releasev1alpha1.ReleasePlanAdmission{ObjectMeta: metav1.ObjectMeta{Namespace: w.managed, Name: "shop"}}
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+words.BlockReleasesLabel+`":"true"}}}`))
			require.NoError(w.t, w.admin.Patch(w.t.Context(), admission, patch))
		}, nil, "lets no Releases through now"},
		"pipeline": {func(w *world) {
			w.plan(w.person(w.alice))
			require.NoError(w.t, w.admin.Delete(w.t.Context(), tekton("Pipeline", w.managed, "push")))
		}, nil, "there is no Pipeline"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.prepare(w)
			release := w.release(w.person(w.alice), func(r *releasev1alpha1.Release) {
				if tc.edit != nil {
					tc.edit(r)
				}
			})
			w.says(release, validated, tc.want)
			assert.Contains(t, told(release, validated), "False ValidationError")
			assert.Contains(t, told(release, released), "False Failed")
			assert.Empty(t, w.requests())
			assert.Empty(t, w.runs())
			eventually(t, eventIs(w, release, "Warning ValidationError: "))
		})
	}
}
