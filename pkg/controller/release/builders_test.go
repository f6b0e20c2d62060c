package release

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

const (
	alice   = "alice@example.com"
	bob     = "bob@example.com"
	ci      = "system:serviceaccount:ci:integration"
	ownName = "system:serviceaccount:countersign-system:countersign-controller"
)

var (
	// now is the controller's clock; the Release was made a minute before.
	now     = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	made    = metav1.NewTime(now.Add(-time.Minute))
	epoch   = now.Add(-time.Hour)
	askedAt = metav1.NewTime(now.Add(-30 * time.Second))
)

// change alters the world that newFacts returns.
type change func(*facts)

// newFacts is a Release of alice that has everything it needs and has been granted, but for what the changes say.
func newFacts(changes ...change) *facts {
	f := &facts{
		words: attribution.Default(), username: ownName, now: now, since: epoch,
		plan: &releasev1alpha1.ReleasePlan{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod", UID: "plan", Generation: 3},
			Spec:       releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: "managed"},
		},
		admissions: []releasev1alpha1.ReleasePlanAdmission{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "managed", Name: "shop"},
			Spec: releasev1alpha1.ReleasePlanAdmissionSpec{
				Applications: []string{"shop"}, Origin: "tenant", Policy: "strict",
				Pipeline: &releasev1alpha1.Pipeline{PipelineRef: releasev1alpha1.PipelineRef{Name: "push"}, ServiceAccountName: "pusher"},
			},
		}},
	}
	f.release = &releasev1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant", Name: "shop-1", UID: "release", Generation: 1, CreationTimestamp: made,
			Annotations: map[string]string{
				approvalv1alpha1.AnnotationAuthor:   alice,
				approvalv1alpha1.AnnotationStanding: standingOn(nil).String(),
			},
			Labels: map[string]string{f.words.AuthorLabel: attribution.LabelValue(alice)},
		},
		Spec: releasev1alpha1.ReleaseSpec{Snapshot: "shop-abc", ReleasePlan: "prod"},
	}
	f.rules = []approvalv1alpha1.ResourceCheckRule{*attributionRuleOf(f.plan)}
	f.request = newRequest(f)
	f.request.Name, f.request.UID, f.request.CreationTimestamp = "rcr-1", "request", askedAt
	f.request.Spec.RequestedBy = &approvalv1alpha1.Identity{Username: ownName}
	f.request.Spec.Context.Subject = &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: alice}
	f.request.Status.Object = &approvalv1alpha1.ObjectSnapshot{UID: "plan", Generation: 3}
	f.request.Status.Validity = &approvalv1alpha1.Validity{NotBefore: askedAt, NotAfter: metav1.NewTime(now.Add(time.Hour))}
	f.answer("attribution-prod", "rule", duckv1alpha1.CheckApproved, "alice is known")
	f.check = &approvalv1alpha1.AttributionCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "check", UID: "check"},
		Status: approvalv1alpha1.AttributionCheckStatus{
			CheckStatus: duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckApproved, Reason: approvalv1alpha1.ReasonAttributed},
			Author:      &approvalv1alpha1.Author{Username: alice}, Verified: true, VerifiedAt: &askedAt,
		},
	}
	for _, c := range changes {
		c(f)
	}
	return f
}

func attributionRuleOf(plan *releasev1alpha1.ReleasePlan) *approvalv1alpha1.ResourceCheckRule {
	rule := wantedRule(plan)
	rule.UID, rule.Generation = "rule", 1
	return rule
}

// standingOn is what admission fixes on a Release of the plan as newFacts has it.
func standingOn(change func(*attribution.Standing)) *attribution.Standing {
	s := &attribution.Standing{Kind: "ReleasePlan", Namespace: "tenant", Name: "prod", UID: "plan", Generation: 3}
	if change != nil {
		change(s)
	}
	return s
}

// answer adds a result of a rule of generation 1.
func (f *facts) answer(rule string, uid types.UID, state duckv1alpha1.CheckState, message string) {
	f.request.Status.Results = append(f.request.Status.Results, approvalv1alpha1.CheckResult{
		Name: rule, UID: uid, Generation: 1, State: state, Message: message,
	})
	f.request.Status.RequestRefs = append(f.request.Status.RequestRefs, approvalv1alpha1.CheckReference{
		Name: rule, APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: kindAttributionCheck, Namespace: "tenant", ObjectName: "check", UID: "check",
	})
}

