package decision

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// happenings are what may befall a request between two reconciles; n chooses among rules, states and lengths.
var happenings = []func(w *world, n byte){
	func(w *world, n byte) { w.pass(time.Duration(n) * time.Minute) },
	func(w *world, n byte) { w.setRule(ruleName(n)) },
	func(w *world, n byte) { w.setRule(ruleName(n), maxDuration(time.Duration(n)*time.Minute)) },
	func(w *world, n byte) { delete(w.rules, ruleName(n)) },
	func(w *world, n byte) { w.object.Generation++ },
	func(w *world, n byte) { w.refuse = []string{"", "refused"}[n%2] },
	func(w *world, n byte) { w.answerSome(n, duckv1alpha1.CheckApproved) },
	func(w *world, n byte) {
		w.answerSome(n, duckv1alpha1.CheckApproved, grantFor(time.Duration(n)*time.Minute))
	},
	func(w *world, n byte) {
		w.answerSome(n, duckv1alpha1.CheckApproved, endsAt(w.now.Add(time.Duration(n)*time.Minute)))
	},
	func(w *world, n byte) { w.answerSome(n, duckv1alpha1.CheckError) },
	func(w *world, n byte) { w.answerSome(n, duckv1alpha1.CheckPending) },
	func(w *world, n byte) { w.answerSome(n, duckv1alpha1.CheckRejected) },
	func(w *world, n byte) {
		w.answerSome(n, duckv1alpha1.CheckCancelled, because(duckv1alpha1.CheckReasonTimedOut))
	},
	func(w *world, n byte) {
		if c := w.some(n); c != nil {
			c.Ref.SpecDigest = []string{"sha256:asked", "sha256:other"}[n%2]
		}
	},
	func(w *world, n byte) {
		if c := w.some(n); c != nil {
			delete(w.checks, c.Ref.UID)
		}
	},
	func(w *world, n byte) {
		name := ruleName(n)
		if r, ok := w.rules[name]; ok {
			r.NotReady = []string{"", "broken"}[n%2]
			w.rules[name] = r
		}
	},
	func(w *world, n byte) { w.context.Ended = n > 250 },
	func(w *world, n byte) {
		if !w.last.Wake.IsZero() {
			w.now = w.last.Wake
		}
	},
}

func ruleName(n byte) string { return string('a' + rune(n%3)) }

func (w *world) some(n byte) *FoldCheck {
	ref := byName(w.request.Status.RequestRefs, ruleName(n))
	if ref == nil {
		return nil
	}
	return w.checks[ref.UID]
}

func (w *world) answerSome(n byte, state duckv1alpha1.CheckState, edit ...func(*duckv1alpha1.CheckStatus)) {
	if c := w.some(n); c != nil {
		w.answer(ruleName(n), state, edit...)
	}
}

// FuzzFold lets anything happen in any order.
func FuzzFold(f *testing.F) {
	f.Add([]byte{1, 0, 6, 0, 0, 10, 1, 0, 6, 0})
	f.Add([]byte{1, 0, 1, 1, 6, 0, 6, 1, 4, 0, 8, 30, 7, 31, 17, 0, 17, 0})
	f.Add([]byte{1, 2, 13, 3, 14, 2, 15, 5, 16, 255})
	f.Fuzz(func(t *testing.T, script []byte) {
		w := newWorld(t)
		w.object.Generation = 1
		for i := 0; i+1 < len(script) && i < 200; i += 2 {
			happenings[int(script[i])%len(happenings)](w, script[i+1])
			before := w.request.Status.DeepCopy()
			after := w.step()
			checkStep(t, w, before, after)
		}
	})
}

func checkStep(t *testing.T, w *world, before, after *approvalv1alpha1.ResourceCheckRequestStatus) {
	t.Helper()
	if before.Ended != nil {
		require.True(t, equalStatus(before, after), "nothing changes after the end")
		assert.Zero(t, w.open())
		return
	}
	if ready(after) == readyGranted {
		checkGrant(t, w, after)
	}
	if before.Validity != nil && after.Validity != nil && len(before.Rules) > 0 {
		assert.False(t, after.Validity.NotAfter.After(before.Validity.NotAfter.Time), "an end never moves out")
		assert.Equal(t, before.Validity.NotBefore, after.Validity.NotBefore)
	}
	if after.Ended != nil {
		assert.Zero(t, w.open(), "no open question survives the end")
	}
	assert.LessOrEqual(t, w.open(), len(after.RequestRefs), "one open check for a rule")
	assert.LessOrEqual(t, len(after.Superseded), maxSuperseded)
	if w.refuse == "" {
		again := Fold(w.input())
		assert.True(t, equalStatus(after, &again.Status), "a second look changes nothing")
	}
	if !w.last.Wake.IsZero() {
		assert.True(t, w.last.Wake.After(w.now))
	}
}

// checkGrant recomputes from the world what a grant rests on.
func checkGrant(t *testing.T, w *world, s *approvalv1alpha1.ResourceCheckRequestStatus) {
	t.Helper()
	now := metav1.NewTime(w.now)
	assert.True(t, now.Before(&s.Validity.NotAfter))
	assert.False(t, now.Before(&s.Validity.NotBefore))
	assert.Equal(t, w.object.Generation, s.Object.Generation)
	require.Len(t, s.Results, len(w.rules))
	for name, rule := range w.rules {
		result, ref := byName(s.Results, name), byName(s.RequestRefs, name)
		require.NotNil(t, result)
		require.NotNil(t, ref)
		assert.Equal(t, duckv1alpha1.CheckApproved, result.State)
		assert.Equal(t, rule.UID, result.UID)
		assert.Equal(t, rule.Generation, result.Generation)
		assert.Empty(t, rule.NotReady)
		live := w.checks[ref.UID]
		require.NotNil(t, live)
		assert.Equal(t, duckv1alpha1.CheckApproved, live.Status.State)
		assert.Equal(t, ref.SpecDigest, live.Ref.SpecDigest)
		assert.False(t, slices.ContainsFunc(s.Superseded, func(r approvalv1alpha1.SupersededResult) bool { return r.Check.UID == ref.UID }), "a superseded check never counts again")
	}
}
