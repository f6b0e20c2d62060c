package token

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
)

// keySet caches the keys of one issuer. Looking up a key takes no lock.
//
// Keys are read again periodically, and when a token names an unknown one, but never more often than
// the least interval and never twice at once. If reading fails, the old keys count until their age
// reaches the limit; then nothing counts.
type keySet struct {
	issuer string
	source keySource
	opts   Options

	current atomic.Pointer[keyRing]
	last    atomic.Pointer[attempt]
	flight  singleflight.Group
}

// keyRing is what one reading gave.
type keyRing struct {
	keys   []*key
	readAt time.Time
}

// attempt is when keys were last asked for, and how that ended.
type attempt struct {
	at  time.Time
	err error
}

func newKeySet(issuer string, source keySource, opts Options) *keySet {
	return &keySet{issuer: issuer, source: source, opts: opts}
}

// fresh reports whether the keys may be used at all.
func (s *keySet) fresh(now time.Time) bool {
	ring := s.current.Load()
	return ring != nil && now.Sub(ring.readAt) < s.opts.MaxKeyAge
}

// candidates returns the keys that may have signed a token: those of its key id, or all if it names
// none, that can sign with its algorithm. An unknown id causes a bounded re-read.
func (s *keySet) candidates(ctx context.Context, head header) ([]*key, *Error) {
	if s.fresh(s.opts.Clock.Now()) {
		if keys := s.current.Load().named(head.KeyID); len(keys) > 0 {
			return signingWith(keys, head.Algorithm)
		}
	}
	err := s.refresh(ctx)
	if !s.fresh(s.opts.Clock.Now()) {
		return nil, errKeysUnavailable(s.issuer, err)
	}
	keys := s.current.Load().named(head.KeyID)
	switch {
	case len(keys) > 0:
		return signingWith(keys, head.Algorithm)
	case err != nil:
		// The issuer may publish the key by now, and only cannot be read.
		return nil, errKeysUnavailable(s.issuer, err)
	}
	return nil, errUnknownKey(head.KeyID, s.issuer)
}

func (r *keyRing) named(id string) []*key {
	if id == "" {
		return r.keys
	}
	var found []*key
	for _, k := range r.keys {
		if k.id == id {
			found = append(found, k)
		}
	}
	return found
}

func signingWith(keys []*key, algorithm string) ([]*key, *Error) {
	var fit []*key
	for _, k := range keys {
		if slices.Contains(k.algorithms, algorithm) {
			fit = append(fit, k)
		}
	}
	if len(fit) == 0 {
		return nil, errAlgorithm(algorithm, keys[0].algorithms)
	}
	return fit, nil
}

// renewed reads the keys again, if that is due, and reports whether that changed them. It serves
// issuers that exchange a key without changing its id.
func (s *keySet) renewed(ctx context.Context) bool {
	before := s.current.Load()
	if err := s.refresh(ctx); err != nil {
		return false
	}
	return !slices.Equal(before.keys, s.current.Load().keys)
}

// refresh reads the keys unless they were asked for within the least interval; then it returns how
// that ended. Concurrent callers wait for the same reading, each no longer than its own context.
func (s *keySet) refresh(ctx context.Context) error {
	result := s.flight.DoChan("", func() (any, error) {
		now := s.opts.Clock.Now()
		if last := s.last.Load(); last != nil && now.Sub(last.at) < s.opts.MinFetchInterval {
			return nil, last.err
		}
		// One impatient caller must not end the reading for all others.
		err := s.read(context.WithoutCancel(ctx))
		s.last.Store(&attempt{at: now, err: err})
		return nil, err
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *keySet) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.FetchTimeout)
	defer cancel()
	// Taken before the request: the keys are at least as old as that.
	readAt := s.opts.Clock.Now()
	keys, err := s.source(ctx)
	if err != nil {
		return fmt.Errorf("reading the keys of issuer %s: %w", s.issuer, err)
	}
	s.replace(&keyRing{keys: keys, readAt: readAt})
	return nil
}

// replace puts a new ring in place. Keys that are still published keep their object; the others are
// marked, which ends every cached identity that rests on them.
func (s *keySet) replace(next *keyRing) {
	var old []*key
	if ring := s.current.Load(); ring != nil {
		old = ring.keys
	}
	for i, k := range next.keys {
		if at := slices.IndexFunc(old, k.equal); at >= 0 {
			next.keys[i] = old[at]
		}
	}
	s.current.Store(next)
	for _, k := range old {
		if !slices.Contains(next.keys, k) {
			k.withdrawn.Store(true)
		}
	}
}

// run keeps the keys fresh until the context ends.
func (s *keySet) run(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx).WithValues("issuer", s.issuer)
	failing := false
	for {
		err := s.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := s.opts.RefreshInterval
		if err != nil {
			wait = s.opts.MinFetchInterval
		}
		failing = logTransition(log, failing, err)
		timer := s.opts.Clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func logTransition(log logr.Logger, failing bool, err error) bool {
	switch {
	case err != nil && !failing:
		log.Error(err, "Cannot read signing keys")
	case err == nil && failing:
		log.Info("Signing keys can be read again")
	}
	return err != nil
}

// health describes the key set for readiness and for people.
func (s *keySet) health() KeysHealth {
	h := KeysHealth{Issuer: s.issuer}
	if ring := s.current.Load(); ring != nil {
		h.Keys, h.ReadAt = len(ring.keys), ring.readAt
	}
	if last := s.last.Load(); last != nil {
		h.Err = last.err
	}
	h.Usable = s.fresh(s.opts.Clock.Now())
	return h
}

// KeysHealth is the state of one issuer's keys.
type KeysHealth struct {
	// Issuer is the "iss" of the tokens that the keys are for; of several, the first.
	Issuer string
	// Keys is how many keys are known.
	Keys int
	// ReadAt is when they were last read; zero if never.
	ReadAt time.Time
	// Usable says that tokens of this issuer can be checked.
	Usable bool
	// Err is how the last attempt to read failed; nil if it did not.
	Err error
}
