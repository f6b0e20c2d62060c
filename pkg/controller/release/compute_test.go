package release

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// What fails the validation ends the Release, with the same sentence in both conditions.
func TestInvalid(t *testing.T) {
	const validationError = releasev1alpha1.ReasonValidationError
	expired := now.Add(-time.Second)
	tests := map[string]struct {
		changes    []change
		wantReason string
		want       string
	}{
		"no plan named":        {[]change{func(f *facts) { f.release.Spec.ReleasePlan, f.plan = "", nil }}, validationError, "spec.releasePlan is empty"},
		"no snapshot":          {[]change{func(f *facts) { f.release.Spec.Snapshot = "" }}, validationError, "spec.snapshot is empty"},
		"plan gone":            {[]change{func(f *facts) { f.plan = nil }}, validationError, "the ReleasePlan prod that Release tenant/shop-1 stands on is gone"},
		"another plan":         {[]change{func(f *facts) { f.plan.UID = "other" }}, validationError, "was deleted and made anew"},
		"no plan at admission": {[]change{func(f *facts) { delete(f.release.Annotations, approvalv1alpha1.AnnotationStanding) }}, validationError, "there was none when it was made"},
		"unreadable record":    {[]change{func(f *facts) { f.release.Annotations[approvalv1alpha1.AnnotationStanding] = "{" }}, validationError, "stands on no ReleasePlan"},
		"nobody": {[]change{func(f *facts) {
			delete(f.release.Annotations, approvalv1alpha1.AnnotationAuthor)
		}}, validationError, "nobody is recorded as the author"},
		"automated, nobody stood": {[]change{automatedBy(ci, func(s *attribution.Standing) { s.Author = "" })}, validationError, "then create the Release anew (to accept, type `kubectl countersign accept releaseplan/prod -n tenant`)"},
		"plan changed":            {[]change{func(f *facts) { f.plan.Generation = 4 }}, validationError, "was changed after Release tenant/shop-1 was made"},
		"automated, plan changed": {[]change{automatedBy(ci, nil), func(f *facts) { f.plan.Generation = 4 }}, validationError, "was changed after the Release was made"},
		"automated, stood until":  {[]change{automatedBy(ci, func(s *attribution.Standing) { s.ExpiresAt = &expired })}, validationError, "and that is over"},
		"robot":                   {[]change{func(f *facts) { f.release.Annotations[approvalv1alpha1.AnnotationAuthor] = ci }}, validationError, "only the robot " + ci},
		"no admission":            {[]change{func(f *facts) { f.admissions = nil }}, validationError, "no ReleasePlanAdmission in namespace managed"},
		"blocked": {[]change{func(f *facts) {
			f.admissions[0].Labels = map[string]string{f.words.BlockReleasesLabel: "true"}
		}}, validationError, "lets no Releases through now"},
		"no pipeline":      {[]change{func(f *facts) { f.admissions[0].Spec.Pipeline = nil }}, validationError, "names no pipeline"},
		"pipeline missing": {[]change{func(f *facts) { f.pipelineMissing = "there is no Pipeline" }}, validationError, "there is no Pipeline"},
		"rejected by people": {[]change{people(duckv1alpha1.CheckRejected, "bob said no"), ended(approvalv1alpha1.ReasonChecksRejected, `rule "owners": bob said no.`)},
			approvalv1alpha1.ReasonChecksRejected, `request tenant/rcr-1 ended (ChecksRejected): rule "owners": bob said no: create the Release anew`},
		"expired": {[]change{ended(approvalv1alpha1.ReasonExpired, "nobody answered")}, approvalv1alpha1.ReasonExpired, "request tenant/rcr-1 ended (Expired): nobody answered"},
		"its time is over": {[]change{func(f *facts) { f.request.Status.Validity.NotAfter = metav1.NewTime(now) }}, approvalv1alpha1.ReasonExpired,
			"request tenant/rcr-1 ended (Expired): create the Release anew"},
		"revoked": {[]change{func(f *facts) { f.request.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: "no", By: bob} }}, approvalv1alpha1.ReasonRevoked,
			"request tenant/rcr-1 was revoked by " + bob},
		"author unknown": {[]change{refuses(approvalv1alpha1.ReasonAuthorUnknown, "the directory does not know alice.")}, validationError,
			"the directory does not know alice"},
		"standing author left": {[]change{automatedBy(ci, nil), refuses(approvalv1alpha1.ReasonAuthorUnknown, "alice has left: let somebody else accept.")}, validationError,
			"alice has left: let somebody else accept (to accept, type `kubectl countersign accept releaseplan/prod -n tenant`)"},
		"standing, but a robot":         {[]change{automatedBy(ci, nil), refuses(approvalv1alpha1.ReasonOnlyRobot, "a robot")}, validationError, "a robot"},
		"rejection whose check is gone": {[]change{refuses(approvalv1alpha1.ReasonOnlyRobot, "a robot"), func(f *facts) { f.check = nil }}, validationError, "a robot"},
		"check of no person":            {[]change{func(f *facts) { f.check.Spec.RequireHuman = new(bool) }}, validationError, "asked for no person"},
		"check that verified nobody":    {[]change{func(f *facts) { f.check.Status.Verified = false }}, validationError, "asked for no person"},
		"check of another resource":     {[]change{func(f *facts) { f.check.Spec.Resource = &approvalv1alpha1.ObjectReference{Name: "x"} }}, validationError, "something else than this Release"},
		"check of another author":       {[]change{func(f *facts) { f.check.Status.Author.Username = bob }}, validationError, "found another author"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFacts(tc.changes...)
			before := f.release.DeepCopy()
			s := compute(f)
			assert.Equal(t, before, f.release, "facts are not changed")
			validated, released := s.condition(releasev1alpha1.ConditionValidated), s.condition(releasev1alpha1.ConditionReleased)
			assert.Equal(t, metav1.ConditionFalse, validated.Status)
			assert.Equal(t, tc.wantReason, validated.Reason)
			assert.Contains(t, validated.Message, tc.want)
			assert.Equal(t, "False Failed: "+validated.Message, s.told(releasev1alpha1.ConditionReleased))
			assert.True(t, released.LastTransitionTime.Time.Equal(now))
			assert.True(t, s.decisive(&f.release.Status))
			assert.Nil(t, s.start)
			assert.False(t, s.ask || s.ensureRule)
			assert.Equal(t, now, s.status.CompletionTime.UTC())
			assert.False(t, s.status.Validation.FailedPostValidation)
			assert.False(t, attributed(f.words, &s.status).Verified && tc.wantReason == validationError && strings.Contains(tc.want, "directory"))
			again := compute(newFacts(append(tc.changes, func(f *facts) { f.release.Status = s.status })...))
			assert.Equal(t, s.status, again.status, "the end is the end")
		})
	}
}

