package attribution

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

const robot = "system:serviceaccount:ci:bot"

var (
	now     = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	earlier = now.Add(-time.Hour)
	later   = now.Add(time.Hour)
)

func plan(change ...func(*Standing)) *Standing {
	s := &Standing{Kind: "ReleasePlan", Namespace: "team-a", Name: "to-prod", UID: "plan-1", Generation: 3}
	for _, c := range change {
		c(s)
	}
	return s
}

func by(author string) func(*Standing) {
	return func(s *Standing) { s.Author, s.AcceptedAt = author, earlier }
}
func until(t time.Time) func(*Standing)     { return func(s *Standing) { s.ExpiresAt = &t } }
func generation(g int64) func(*Standing)    { return func(s *Standing) { s.Generation = g } }
func another(s *Standing)                   { s.UID = "plan-2" }
func release(change ...func(*Facts)) Facts  { return facts("Release", "rel-1", change) }
func pipeline(change ...func(*Facts)) Facts { return facts("PipelineRun", "build-1", change) }

func facts(kind, name string, change []func(*Facts)) Facts {
	f := Facts{Kind: kind, Namespace: "team-a", Name: name, Now: now}
	for _, c := range change {
		c(&f)
	}
	return f
}

func TestBehind(t *testing.T) {
	authored := func(f *Facts) { f.Author, f.Standing, f.StandingNow = "alice", plan(), plan() }
	automated := func(f *Facts) {
		f.Automated, f.Creator, f.CreatorKnown = true, robot, true
		f.Standing, f.StandingNow = plan(by("bob")), plan(by("bob"))
	}
	started := func(by string) func(*Facts) { return func(f *Facts) { f.Creator, f.CreatorKnown = by, true } }
	tests := map[string]struct {
		facts               Facts
		wantReason, wantWho string
		wantSource          approvalv1alpha1.AttributionSource
		wantMessage         string
	}{
		"a Release of a person": {
			facts: release(authored), wantReason: approvalv1alpha1.ReasonAttributed, wantWho: "alice",
			wantSource: approvalv1alpha1.SourceDirect, wantMessage: "alice made Release team-a/rel-1",
		},
		"a Release whose plan was changed since": {
			facts:      release(authored, func(f *Facts) { f.StandingNow = plan(generation(9)) }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "alice",
			wantMessage: "the ReleasePlan to-prod was changed after Release team-a/rel-1 was made: create the Release anew",
		},
		"a Release whose plan was made anew": {
			facts:      release(authored, func(f *Facts) { f.StandingNow = plan(another) }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "alice",
			wantMessage: "the ReleasePlan to-prod was deleted and made anew after Release team-a/rel-1 was made: create the Release anew",
		},
		"a Release whose plan names another admission since": {
			facts:      release(authored, func(f *Facts) { f.StandingNow = plan(); f.StandingNow.Admission = "elsewhere" }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "alice",
			wantMessage: "the ReleasePlan to-prod names another ReleasePlanAdmission than when Release team-a/rel-1 was made: create the Release anew",
		},
		"an automated Release whose plan's author has taken his word back": {
			facts:      release(automated, func(f *Facts) { f.StandingNow = plan() }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
			wantMessage: "bob does not stand for the ReleasePlan to-prod any more: let somebody accept the plan as it is now, then create the Release anew",
		},
		"an automated Release whose plan's author has given his word for a shorter time since": {
			facts:      release(automated, func(f *Facts) { f.StandingNow = plan(by("bob"), until(now)) }),
			wantReason: approvalv1alpha1.ReasonStandingExpired, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
			wantMessage: "bob stood for the ReleasePlan to-prod until " + now.Format(time.RFC3339) + ", and that is over: let somebody accept the plan as it is now, then create the Release anew",
		},
		"an automated Release that names somebody for whom the plan does not speak": {
			facts:      release(automated, func(f *Facts) { f.Standing = plan(by("ceo")) }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "ceo", wantSource: approvalv1alpha1.SourceStanding,
			wantMessage: "ceo does not stand for the ReleasePlan to-prod any more: let somebody accept the plan as it is now, then create the Release anew",
		},
		"an automated Release whose plan names another admission since": {
			facts:      release(automated, func(f *Facts) { f.StandingNow = plan(); f.StandingNow.Admission = "elsewhere" }),
			wantReason: approvalv1alpha1.ReasonStandingChanged,
		},
		"a Release whose plan is gone": {
			facts:      release(authored, func(f *Facts) { f.StandingNow = nil }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "alice",
		},
		"a Release that was made before its plan": {
			facts:      release(authored, func(f *Facts) { f.Standing = nil }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "alice",
		},
		"a Release of a robot that may not say automated": {
			facts:      release(authored, func(f *Facts) { f.Author = robot }),
			wantReason: approvalv1alpha1.ReasonOnlyRobot, wantWho: robot,
		},
		"a Release whose author is not who made it": {
			facts:      release(authored, func(f *Facts) { f.Creator, f.CreatorKnown = "mallory", true }),
			wantReason: approvalv1alpha1.ReasonNoAuthor,
		},
		"a Release whose creator record is not to be relied on": {
			facts:      release(authored, func(f *Facts) { f.Creator = "alice" }),
			wantReason: approvalv1alpha1.ReasonNoAuthor,
		},
		"a Release older than the records": {
			facts:      release(authored, func(f *Facts) { f.Author = "" }),
			wantReason: approvalv1alpha1.ReasonNoAuthor,
		},
		"an automated Release of a plan for which somebody stands": {
			facts: release(automated), wantReason: approvalv1alpha1.ReasonAttributed, wantWho: "bob",
			wantSource: approvalv1alpha1.SourceStanding, wantMessage: "bob stands for Release team-a/rel-1 by the ReleasePlan to-prod",
		},
		"an automated Release with an author all the same": {
			facts:      release(automated, func(f *Facts) { f.Author = "alice" }),
			wantReason: approvalv1alpha1.ReasonAttributed, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
		},
		"an automated Release of a plan for which nobody stands": {
			facts:      release(automated, func(f *Facts) { f.Standing = plan() }),
			wantReason: approvalv1alpha1.ReasonNoAuthor,
			wantMessage: "Release team-a/rel-1 was made by a program, and nobody stood for the ReleasePlan to-prod then: " +
				"accept the plan, then create the Release anew",
		},
		"an automated Release whose plan was edited since": {
			facts:      release(automated, func(f *Facts) { f.StandingNow = plan(generation(4)) }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
			wantMessage: "the ReleasePlan to-prod was changed after the Release was made: let somebody accept the plan as it is now, then create the Release anew",
		},
		"an automated Release whose plan was made anew": {
			facts:      release(automated, func(f *Facts) { f.StandingNow = plan(another) }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "",
		},
		"an automated Release of a plan that somebody stood for once": {
			facts:      release(automated, func(f *Facts) { f.Standing = plan(by("bob"), until(now)) }),
			wantReason: approvalv1alpha1.ReasonStandingExpired, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
			wantMessage: "bob stood for the ReleasePlan to-prod until 2026-03-02T12:00:00Z, and that is over: " +
				"let somebody accept the plan as it is now, then create the Release anew",
		},
		"an automated Release of a plan that somebody stands for some time yet": {
			facts:      release(automated, func(f *Facts) { f.Standing = plan(by("bob"), until(later)) }),
			wantReason: approvalv1alpha1.ReasonAttributed, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
		},
		"an automated Release of a plan that a robot stands for": {
			facts:      release(automated, func(f *Facts) { f.Standing, f.StandingNow = plan(by(robot)), plan(by(robot)) }),
			wantReason: approvalv1alpha1.ReasonOnlyRobot, wantWho: robot, wantSource: approvalv1alpha1.SourceStanding,
		},
		"a run of a person": {
			facts: pipeline(started("alice")), wantReason: approvalv1alpha1.ReasonAttributed, wantWho: "alice",
			wantSource: approvalv1alpha1.SourceDirect, wantMessage: "alice made PipelineRun team-a/build-1",
		},
		"a run of a person beside a plan that nobody stands for": {
			facts:      pipeline(started("alice"), func(f *Facts) { f.Standing, f.StandingNow = plan(), plan() }),
			wantReason: approvalv1alpha1.ReasonAttributed, wantWho: "alice", wantSource: approvalv1alpha1.SourceDirect,
		},
		"a run that nobody can be shown to have started": {
			facts: pipeline(func(f *Facts) { f.Creator = "alice" }), wantReason: approvalv1alpha1.ReasonNoAuthor,
		},
		"a run without a creator": {
			facts: pipeline(func(f *Facts) { f.CreatorKnown, f.AnyAuthor = true, true }), wantReason: approvalv1alpha1.ReasonNoAuthor,
		},
		"a run of a robot": {
			facts: pipeline(started(robot)), wantReason: approvalv1alpha1.ReasonOnlyRobot, wantWho: robot,
			wantMessage: "only the robot " + robot + " stands behind PipelineRun team-a/build-1, and no person stands for it: " +
				"start it yourself, or name in the rule a ReleasePlan that somebody has accepted",
		},
		"a run of a robot beside a plan that nobody stands for": {
			facts:      pipeline(started(robot), func(f *Facts) { f.StandingNow = plan() }),
			wantReason: approvalv1alpha1.ReasonOnlyRobot, wantWho: robot,
			wantMessage: "only the robot " + robot + " stands behind PipelineRun team-a/build-1, and no person stands for it: " +
				"let somebody accept the ReleasePlan to-prod, or start it yourself",
		},
		"a run of the shared administrator": {
			facts: pipeline(started("kube:admin")), wantReason: approvalv1alpha1.ReasonOnlyRobot, wantWho: "kube:admin",
		},
		"a run of a robot that somebody stands for": {
			facts:      pipeline(started(robot), func(f *Facts) { f.Standing, f.StandingNow = plan(by("bob")), plan() }),
			wantReason: approvalv1alpha1.ReasonAttributed, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
			wantMessage: "bob stands for PipelineRun team-a/build-1 by the ReleasePlan to-prod",
		},
		"a run of a robot by a plan that was changed": {
			facts:      pipeline(started(robot), func(f *Facts) { f.Standing, f.StandingNow = plan(by("bob")), plan(generation(4)) }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
			wantMessage: "the ReleasePlan to-prod was changed after bob accepted it: let somebody accept the plan as it is now",
		},
		"a run of a robot by a plan that is gone": {
			facts:      pipeline(started(robot), func(f *Facts) { f.Standing = plan(by("bob")) }),
			wantReason: approvalv1alpha1.ReasonStandingChanged, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
		},
		"a run of a robot by a plan that expired": {
			facts:      pipeline(started(robot), func(f *Facts) { f.Standing, f.StandingNow = plan(by("bob"), until(earlier)), plan() }),
			wantReason: approvalv1alpha1.ReasonStandingExpired, wantWho: "bob", wantSource: approvalv1alpha1.SourceStanding,
		},
		"a run of a robot where any author will do": {
			facts:      pipeline(started(robot), func(f *Facts) { f.AnyAuthor = true }),
			wantReason: approvalv1alpha1.ReasonAttributed, wantWho: robot, wantSource: approvalv1alpha1.SourceDirect,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Behind(test.facts)
			assert.Equal(t, test.wantReason, got.Reason, got.Message)
			assert.Equal(t, test.wantReason == approvalv1alpha1.ReasonAttributed, got.Attributed())
			if test.wantMessage != "" {
				assert.Equal(t, test.wantMessage, got.Message)
			}
			assert.NotEmpty(t, got.Message)
			if got.Source != approvalv1alpha1.SourceStanding || test.wantSource != "" {
				assert.Equal(t, test.wantSource, got.Source)
			}
			if test.wantWho != "" {
				assert.Equal(t, test.wantWho, got.Author)
			}
			assert.Equal(t, got.Source == approvalv1alpha1.SourceStanding, got.Standing != nil)
		})
	}
}

func TestStandingIsReadAsItWasWritten(t *testing.T) {
	ends := later.Add(123 * time.Millisecond).In(time.FixedZone("CET", 3600))
	tests := map[string]*Standing{
		"the plan alone":  plan(),
		"with an author":  plan(by("alice@example.com"), until(later)),
		"awkward letters": plan(by(`<CN="dev",O=corp> & 王小明`)),
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseStanding(s.String())
			require.NoError(t, err)
			assert.Equal(t, s, got)
			assert.Equal(t, s.String(), got.String())
		})
	}
	assert.Equal(t,
		`{"kind":"ReleasePlan","namespace":"team-a","name":"to-prod","uid":"plan-1","generation":3,"author":"<a&b>","acceptedAt":"2026-03-02T11:00:00Z","expiresAt":"2026-03-02T13:00:00Z"}`,
		plan(by("<a&b>"), until(ends)).String())
}

func TestParseStandingRefuses(t *testing.T) {
	_, err := ParseStanding("")
	require.ErrorIs(t, err, ErrNoStanding)
	for _, annotation := range []string{"alice", "{", `{"author":1}`, `{"writer":"alice"}`, `{"author":"alice"}{}`, `[]`, `{"expiresAt":"soon"}`} {
		s, err := ParseStanding(annotation)
		assert.Error(t, err, annotation)
		assert.Nil(t, s, annotation)
	}
}

func TestExpired(t *testing.T) {
	assert.False(t, plan().Expired(now))
	assert.False(t, plan(until(later)).Expired(now))
	assert.True(t, plan(until(now)).Expired(now))
}
