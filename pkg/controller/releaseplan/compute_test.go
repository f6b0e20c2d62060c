package releaseplan

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/directory"
)

const (
	alice = "alice@example.com"
	bob   = "bob@example.com"
)

var (
	now      = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	accepted = now.Add(-24 * time.Hour)
	words    = attribution.Default()
)

type change func(*facts)

// newFacts has alice stand for the plan as it is.
func newFacts(changes ...change) *facts {
	f := &facts{
		words: words, now: now, recheck: time.Hour,
		plan: &releasev1alpha1.ReleasePlan{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "tenant", Name: "prod", UID: "plan", Generation: 3,
				Labels: map[string]string{words.StandingLabel: "true"},
			},
			Spec: releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: "managed"},
		},
		admissions: []releasev1alpha1.ReleasePlanAdmission{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "managed", Name: "shop"},
			Spec:       releasev1alpha1.ReleasePlanAdmissionSpec{Applications: []string{"shop"}, Origin: "tenant"},
		}},
	}
	stands(alice, 3, nil)(f)
	for _, c := range changes {
		c(f)
	}
	return f
}

func stands(author string, generation int64, until *time.Time) change {
	return func(f *facts) {
		s := attribution.Standing{Generation: generation, Author: author, AcceptedAt: accepted, ExpiresAt: until}
		f.annotate(approvalv1alpha1.AnnotationStanding, s.String())
		f.annotate(approvalv1alpha1.AnnotationAuthor, author)
	}
}

func (f *facts) annotate(key, value string) {
	if f.plan.Annotations == nil {
		f.plan.Annotations = map[string]string{}
	}
	f.plan.Annotations[key] = value
}

func nobody(f *facts) { f.plan.Annotations = nil }

func proposed(name string) change {
	return func(f *facts) { f.annotate(approvalv1alpha1.AnnotationProposed, name) }
}

// says is what the directory answers if it is asked.
func says(err error) change {
	return func(f *facts) {
		if f.due() != "" {
			f.looked = &looked{Answer: directory.Answer{At: f.now}, err: err}
		}
	}
}

// stored lets the plan have been looked at when it was known to the directory.
func stored(f *facts) {
	says(nil)(f)
	next, _ := compute(f)
	f.plan.Status, f.looked = *next, nil
}

func shows(status *releasev1alpha1.ReleasePlanStatus, kind string) string {
	c := apimeta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestWhoStands(t *testing.T) {
	later, earlier := now.Add(10*time.Minute), now.Add(-time.Minute)
	const advice = "accept with `kubectl countersign accept releaseplan/prod -n tenant`"
	tests := map[string]struct {
		changes   []change
		wantAsked string
		want      string
		wantAgain time.Duration
	}{
		"known":               {[]change{says(nil)}, alice, "True Verified: alice@example.com stands for the plan, and is known to the directory", -1},
		"known, until":        {[]change{stands(alice, 3, &later), says(nil)}, alice, "True Verified: alice@example.com stands for the plan until 2026-03-02T09:10:00Z, and is known to the directory", 10 * time.Minute},
		"over":                {[]change{stands(alice, 3, &earlier)}, "", "False AttributionExpired: alice@example.com stood for the plan until 2026-03-02T08:59:00Z, and that is over: let somebody " + advice, 0},
		"nobody":              {[]change{nobody}, "", "False NoStandingAuthor: nobody stands for the plan, so its automated Releases have no author: let somebody " + advice, 0},
		"unreadable":          {[]change{func(f *facts) { f.annotate(approvalv1alpha1.AnnotationStanding, "{") }}, "", "False NoStandingAuthor: nobody stands", 0},
		"proposed":            {[]change{nobody, proposed(bob)}, "", "False Proposed: bob@example.com is proposed to stand for the plan and has not accepted: let bob@example.com " + advice, 0},
		"proposed beside one": {[]change{proposed(bob), says(nil)}, alice, "True Verified: alice@example.com stands", -1},
		"of another spec":     {[]change{stands(alice, 2, nil)}, "", "False NoStandingAuthor: alice@example.com accepted the plan as it was before it was changed", 0},
		"robot":               {[]change{stands("system:serviceaccount:ci:bot", 3, nil)}, "", "False NoStandingAuthor: only the program system:serviceaccount:ci:bot stands for the plan", 0},
		"left": {[]change{says(&directory.UnknownError{Why: "the account is disabled"})}, alice,
			"False AuthorUnknown: alice@example.com has left, or was never known (the account is disabled), so automated Releases of the plan fail: let somebody else " + advice, -1},
		"left since": {[]change{stored, later2, says(directory.ErrUnknown)}, alice, "False AuthorUnknown: ", -1},
		"directory away": {[]change{says(&directory.UnavailableError{Why: "connection refused", RetryAfter: 20 * time.Second})}, alice,
			"Unknown DirectoryUnavailable: it cannot be told now whether alice@example.com is still known (connection refused); the directory is asked again", 20 * time.Second},
		"directory away since":       {[]change{stored, later2, says(errors.New("away"))}, alice, "Unknown DirectoryUnavailable: ", retryUnavailable},
		"fresh":                      {[]change{stored, func(f *facts) { f.now = now.Add(time.Minute) }, says(directory.ErrUnknown)}, "", "True Verified: ", -1},
		"fresh, but somebody else":   {[]change{stored, stands(bob, 3, nil), says(nil)}, bob, "True Verified: bob@example.com", -1},
		"name that draws":            {[]change{nobody, proposed("a\x1b[31m")}, "", `False Proposed: a\x1b[31m is proposed`, 0},
		"directory text that draws":  {[]change{says(&directory.UnknownError{Why: "x\ny"})}, alice, `False AuthorUnknown: alice@example.com has left, or was never known (x\ny)`, -1},
		"label says something else":  {[]change{func(f *facts) { f.plan.Labels[words.StandingLabel] = "yes" }}, "", "", 0},
		"label that nobody asks for": {[]change{stored, func(f *facts) { f.plan.Labels = nil }}, "", "", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFacts(tc.changes...)
			assert.Equal(t, tc.wantAsked, f.due())
			next, again := compute(f)
			got := shows(next, releasev1alpha1.ConditionStandingAttributionValid)
			if tc.want == "" {
				assert.Empty(t, got)
				assert.Nil(t, next.StandingAttribution)
			} else {
				assert.Contains(t, got, tc.want)
			}
			if tc.wantAgain >= 0 {
				assert.Equal(t, tc.wantAgain, again)
				return
			}
			assert.InDelta(t, time.Hour, again, float64(6*time.Minute+time.Minute))
		})
	}
}

