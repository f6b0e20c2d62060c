package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

const (
	// unclaimedAfter is how long a request may stay without status before the user hears of it.
	unclaimedAfter = 10 * time.Second
	// heartbeat is how often somebody at a terminal hears that nothing changed.
	heartbeat = time.Minute
	// rewatchAfter is the pause before a watch that ended is opened again.
	rewatchAfter = time.Second
	// endTimeout is how long the end of a revoked request may take.
	endTimeout = 30 * time.Second
)

func keyOf(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (p *program) wait() *cobra.Command {
	var at where
	var out output
	var timeout time.Duration
	cmd := verb(&cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a request is granted or ended",
		Long: "Wait until a request is granted or ended, saying meanwhile who is still to answer." +
			exits(codes{ExitDone: "granted", ExitDenied: "rejected, revoked or ended", ExitPending: "still pending at the time-out", ExitNotFound: "no such request"}),
		Example: example(`
# Wait for the answer as long as it takes
{{}} wait rcr-2c7f -n team-a

# In a script: give up after ten minutes
{{}} wait rcr-2c7f -n team-a --timeout 10m`),
		Args: exactlyOne, ValidArgsFunction: p.completeRequests(&at),
	}, func(ctx context.Context, args []string) error {
		key, err := p.key(&at, args[0])
		if err != nil {
			return err
		}
		if timeout < 0 {
			return usage("--timeout takes a positive duration, e.g. 10m")
		}
		c, err := p.dial(p)
		if err != nil {
			return err
		}
		return p.waitFor(ctx, c, key, timeout, &out)
	})
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "How long to wait. Default: until answered.")
	at.addTo(cmd)
	out.addTo(cmd)
	return cmd
}

func (w *where) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.in, "in", "", "Namespace of the request; the same as -n.")
}

// key is the request that an argument names.
func (p *program) key(at *where, word string) (types.NamespacedName, error) {
	namespace, err := at.namespace(p)
	if err != nil {
		return types.NamespacedName{}, err
	}
	namespace, name, err := splitName(word, namespace)
	return keyOf(namespace, name), err
}

// waitFor prints progress to standard error and the result to standard output; the error carries the exit code.
func (p *program) waitFor(ctx context.Context, c *cluster, key types.NamespacedName, timeout time.Duration, out *output) error {
	now := p.clock.Now()
	progress := &progress{p: p, key: key, since: now, beat: now}
	req, err := p.follow(ctx, c, key, timeout, progress.done, progress.idle)
	if err != nil {
		return err
	}
	s := situationOf(req, p.clock.Now())
	if out.machine() {
		if err := out.print(p.streams.Out, false, namedObject(setKind(c.Scheme(), req))); err != nil {
			return err
		}
		return told(s.code())
	}
	p.say("%s: %s", key, s.line(p.clock.Now()))
	if s.code() == ExitPending {
		p.tell("still pending; go on waiting with: %s", command("wait", key.Name, "-n", key.Namespace))
	}
	return told(s.code())
}

// untilEnded waits until the controller has recorded the end of a revoked request.
func (p *program) untilEnded(ctx context.Context, c *cluster, key types.NamespacedName) error {
	req, err := p.follow(ctx, c, key, endTimeout,
		func(req *approvalv1alpha1.ResourceCheckRequest) bool { return req.Status.Ended != nil }, nil)
	if err != nil {
		return err
	}
	if req.Status.Ended == nil {
		return fail(ExitPending, "%s is revoked, but no controller has recorded its end yet: ask again later", key)
	}
	return nil
}

// progress says what changes while a request is waited for.
type progress struct {
	p     *program
	key   types.NamespacedName
	since time.Time
	// beat is when the terminal was last written to.
	beat            time.Time
	last            string
	claimed, warned bool
}

func (g *progress) done(req *approvalv1alpha1.ResourceCheckRequest) bool {
	s := situationOf(req, g.p.clock.Now())
	g.claimed = s.state != stateNew
	if text := g.text(req, s); text != g.last && !s.final() {
		g.last = text
		g.p.tell("%s", text)
	}
	return s.final()
}

func (g *progress) text(req *approvalv1alpha1.ResourceCheckRequest, s situation) string {
	switch {
	case s.state == stateNew:
		return "waiting for a controller to take " + g.key.String() + " up"
	case len(s.waiting) > 0:
		return "waiting for " + waitingText(s.waiting) + ", since " + momentText(req.CreationTimestamp.Time, g.since)
	}
	return "waiting: " + s.line(g.since)
}

