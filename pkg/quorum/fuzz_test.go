package quorum

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// world is a random check with random answers, small enough that coincidences happen.
type world struct {
	*rand.Rand
	spec    *approvalv1alpha1.ApprovalRequestSpec
	answers []Answer
}

func newWorld(seed uint64, shape uint8) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, uint64(shape)))}
	b := makeSpec()
	for p := range 1 + w.IntN(4) {
		var users []string
		for range 1 + w.IntN(4) {
			users = append(users, w.user())
		}
		b.Policy(fmt.Sprint("p", p), int32(1+w.IntN(3)), users...)
	}
	if shape&1 != 0 {
		b.Sequential()
	}
	if shape&2 != 0 {
		b.Shared()
	}
	w.spec = b.Obj()
	for range w.IntN(10) {
		w.answers = append(w.answers, w.approval())
	}
	return w
}

func (w *world) user() string { return fmt.Sprint("u", w.IntN(7)) }

func (w *world) approval() Answer { return approve(w.user(), w.IntN(20)) }

func (w *world) count(answers []Answer) Outcome {
	return Count(Input{Spec: w.spec, Answers: answers, StartedAt: start, Now: start.Add(time.Hour)})
}

func FuzzApproveNeverUnmeets(f *testing.F) {
	f.Add(uint64(1), uint8(0))
	f.Add(uint64(2), uint8(1))
	f.Add(uint64(3), uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, shape uint8) {
		w := newWorld(seed, shape)
		before := w.count(w.answers)
		after := w.count(append(w.answers, w.approval()))
		for i := range before.Policies {
			require.GreaterOrEqual(t, after.Policies[i].Approvals, before.Policies[i].Approvals)
		}
		if before.State == duckv1alpha1.CheckApproved {
			require.Equal(t, before.State, after.State)
		}
	})
}

func FuzzOrderOfAnswersDoesNotMatter(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(3))
	f.Add(uint64(2), uint8(1), uint8(9))
	f.Fuzz(func(t *testing.T, seed uint64, shape, others uint8) {
		w := newWorld(seed, shape)
		if others&1 != 0 {
			w.answers = append(w.answers, reject(w.user(), w.IntN(20)))
		}
		if others&2 != 0 {
			w.answers = append(w.answers, revoke(w.user(), w.IntN(20)).Obj())
		}
		if others&4 != 0 {
			w.answers = append(w.answers, revoke(w.user(), w.IntN(20)).AsOwner().Obj())
		}
		want := w.count(w.answers)
		w.Shuffle(len(w.answers), func(i, j int) { w.answers[i], w.answers[j] = w.answers[j], w.answers[i] })
		require.Empty(t, cmp.Diff(want, w.count(w.answers)))
	})
}

// FuzzMatchingIsMaximum compares with the plain definition: as many places filled as any assignment fills.
func FuzzMatchingIsMaximum(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		places, answers := r.IntN(6), r.IntN(6)
		fits := make([]uint8, places)
		m, filled := newMatching(answers), 0
		for p := range fits {
			fits[p] = uint8(r.UintN(64))
			if m.add(func(answer int) bool { return fits[p]&(1<<answer) != 0 }) {
				filled++
			}
		}
		require.Equal(t, most(fits, answers, 0), filled)
	})
}

// most tries every assignment.
func most(fits []uint8, answers int, used uint8) int {
	if len(fits) == 0 {
		return 0
	}
	best := most(fits[1:], answers, used)
	for a := range answers {
		if bit := uint8(1) << a; fits[0]&bit != 0 && used&bit == 0 {
			best = max(best, 1+most(fits[1:], answers, used|bit))
		}
	}
	return best
}