// automatedBy makes the Release one of a program, for which alice stood unless the change says otherwise.
func automatedBy(robot string, standing func(*attribution.Standing)) change {
	return func(f *facts) {
		delete(f.release.Labels, f.words.AuthorLabel)
		word := standingOn(func(s *attribution.Standing) {
			s.Author, s.AcceptedAt = alice, epoch
			if standing != nil {
				standing(s)
			}
		})
		f.release.Annotations = map[string]string{approvalv1alpha1.AnnotationAutomated: robot, approvalv1alpha1.AnnotationStanding: word.String()}
		f.plan.Annotations = map[string]string{approvalv1alpha1.AnnotationAuthor: word.Author, approvalv1alpha1.AnnotationStanding: word.String()}
	}
}

// people adds a rule that asks people, with their answer.
func people(state duckv1alpha1.CheckState, message string, waiting ...string) change {
	return func(f *facts) {
		rule := approvalv1alpha1.ResourceCheckRule{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "owners", UID: "owners", Generation: 1}}
		rule.Spec.ObjectRef = wantedRule(f.plan).Spec.ObjectRef
		rule.Spec.CheckTemplate.Kind = "ApprovalRequest"
		f.rules = append(f.rules, rule)
		f.answer("owners", "owners", state, message)
		last := &f.request.Status.Results[len(f.request.Status.Results)-1]
		for _, group := range waiting {
			last.WaitingFor = append(last.WaitingFor, duckv1alpha1.CheckWaiting{Kind: duckv1alpha1.WaitingForGroup, Name: group})
		}
		if state == duckv1alpha1.CheckPending {
			f.request.Status.Validity = nil
		}
	}
}

func ended(reason, message string) change {
	return func(f *facts) {
		f.request.Status.Ended = &approvalv1alpha1.Ended{At: askedAt, Reason: reason, Message: message}
	}
}

// refuses lets the attribution check reject.
func refuses(reason, message string) change {
	return func(f *facts) {
		f.request.Status.Results[0].State, f.request.Status.Results[0].Message = duckv1alpha1.CheckRejected, message
		f.check.Status.State, f.check.Status.Reason, f.check.Status.Message = duckv1alpha1.CheckRejected, reason, message
		ended(approvalv1alpha1.ReasonChecksRejected, `rule "attribution-prod": `+message)(f)
	}
}

// stored has the Release as the last step left it.
func stored(f *facts) *step {
	s := compute(f)
	f.release.Status = *s.status.DeepCopy()
	if s.copyAuthor != "" {
		f.release.Annotations[approvalv1alpha1.AnnotationAuthor] = s.copyAuthor
		f.release.Labels[f.words.AuthorLabel] = attribution.LabelValue(s.copyAuthor)
	}
	return s
}

// runsAs lets the Release have started its run, which looks like this now.
func runsAs(succeeded metav1.ConditionStatus, reason, message string) change {
	return func(f *facts) {
		s := stored(f)
		f.run = s.start.DeepCopy()
		f.run.SetCreationTimestamp(metav1.NewTime(now))
		f.run.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationCreatedBy: ownName})
		if succeeded != "" {
			f.run.Object["status"] = map[string]any{
				"conditions":     []any{map[string]any{"type": "Succeeded", "status": string(succeeded), "reason": reason, "message": message}},
				"completionTime": now.Add(time.Minute).Format(time.RFC3339),
			}
		}
	}
}

// started lets the status know of the run.
func started(f *facts) {
	run := f.run
	f.run = run.DeepCopy()
	delete(f.run.Object, "status")
	stored(f)
	f.run = run
}

func (s *step) condition(kind string) metav1.Condition {
	if c := apimeta.FindStatusCondition(s.status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// told is a condition in one line.
func (s *step) told(kind string) string {
	c := s.condition(kind)
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func paramsOf(run *unstructured.Unstructured) map[string]any {
	params := map[string]any{}
	list, _, _ := unstructured.NestedSlice(run.Object, "spec", "params")
	for _, entry := range list {
		params[entry.(map[string]any)["name"].(string)] = entry.(map[string]any)["value"]
	}
	return params
}
