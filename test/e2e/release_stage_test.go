package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/env"
)

// The words of the ADR.
const (
	authorLabel    = "release.rhtap.openshift.io/author"
	automatedLabel = "release.rhtap.openshift.io/automated"
	standingLabel  = "release.rhtap.openshift.io/standing-attribution"

	// integration is the service account that the environment lists for automated Releases.
	integration = "system:serviceaccount:team-a:integration"
	planName    = "shop"
)

// releases is a stage on which a team releases into production.
type releases struct{ *stage }

// newReleases makes the pipeline of production and the admission that lets the team's Releases in. Everybody whom the
// tests act as may do everything in both namespaces, except what needs cluster-wide verbs.
func newReleases(t *testing.T) *releases {
	t.Helper()
	return newReleasesOn(newStage(t))
}

func newReleasesOn(s *stage) *releases {
	s.Helper()
	r := &releases{s}
	r.bind(r.team, "cluster-admin", group("developers"), group("system:serviceaccounts"))
	r.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.prod, Name: "release-pipeline"}})
	r.pipeline()
	r.create(&releasev1alpha1.ReleasePlanAdmission{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.prod, Name: "shop"},
		Spec: releasev1alpha1.ReleasePlanAdmissionSpec{
			Applications: []string{"shop"}, Origin: r.team, Policy: "default",
			Pipeline: &releasev1alpha1.Pipeline{
				PipelineRef: releasev1alpha1.PipelineRef{Name: "release"}, ServiceAccountName: "release-pipeline",
			},
		},
	})
	return r
}

// pipeline is one task that is told who answers for the Release.
func (r *releases) pipeline() {
	r.Helper()
	names := []string{"release", "snapshot", "attributionAuthor", "attributionStanding", "attributionVerified"}
	var declared, handed, args []any
	for _, name := range names {
		declared = append(declared, map[string]any{"name": name})
		handed = append(handed, map[string]any{"name": name, "value": "$(params." + name + ")"})
		args = append(args, name+"=$(params."+name+")")
	}
	pipeline := tektonObject("Pipeline", r.prod, "release", map[string]any{
		"params": declared,
		"tasks": []any{map[string]any{
			"name": "promote", "params": handed,
			"taskSpec": map[string]any{
				"params": declared,
				"steps":  []any{map[string]any{"name": "promote", "image": "promote", "command": []any{"promote"}, "args": args}},
			},
		}},
	})
	require.NoError(r, client.IgnoreAlreadyExists(r.admin.Create(r.ctx, pipeline)))
}

// somebody is a person of this test alone, whom the directory knows.
func (r *releases) somebody(name string) string {
	r.Helper()
	mail := name + "@" + r.team + ".example.com"
	plane.people.joins(r, mail)
	return mail
}

// as is a client of any user, by impersonation, with the groups that the user has.
func (r *releases) as(user string) client.Client {
	groups := []string{"developers", "system:authenticated"}
	if namespace, _, ok := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount:"), ":"); ok && strings.HasPrefix(user, "system:serviceaccount:") {
		groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	}
	return plane.impersonating(r.T, user, groups...)
}

type change func(client.Object)

func labelled(key, value string) change {
	return func(o client.Object) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		o.SetLabels(labels)
	}
}

func annotated(key, value string) change {
	return func(o client.Object) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		o.SetAnnotations(annotations)
	}
}

var (
	automated = labelled(automatedLabel, "true")
	standing  = labelled(standingLabel, "true")
)

// plan makes the team's plan as somebody.
func (r *releases) plan(user string, changes ...change) *releasev1alpha1.ReleasePlan {
	r.Helper()
	plan := &releasev1alpha1.ReleasePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.team, Name: planName},
		Spec:       releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: r.prod},
	}
	for _, c := range changes {
		c(plan)
	}
	require.NoError(r, r.as(user).Create(r.ctx, plan))
	return plan
}

