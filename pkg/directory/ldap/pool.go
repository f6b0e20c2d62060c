package ldap

import (
	"time"

	"k8s.io/utils/clock"
)

const (
	// maxIdle is how many connections are kept for the next look-ups.
	maxIdle = 4
	// maxIdleTime is how long one is kept: routers forget silent connections without a word.
	maxIdleTime = time.Minute
)

// pool keeps connections between look-ups.
type pool struct {
	clock clock.PassiveClock
	idle  chan *session
}

func newPool(c clock.PassiveClock) *pool { return &pool{clock: c, idle: make(chan *session, maxIdle)} }

// take returns a connection that nobody uses, nil if there is none worth trying.
func (p *pool) take() *session {
	for {
		select {
		case s := <-p.idle:
			if !s.IsClosing() && p.clock.Since(s.idleFrom) < maxIdleTime {
				return s
			}
			s.close()
		default:
			return nil
		}
	}
}

func (p *pool) give(s *session) {
	s.idleFrom = p.clock.Now()
	select {
	case p.idle <- s:
	default:
		s.close()
	}
}

func (p *pool) drain() {
	for {
		select {
		case s := <-p.idle:
			s.close()
		default:
			return
		}
	}
}