// What is not there yet is waited for.
func TestWaits(t *testing.T) {
	pendingDirectory := func(f *facts) {
		f.request.Status.Results[0].State, f.request.Status.Validity, f.check = duckv1alpha1.CheckPending, nil, nil
		f.request.Status.Results[0].WaitingFor = []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForOther, Name: "the directory"}}
	}
	tests := map[string]struct {
		change   change
		want     string
		wantStep step
	}{
		"unguarded": {func(f *facts) { f.unguarded = "A policy is missing." }, "Unguarded: A policy is missing", step{again: retryUnguarded}},
		"no epoch":  {func(f *facts) { f.since = time.Time{} }, "Unguarded: it cannot be told yet since when creators are recorded", step{again: retryUnguarded}},
		"no rule": {func(f *facts) { f.rules, f.request = nil, nil }, "ChecksPending: the rule attribution-prod, by which the author is verified, is being put in its place",
			step{ensureRule: true}},
		"rule on its way out": {func(f *facts) { f.rules[0].DeletionTimestamp = &made }, "ChecksPending: the rule attribution-prod", step{ensureRule: true}},
		"rule without a person": {func(f *facts) {
			f.rules[0].Spec.CheckTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"requireHuman":false}`)}
		}, "ChecksPending: the rule attribution-prod", step{ensureRule: true}},
		"rule for reads": {func(f *facts) {
			f.rules[0].Spec.When = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationRead}}
		}, "ChecksPending: the rule attribution-prod", step{ensureRule: true}},
		"rule of another check": {func(f *facts) { f.rules[0].Spec.CheckTemplate.Kind = "ScriptCheck" }, "ChecksPending: the rule attribution-prod", step{ensureRule: true}},
		"rule with an end":      {func(f *facts) { f.rules[0].Spec.Grant = &approvalv1alpha1.Grant{} }, "ChecksPending: the rule attribution-prod", step{ensureRule: true}},
		"not asked":             {func(f *facts) { f.request = nil }, "ChecksPending: the checks of the ReleasePlan are about to be asked", step{ask: true}},
		"just asked":            {func(f *facts) { f.request.Status = approvalv1alpha1.ResourceCheckRequestStatus{} }, "ChecksPending: Request tenant/rcr-1 has been received, and its checks are about to be asked", step{}},
		"people": {people(duckv1alpha1.CheckPending, "", "release-managers"),
			"ChecksPending: Request tenant/rcr-1 waits for the answer to rule owners from group release-managers", step{}},
		"directory does not answer": {func(f *facts) {
			check := f.check
			pendingDirectory(f)
			check.Status.State, check.Status.Reason, check.Status.Message = duckv1alpha1.CheckPending, approvalv1alpha1.ReasonDirectoryUnavailable, "the directory does not answer"
			f.check = check
		}, "DirectoryUnavailable: the directory does not answer", step{}},
		"directory": {pendingDirectory, "ChecksPending: Request tenant/rcr-1 waits for the answer to rule attribution-prod from the directory", step{}},
		"rule changed since": {func(f *facts) { f.rules[0].Generation = 2 },
			"RulesChanged: Rule attribution-prod was added or changed after request tenant/rcr-1 was asked; it is asked again: wait for its answer", step{}},
		"rule added since": {func(f *facts) {
			people(duckv1alpha1.CheckPending, "")(f)
			f.request.Status.Results = f.request.Status.Results[:1]
		}, "RulesChanged: Rule owners was added or changed", step{}},
		"not yet valid": {func(f *facts) { f.request.Status.Validity.NotBefore = metav1.NewTime(now.Add(time.Minute)) }, "NotYetValid: ", step{}},
		"rule not ready": {func(f *facts) {
			f.rules[0].Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "UnknownCheckKind", Message: "no kind", ObservedGeneration: 1}}
			f.rules[0].Generation = 1
		}, "RuleNotReady: ", step{}},
		"broken request":    {func(f *facts) { f.request.Spec.Context.Subject = nil }, "Error: the request names no subject", step{}},
		"check not read":    {func(f *facts) { f.check = nil }, "ChecksPending: the answer of the attribution check is about to be read", step{}},
		"check lags behind": {func(f *facts) { f.check.Status.State = duckv1alpha1.CheckPending }, "ChecksPending: the answer of the attribution check", step{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFacts(tc.change)
			s := compute(f)
			assert.Contains(t, s.told(releasev1alpha1.ConditionValidated), "Unknown "+tc.want)
			assert.Equal(t, "Unknown Progressing: the Release waits to be validated", s.told(releasev1alpha1.ConditionReleased))
			assert.Equal(t, tc.wantStep, step{ensureRule: s.ensureRule, ask: s.ask, again: s.again, start: s.start})
			assert.False(t, s.decisive(&f.release.Status))
			assert.Nil(t, s.status.ManagedProcessing)
			assert.Nil(t, s.status.CompletionTime)
		})
	}
}

func TestPassesAndStartsTheRun(t *testing.T) {
	f := newFacts(people(duckv1alpha1.CheckApproved, ""))
	s := compute(f)
	require.NotNil(t, s.start)
	assert.True(t, s.decisive(&f.release.Status))
	assert.Equal(t, "True Succeeded: "+alice+" answers for the Release, and every check has approved", s.told(releasev1alpha1.ConditionValidated))
	assert.Equal(t, &releasev1alpha1.Attribution{Author: alice, Verified: true, VerifiedAt: &askedAt}, s.status.Attribution)
	assert.Nil(t, s.status.Authorization)
	assert.Equal(t, "rcr-1", s.status.Request)
	assert.Equal(t, "managed", s.status.Target)
	assert.False(t, s.status.Automated)
	assert.Empty(t, s.copyAuthor)
	assert.Equal(t, "managed/"+s.start.GetName(), s.status.ManagedProcessing.PipelineRun)
	assert.Nil(t, s.status.ManagedProcessing.StartTime, "the status names the run before there is one")
	assert.False(t, finished(&s.status))

	f.release.Status = s.status
	again := compute(f)
	assert.Equal(t, s.status, again.status, "after a crash the same is done again")
	assert.Equal(t, s.start, again.start)
}

func TestStandingAuthor(t *testing.T) {
	f := newFacts(automatedBy(ci, nil))
	s := stored(f)
	assert.Equal(t, alice, s.copyAuthor)
	assert.Equal(t, &releasev1alpha1.Attribution{Author: alice, StandingAttribution: true, Verified: true, VerifiedAt: &askedAt}, s.status.Attribution)
	assert.Equal(t, "True Succeeded: "+alice+" answers for the Release by the ReleasePlan prod, and every check has approved", s.told(releasev1alpha1.ConditionValidated))
	assert.True(t, s.status.Automated)
	assert.Equal(t, "true", paramsOf(s.start)["attributionStanding"])

	s = compute(f)
	assert.Empty(t, s.copyAuthor, "the author is copied once")
	assert.True(t, s.status.Attribution.StandingAttribution, "a copied author is still a standing one")
	f.release.Labels = nil
	assert.Equal(t, alice, compute(f).copyAuthor, "without the label it is copied again")
}

// Whoever stands for the plan later has no part in what was made before, and whoever did not cannot be named by the Release.
func TestS4_WhomThePlanDoesNotNameStandsForNothing(t *testing.T) {
	for name, author := range map[string]string{"the word was taken back": "", "somebody else stands now": bob} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(automatedBy(ci, nil), func(f *facts) {
				word := standingOn(func(s *attribution.Standing) { s.Author = author })
				f.plan.Annotations = map[string]string{approvalv1alpha1.AnnotationAuthor: author, approvalv1alpha1.AnnotationStanding: word.String()}
			})
			s := compute(f)
			assert.Nil(t, s.start)
			assert.Contains(t, s.told(releasev1alpha1.ConditionValidated), alice+" does not stand for the ReleasePlan prod any more")
		})
	}
}

func TestAVerifiedAuthorIsNotVerifiedAgain(t *testing.T) {
	f := newFacts(people(duckv1alpha1.CheckPending, "", "owners"))
	s := stored(f)
	assert.True(t, s.status.Attribution.Verified, "while people are still asked")
	assert.Nil(t, s.start)

	f.check = nil
	f.request.Status.Results[1].State = duckv1alpha1.CheckApproved
	f.request.Status.Validity = &approvalv1alpha1.Validity{NotBefore: askedAt, NotAfter: metav1.NewTime(now.Add(time.Hour))}
	s = compute(f)
	assert.NotNil(t, s.start)
	assert.Equal(t, &askedAt, s.status.Attribution.VerifiedAt)

	f.release.Status.Attribution.Author = bob
	assert.Nil(t, compute(f).start, "the verification of somebody else is none")
}

func TestAStandingAuthorWhoseTimeEndsAfterHeWasVerified(t *testing.T) {
	ends := now.Add(time.Minute)
	f := newFacts(automatedBy(ci, func(s *attribution.Standing) { s.ExpiresAt = &ends }), people(duckv1alpha1.CheckPending, ""))
	stored(f)
	f.now = now.Add(2 * time.Minute)
	assert.Equal(t, metav1.ConditionUnknown, compute(f).condition(releasev1alpha1.ConditionValidated).Status)
	f.plan.Generation = 4
	assert.Equal(t, metav1.ConditionFalse, compute(f).condition(releasev1alpha1.ConditionValidated).Status, "but nobody answers for a plan that he did not see")
}

func TestFailsAfterItWasValid(t *testing.T) {
	f := newFacts()
	stored(f)
	f.admissions[0].Labels = map[string]string{f.words.BlockReleasesLabel: "true"}
	s := compute(f)
	assert.True(t, s.status.Validation.FailedPostValidation)
	assert.Nil(t, s.status.ManagedProcessing, "there is no run")
	assert.Nil(t, s.start)
	assert.True(t, finished(&s.status))
}

func TestOlderWording(t *testing.T) {
	older, err := attribution.LookupVocabulary(attribution.VocabularyAuthorization)
	require.NoError(t, err)
	speaks := func(f *facts) {
		f.words = older
		f.admissions[0].Spec.Pipeline = nil
		f.admissions[0].Spec.ReleaseStrategy = "push"
	}
	s := compute(newFacts(speaks))
	assert.Contains(t, s.told(releasev1alpha1.ConditionValidated), "there is no ReleaseStrategy managed/push")
	s = compute(newFacts(speaks, func(f *facts) { f.admissions[0].Spec.ReleaseStrategy = "" }))
	assert.Contains(t, s.told(releasev1alpha1.ConditionValidated), "names no strategy")
	s = compute(newFacts(speaks, func(f *facts) { f.strategy = &releasev1alpha1.ReleaseStrategy{} }))
	assert.Contains(t, s.told(releasev1alpha1.ConditionValidated), "names no pipeline")

	f := newFacts(speaks, func(f *facts) {
		f.strategy = &releasev1alpha1.ReleaseStrategy{Spec: releasev1alpha1.ReleaseStrategySpec{
			Pipeline: "push", Bundle: "quay.example.com/push:1", Policy: "strict", ServiceAccount: "pusher",
			Params: []releasev1alpha1.StrategyParam{{Name: "env", Value: "prod"}, {Name: "tags", Values: []string{"a", "b"}}, {Name: "attributionAuthor", Value: bob}, {Name: "env", Value: "twice"}},
		}}
	})
	s = stored(f)
	assert.Nil(t, s.status.Attribution)
	assert.Equal(t, &releasev1alpha1.Authorization{Author: alice, Verified: true, VerifiedAt: &askedAt}, s.status.Authorization)
	require.NotNil(t, s.start)
	spec := s.start.Object["spec"].(map[string]any)
	assert.Equal(t, map[string]any{"resolver": "bundles", "params": []any{
		given("bundle", "quay.example.com/push:1"), given("name", "push"), given("kind", "pipeline"),
	}}, spec["pipelineRef"])
	assert.Equal(t, map[string]any{"serviceAccountName": "pusher"}, spec["taskRunTemplate"])
	params := paramsOf(s.start)
	assert.Equal(t, "prod", params["env"])
	assert.Equal(t, []any{"a", "b"}, params["tags"])
	assert.Equal(t, alice, params["attributionAuthor"], "a strategy does not say who answers")
	assert.Equal(t, "strict", params["policy"])
	f.check = nil
	assert.NotNil(t, compute(f).start, "verified is read in the older wording, too")
}

// Nothing else keeps why another product's Release has no author, so it is asked although the answer is known.
func TestForeignKindsAreAskedForEvenIfNobodyAnswersForThem(t *testing.T) {
	foreign := func(f *facts) { f.foreign, f.admissions = true, nil }
	notAsked := func(f *facts) { f.request, f.check = nil, nil }
	for name, tc := range map[string]struct {
		nobody change
		want   string
	}{
		"a robot":      {func(f *facts) { f.release.Annotations[approvalv1alpha1.AnnotationAuthor] = ci }, "only the robot " + ci},
		"nobody stood": {automatedBy(ci, func(s *attribution.Standing) { s.Author = "" }), "nobody stood for the ReleasePlan prod then"},
		"plan changed": {func(f *facts) { f.plan.Generation = 4 }, "was changed after"},
	} {
		t.Run(name, func(t *testing.T) {
			s := compute(newFacts(foreign, tc.nobody, notAsked))
			assert.True(t, s.ask)
			assert.Equal(t, metav1.ConditionUnknown, s.condition(releasev1alpha1.ConditionValidated).Status)
			pending := compute(newFacts(foreign, tc.nobody, func(f *facts) {
				f.check.Status.State, f.request.Status.Results[0].State, f.request.Status.Validity = duckv1alpha1.CheckPending, duckv1alpha1.CheckPending, nil
			}))
			assert.Equal(t, metav1.ConditionUnknown, pending.condition(releasev1alpha1.ConditionValidated).Status)
			refused := compute(newFacts(foreign, tc.nobody, refuses(approvalv1alpha1.ReasonOnlyRobot, "no")))
			assert.Contains(t, refused.told(releasev1alpha1.ConditionValidated), "False ValidationError: ")
			assert.Contains(t, refused.told(releasev1alpha1.ConditionValidated), tc.want)
			approved := compute(newFacts(foreign, tc.nobody))
			assert.Contains(t, approved.told(releasev1alpha1.ConditionValidated), "False ValidationError: ", "whatever the check says")
			checkGone := compute(newFacts(foreign, tc.nobody, func(f *facts) { f.check = nil }))
			assert.Equal(t, metav1.ConditionUnknown, checkGone.condition(releasev1alpha1.ConditionValidated).Status)
			assert.False(t, compute(newFacts(tc.nobody, notAsked)).ask, "of ours the status tells")
		})
	}
	gone := compute(newFacts(foreign, notAsked, func(f *facts) { f.plan = nil }))
	assert.Equal(t, metav1.ConditionFalse, gone.condition(releasev1alpha1.ConditionValidated).Status, "there is nothing to ask about")
	assert.False(t, gone.ask)
}

func TestForeignKindsAreOnlyAskedFor(t *testing.T) {
	foreign := func(f *facts) { f.foreign, f.admissions = true, nil }
	s := compute(newFacts(foreign, func(f *facts) { f.request = nil }))
	assert.True(t, s.ask)
	f := newFacts(foreign, automatedBy(ci, nil))
	s = compute(f)
	assert.Nil(t, s.start)
	assert.Empty(t, s.copyAuthor)
	assert.Equal(t, metav1.ConditionTrue, s.condition(releasev1alpha1.ConditionValidated).Status)
	assert.Nil(t, s.status.ManagedProcessing)
	f.release.Status.ManagedProcessing = &releasev1alpha1.PipelineInfo{PipelineRun: "managed/theirs"}
	f.release.Status.Conditions = []metav1.Condition{{Type: "Released", Status: metav1.ConditionFalse, Reason: "Progressing"}}
	assert.Equal(t, metav1.ConditionTrue, compute(f).condition(releasev1alpha1.ConditionValidated).Status, "their run is theirs")
	f.release.Status.Conditions[0].Reason = "Failed"
	assert.Equal(t, f.release.Status.Conditions[0].Reason, "Failed")
	assert.Empty(t, compute(f).status.Conditions, "what ended is left alone")
}