func (r *releases) newRelease(changes ...change) *releasev1alpha1.Release {
	release := &releasev1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.team, GenerateName: "shop-"},
		Spec:       releasev1alpha1.ReleaseSpec{ReleasePlan: planName, Snapshot: "shop-1"},
	}
	for _, c := range changes {
		c(release)
	}
	return release
}

// release makes a Release as somebody.
func (r *releases) release(user string, changes ...change) *releasev1alpha1.Release {
	r.Helper()
	release := r.newRelease(changes...)
	require.NoError(r, r.as(user).Create(r.ctx, release))
	return release
}

func (r *releases) now(release *releasev1alpha1.Release) *releasev1alpha1.Release {
	r.Helper()
	fresh := &releasev1alpha1.Release{}
	require.NoError(r, r.admin.Get(r.ctx, client.ObjectKeyFromObject(release), fresh))
	return fresh
}

// shows waits until a condition has the status and the reason, and the message has all words.
func (r *releases) shows(release *releasev1alpha1.Release, kind string, status metav1.ConditionStatus, reason string, words ...string) *releasev1alpha1.Release {
	r.Helper()
	var fresh *releasev1alpha1.Release
	r.eventually(fmt.Sprintf("%s is %s (%s)", kind, status, reason), func() error {
		fresh = r.now(release)
		return conditionIs(fresh.Status.Conditions, kind, status, reason, words...)
	})
	return fresh
}

func conditionIs(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason string, words ...string) error {
	condition := apimeta.FindStatusCondition(conditions, kind)
	if condition == nil || condition.Status != status || condition.Reason != reason {
		return fmt.Errorf("the conditions are %+v", conditions)
	}
	for _, word := range words {
		if !strings.Contains(condition.Message, word) {
			return fmt.Errorf("the message does not say %q: %s", word, condition.Message)
		}
	}
	return nil
}

// succeeds waits until the Release has run.
func (r *releases) succeeds(release *releasev1alpha1.Release) *releasev1alpha1.Release {
	r.Helper()
	return r.shows(release, releasev1alpha1.ConditionReleased, metav1.ConditionTrue, releasev1alpha1.ReasonSucceeded)
}

// fails waits until the Release is refused, and proves that nothing ran.
func (r *releases) fails(release *releasev1alpha1.Release, words ...string) *releasev1alpha1.Release {
	r.Helper()
	fresh := r.shows(release, releasev1alpha1.ConditionValidated, metav1.ConditionFalse, releasev1alpha1.ReasonValidationError, words...)
	require.False(r, fresh.Status.Attribution != nil && fresh.Status.Attribution.Verified, "what failed is not verified: %+v", fresh.Status)
	r.ranNothing(release)
	return fresh
}

// ranNothing tells that no run was made for the Release, in any namespace.
func (r *releases) ranNothing(release *releasev1alpha1.Release) {
	r.Helper()
	require.Empty(r, r.runsOf(release), "no pipeline runs for it")
}

// runsOf are the runs of a Release in the whole cluster, by the label that the controller gives them.
func (r *releases) runsOf(release *releasev1alpha1.Release) []unstructured.Unstructured {
	r.Helper()
	require.NotEmpty(r, release.UID)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: "PipelineRunList"})
	require.NoError(r, r.admin.List(r.ctx, list, client.MatchingLabels{releasev1alpha1.LabelReleaseUID: string(release.UID)}))
	return list.Items
}

func verifiedIs(release *releasev1alpha1.Release) error {
	if release.Status.Attribution == nil || !release.Status.Attribution.Verified {
		return fmt.Errorf("the status is %+v", release.Status)
	}
	return nil
}

// authorChecks are the checks of who answers for the Release.
func (r *releases) authorChecks(release *releasev1alpha1.Release) []approvalv1alpha1.AttributionCheck {
	r.Helper()
	request := r.fetch(named(r.team, r.now(release).Status.Request))
	var list approvalv1alpha1.AttributionCheckList
	require.NoError(r, r.admin.List(r.ctx, &list, client.InNamespace(r.team), client.MatchingLabels{approvalv1alpha1.LabelRequestUID: string(request.UID)}))
	return list.Items
}