// idle is called while nothing changes. It returns when it wants to be called next.
func (g *progress) idle(now time.Time) time.Duration {
	if !g.claimed && !g.warned {
		if waited := now.Sub(g.since); waited < unclaimedAfter {
			return unclaimedAfter - waited
		}
		g.warned = true
		g.p.tell("no controller has picked %s up for %s: is the Countersign controller running?", g.key, unclaimedAfter)
	}
	if !now.Before(g.beat.Add(heartbeat)) {
		g.beat = now
		if g.p.terminal {
			g.p.tell("still %s (%s)", g.last, now.Sub(g.since).Truncate(time.Second))
		}
	}
	return g.beat.Add(heartbeat).Sub(now)
}

// follow watches a request until done says so or the time is up (0: never), and returns it as it was seen last. idle may
// be nil.
func (p *program) follow(ctx context.Context, c *cluster, key types.NamespacedName, timeout time.Duration,
	done func(*approvalv1alpha1.ResourceCheckRequest) bool, idle func(time.Time) time.Duration,
) (*approvalv1alpha1.ResourceCheckRequest, error) {
	f := &follower{p: p, c: c, key: key, done: done, idle: idle}
	if timeout > 0 {
		timer := p.clock.NewTimer(timeout)
		defer timer.Stop()
		f.timeout = timer.C()
	}
	for {
		finished, err := f.watch(ctx)
		if ctx.Err() != nil {
			return nil, f.interrupted()
		}
		if err != nil || finished {
			return f.seen, err
		}
		if f.pause(ctx) {
			return f.seen, nil
		}
	}
}

// follower is one follow.
type follower struct {
	p       *program
	c       *cluster
	key     types.NamespacedName
	done    func(*approvalv1alpha1.ResourceCheckRequest) bool
	idle    func(time.Time) time.Duration
	timeout <-chan time.Time
	seen    *approvalv1alpha1.ResourceCheckRequest
}

// watch opens the watch before it reads, so that no change falls between the two. It returns without an error and not
// finished when the watch ends.
func (f *follower) watch(ctx context.Context) (finished bool, err error) {
	w, err := f.c.Watch(ctx, &approvalv1alpha1.ResourceCheckRequestList{}, client.InNamespace(f.key.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", f.key.Name)})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	req, err := f.c.request(ctx, f.key.Namespace, f.key.Name)
	if err != nil {
		return false, f.gone(err)
	}
	if f.see(req) {
		return true, nil
	}
	return f.events(ctx, w)
}

func (f *follower) events(ctx context.Context, w watch.Interface) (bool, error) {
	for {
		tick, stop := f.tick()
		select {
		case <-ctx.Done():
			stop()
			return false, ctx.Err()
		case <-f.timeout:
			stop()
			return true, nil
		case <-tick:
			if f.see(f.seen) {
				return true, nil
			}
		case event, open := <-w.ResultChan():
			stop()
			if !open || event.Type == watch.Error {
				return false, nil
			}
			if finished, err := f.event(event); finished || err != nil {
				return finished, err
			}
		}
	}
}

// tick is when something changes without an event: the request's own times, and what idle wants.
func (f *follower) tick() (<-chan time.Time, func()) {
	next := heartbeat
	if f.idle != nil {
		next = f.idle(f.p.clock.Now())
	}
	timer := f.p.clock.NewTimer(next)
	return timer.C(), func() { timer.Stop() }
}

func (f *follower) event(event watch.Event) (bool, error) {
	req, ok := event.Object.(*approvalv1alpha1.ResourceCheckRequest)
	if !ok || req.Name != f.key.Name || req.Namespace != f.key.Namespace {
		return false, nil
	}
	if event.Type == watch.Deleted {
		return false, fail(ExitNotFound, "%s was deleted while it was waited for", f.key)
	}
	return f.see(req), nil
}

func (f *follower) see(req *approvalv1alpha1.ResourceCheckRequest) bool {
	f.seen = req
	return f.done(req)
}

// pause keeps a server that closes watches at once from being asked without end.
func (f *follower) pause(ctx context.Context) (timedOut bool) {
	timer := f.p.clock.NewTimer(rewatchAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-f.timeout:
		return true
	}
	return false
}

func (f *follower) interrupted() error {
	return fail(ExitPending, "interrupted; %s is still open: go on waiting with: %s", f.key, command("wait", f.key.Name, "-n", f.key.Namespace))
}

func (f *follower) gone(err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	if f.seen != nil {
		return fail(ExitNotFound, "%s was deleted while it was waited for", f.key)
	}
	return noRequest(f.key)
}

func noRequest(key types.NamespacedName) error {
	return fail(ExitNotFound, "there is no request %s: see yours with: %s", show(key.String()), command("list", "-n", key.Namespace))
}
