package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Verifier authenticates tokens offline, against the published keys of the cluster and of the issuers
// of people. It is safe for concurrent use. [Verifier.Start] keeps its keys fresh.
type Verifier struct {
	opts    Options
	issuers map[string]*issuer
	cluster *keySet
	sets    []*keySet
	known   *cache
}

// issuer is what the verifier knows about one source of tokens.
type issuer struct {
	name       string
	algorithms []string
	audiences  []string
	keys       *keySet
	reader     reader
}

// reader makes an identity of a token whose signature, audience and time have been checked.
type reader interface {
	identity(ctx context.Context, t *compact) (*Identity, *Error)
	// audienceHint says how to get a token for the right audience.
	audienceHint(t *compact, audience string) string
}

// New returns a Verifier for the cluster's service accounts and, if people is not nil, for the people
// of an AuthenticationConfiguration. It reads no keys yet: that is done by [Verifier.Start], or by the
// first token.
func New(cluster Cluster, people *Config, opts Options) (*Verifier, error) {
	opts = opts.withDefaults()
	v := &Verifier{opts: opts, issuers: map[string]*issuer{}, known: newCache(opts.CacheSize)}
	if err := v.addCluster(cluster); err != nil {
		return nil, err
	}
	if people == nil {
		return v, nil
	}
	for _, p := range people.issuers {
		if err := v.addPeople(p); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *Verifier) addCluster(c Cluster) error {
	if err := c.validate(); err != nil {
		return err
	}
	v.cluster = v.addKeys(c.Issuers[0], keysAt(c.Client, c.address(keysPath)))
	for _, name := range c.Issuers {
		s := &issuer{name: name, algorithms: c.Algorithms, audiences: c.Audiences, keys: v.cluster, reader: serviceAccounts{}}
		if err := v.add(s); err != nil {
			return err
		}
	}
	return nil
}

func (v *Verifier) addPeople(p *peopleIssuer) error {
	client := issuerClient(p.roots, v.opts.FetchTimeout)
	return v.add(&issuer{
		name:       p.jwt.Issuer.URL,
		algorithms: allAlgorithms,
		audiences:  p.jwt.Issuer.Audiences,
		keys:       v.addKeys(p.jwt.Issuer.URL, discoveredKeys(client, p.jwt.Issuer.URL, p.jwt.Issuer.DiscoveryURL)),
		reader:     p,
	})
}

func (v *Verifier) addKeys(name string, source keySource) *keySet {
	s := newKeySet(name, source, v.opts)
	v.sets = append(v.sets, s)
	return s
}

func (v *Verifier) add(s *issuer) error {
	if _, taken := v.issuers[s.name]; taken {
		return fmt.Errorf("issuer %s is configured twice; the cluster's own issuers must not stand among those of people", quoted(s.name))
	}
	v.issuers[s.name] = s
	return nil
}

// Start reads the keys of all issuers and keeps them fresh until the context ends. It logs, with the
// context's logger, when keys stop or start being readable.
func (v *Verifier) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for _, s := range v.sets {
		running.Go(func() { s.run(ctx) })
	}
	running.Wait()
	return nil
}

// Ready returns nil when service accounts can be authenticated. An issuer of people that cannot be
// reached does not count: its tokens alone are answered with NotReady.
func (v *Verifier) Ready() error {
	h := v.cluster.health()
	if h.Usable {
		return nil
	}
	if h.Err == nil {
		return errors.New("the signing keys of the cluster have not been read yet")
	}
	return h.Err
}

// Health describes the keys of every issuer, the cluster's first.
func (v *Verifier) Health() []KeysHealth {
	all := make([]KeysHealth, 0, len(v.sets))
	for _, s := range v.sets {
		all = append(all, s.health())
	}
	return all
}

// Authenticate implements [Authenticator]. A token that was seen before costs a look-up; its time, its
// key and the age of its issuer's keys are checked again each time.
func (v *Verifier) Authenticate(ctx context.Context, token string) (*Identity, error) {
	if id := v.known.get(token, v.opts.Clock.Now()); id != nil {
		return id, nil
	}
	id, err := v.firstSight(ctx, token)
	if err != nil {
		return nil, err
	}
	return id, nil
}

func (v *Verifier) firstSight(ctx context.Context, token string) (*Identity, *Error) {
	t, err := parseCompact(token)
	if err != nil {
		return nil, err
	}
	from, ok := v.issuers[t.claims.Issuer]
	if !ok {
		return nil, errUnknownIssuer(t.claims.Issuer)
	}
	signer, err := from.verify(ctx, t)
	if err != nil {
		return nil, err
	}
	now := v.opts.Clock.Now()
	if err := from.checkClaims(t, now); err != nil {
		return nil, err
	}
	id, err := from.reader.identity(ctx, t)
	if err != nil {
		return nil, err
	}
	v.known.put(token, &cacheEntry{
		identity: id, validFrom: t.validFrom(), until: id.Expiry, key: signer, keys: from.keys,
	}, now)
	return id, nil
}

// verify checks algorithm and signature, and returns the key that made it.
func (s *issuer) verify(ctx context.Context, t *compact) (*key, *Error) {
	if !slices.Contains(s.algorithms, t.header.Algorithm) {
		return nil, errAlgorithm(t.header.Algorithm, s.algorithms)
	}
	signer, err := s.signer(ctx, t)
	if err == nil && signer == nil && s.keys.renewed(ctx) {
		signer, err = s.signer(ctx, t)
	}
	if err == nil && signer == nil {
		err = errSignature(s.name)
	}
	return signer, err
}

// signer returns nil without an error if there are keys, but none of them made the signature.
func (s *issuer) signer(ctx context.Context, t *compact) (*key, *Error) {
	candidates, err := s.keys.candidates(ctx, t.header)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(candidates, func(k *key) bool { return k.verifies(t) }); i >= 0 {
		return candidates[i], nil
	}
	return nil, nil
}

func (s *issuer) checkClaims(t *compact, now time.Time) *Error {
	if err := t.checkTimes(now); err != nil {
		return err
	}
	if slices.ContainsFunc(s.audiences, func(a string) bool { return slices.Contains(t.claims.Audience, a) }) {
		return nil
	}
	presented := "nobody in particular"
	if len(t.claims.Audience) > 0 {
		presented = quotedAll(t.claims.Audience)
	}
	return refuse("the token is for %s, but this proxy wants one for %s; %s",
		presented, quotedAll(s.audiences), s.reader.audienceHint(t, s.audiences[0]))
}
