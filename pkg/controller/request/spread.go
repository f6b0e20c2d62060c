package request

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// spread gives each request that asks again its turn, so that an edit that concerns many does not flood inboxes and the
// API server.
type spread struct {
	limiter *rate.Limiter

	mu    sync.Mutex
	turns map[types.UID]time.Time
}

func newSpread(perSecond float64) *spread {
	return &spread{limiter: rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond))), turns: map[types.UID]time.Time{}}
}

// delay is how long it is to the request's turn; 0 means that it has come, and is taken.
func (s *spread) delay(uid types.UID, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn, waits := s.turns[uid]
	if !waits {
		turn = now.Add(s.limiter.ReserveN(now, 1).DelayFrom(now))
	}
	if turn.After(now) {
		s.turns[uid] = turn
		return turn.Sub(now)
	}
	delete(s.turns, uid)
	return 0
}

// forget gives up the turn of a request that asks no more.
func (s *spread) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.turns, uid)
}