// cacheForgets waits until the controller believes no more what the directory said so far. The witness is asked for from
// now on, as who stands for the plan, and leaves: once that is noticed, older answers are forgotten as well.
func (r *releases) cacheForgets(plan *releasev1alpha1.ReleasePlan, witness string) {
	r.Helper()
	require.NoError(r, r.patch(witness, plan, `{"metadata":{"labels":{"`+standingLabel+`":"true"}}}`))
	r.planShows(metav1.ConditionTrue, releasev1alpha1.ReasonVerified)
	plane.people.leaves(r, witness)
	r.planShows(metav1.ConditionFalse, releasev1alpha1.ReasonAuthorUnknown, witness)
}

// planShows waits until the plan says how its standing author is.
func (r *releases) planShows(status metav1.ConditionStatus, reason string, words ...string) *releasev1alpha1.ReleasePlan {
	r.Helper()
	var plan *releasev1alpha1.ReleasePlan
	r.eventuallyWithin(remembered+timeout, "the plan shows "+reason, func() error {
		plan = r.planNow()
		return conditionIs(plan.Status.Conditions, releasev1alpha1.ConditionStandingAttributionValid, status, reason, words...)
	})
	return plan
}

func (r *releases) planNow() *releasev1alpha1.ReleasePlan {
	r.Helper()
	plan := &releasev1alpha1.ReleasePlan{}
	require.NoError(r, r.admin.Get(r.ctx, client.ObjectKey{Namespace: r.team, Name: planName}, plan))
	return plan
}

// patch merges into an object as somebody.
func (r *releases) patch(user string, object client.Object, patch string) error {
	return r.as(user).Patch(r.ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// planRule gates the plan by another check.
func (r *releases) planRule(name, kind, spec string) {
	r.Helper()
	rule := r.newRule(name, kind, spec, func(rule *approvalv1alpha1.ResourceCheckRule) {
		rule.Namespace = r.team
		rule.Spec.ObjectRef = approvalv1alpha1.ObjectReference{
			APIVersion: releasev1alpha1.GroupVersion.String(), Kind: releasev1alpha1.KindReleasePlan, Name: planName,
		}
	})
	r.create(rule)
}

// hold lets the pods of the pipeline run until a test ends them.
func (r *releases) hold() {
	r.Helper()
	pipeline := tektonObject("Pipeline", r.prod, "release", nil)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, env.PodHold)
	require.NoError(r, r.admin.Patch(r.ctx, pipeline, client.RawPatch(types.MergePatchType, patch)))
}

// podOf is the running pod of a Release's one task.
func (r *releases) podOf(release *releasev1alpha1.Release) *corev1.Pod {
	r.Helper()
	_, run, _ := strings.Cut(r.now(release).Status.ManagedProcessing.PipelineRun, "/")
	var pod corev1.Pod
	r.eventually("the task of "+run+" runs", func() error {
		var pods corev1.PodList
		if err := r.admin.List(r.ctx, &pods, client.InNamespace(r.prod), client.MatchingLabels{"tekton.dev/pipelineRun": run}); err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it has %d pods, none of which runs yet", len(pods.Items))
		}
		pod = pods.Items[0]
		return nil
	})
	return &pod
}

func (r *releases) hasEvent(object client.Object, reason string) error {
	var events eventsv1.EventList
	if err := r.admin.List(r.ctx, &events, client.InNamespace(object.GetNamespace())); err != nil {
		return err
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Regarding.UID == object.GetUID() && e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("none of %d events has the reason %s", len(events.Items), reason)
}

// answerOnPlan answers a check of the plan; the rules of a plan live with it.
func (r *releases) answerOnPlan(person string, request *approvalv1alpha1.ResourceCheckRequest, rule string, decision approvalv1alpha1.ApprovalDecision) error {
	r.Helper()
	prod := r.prod
	defer func() { r.prod = prod }()
	r.prod = r.team
	return r.answer(person, request, rule, decision)
}
