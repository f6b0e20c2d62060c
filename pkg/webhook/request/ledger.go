package request

import (
	"sync"
	"time"
)

// ledgerTime is how long an admitted question counts before the cache must have shown it. One that was refused
// afterwards, by another webhook, stops counting then.
const ledgerTime = 30 * time.Second

// ledger remembers what this process admitted just now.
type ledger struct {
	mu      sync.Mutex
	entries map[question]entry
}

type entry struct {
	asking
	until time.Time
}

func newLedger() *ledger { return &ledger{entries: map[question]entry{}} }

func (l *ledger) add(now time.Time, a asking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[a.question] = entry{a, now.Add(ledgerTime)}
}

// unseen are the admitted questions about an object that the cache does not show yet. What it shows is forgotten.
func (l *ledger) unseen(now time.Time, object string, seen map[question]bool) []asking {
	l.mu.Lock()
	defer l.mu.Unlock()
	var unseen []asking
	for q, e := range l.entries {
		switch {
		case !now.Before(e.until):
			delete(l.entries, q)
		case e.object != object:
		case seen[q]:
			delete(l.entries, q)
		default:
			unseen = append(unseen, e.asking)
		}
	}
	return unseen
}