// later2 is after the last verification stopped being fresh.
func later2(f *facts) { f.now = now.Add(2 * time.Hour) }

func TestStatusOfAStandingAuthor(t *testing.T) {
	until := now.Add(time.Hour)
	f := newFacts(stands(alice, 3, &until), proposed(bob), says(nil))
	next, _ := compute(f)
	at := func(t time.Time) *metav1.Time { m := metav1.NewTime(t); return &m }
	assert.Equal(t, &releasev1alpha1.StandingAttribution{
		Author: alice, Proposed: bob, AcceptedAt: at(accepted), ExpiresAt: at(until), VerifiedAt: at(now),
	}, next.StandingAttribution)
	assert.Equal(t, int64(3), next.ObservedGeneration)

	f.plan.Status = *next
	f.now, f.looked = now.Add(time.Minute), nil
	again, _ := compute(f)
	assert.Equal(t, next, again, "nothing is written while nothing changes")

	later2(f)
	f.looked = &looked{err: errors.New("away")}
	stands(alice, 3, nil)(f)
	next, _ = compute(f)
	assert.Equal(t, at(now), next.StandingAttribution.VerifiedAt, "the last verification stays known")
	stands(bob, 3, nil)(f)
	next, _ = compute(f)
	assert.Nil(t, next.StandingAttribution.VerifiedAt, "but not as somebody else's")
}

func TestPlansOfOneAuthorAreNotVerifiedAtOnce(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, uid := range []types.UID{"a", "b", "c", "d", "e"} {
		f := newFacts(func(f *facts) { f.plan.UID = uid })
		assert.GreaterOrEqual(t, f.period(), 54*time.Minute)
		assert.LessOrEqual(t, f.period(), 66*time.Minute)
		assert.Equal(t, f.period(), f.period())
		seen[f.period()] = true
	}
	assert.Greater(t, len(seen), 1)
}

func TestMatched(t *testing.T) {
	next, _ := compute(newFacts(says(nil)))
	assert.Equal(t, "True Matched: the ReleasePlanAdmission managed/shop lets Releases of the plan in", shows(next, releasev1alpha1.ConditionMatched))
	assert.Equal(t, &releasev1alpha1.MatchedReleasePlanAdmission{Name: "managed/shop", Active: true}, next.ReleasePlanAdmission)

	f := newFacts(func(f *facts) { f.admissions[0].Labels = map[string]string{words.BlockReleasesLabel: "true"} }, says(nil))
	next, _ = compute(f)
	assert.False(t, next.ReleasePlanAdmission.Active)
	f.plan.Status, f.admissions = *next, nil
	next, _ = compute(f)
	assert.Contains(t, shows(next, releasev1alpha1.ConditionMatched), "False NotMatched: no ReleasePlanAdmission in namespace managed")
	assert.Nil(t, next.ReleasePlanAdmission)
	require.NotEmpty(t, shows(next, releasev1alpha1.ConditionStandingAttributionValid))
}
