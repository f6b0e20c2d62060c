package request

import (
	"context"
	"fmt"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
	"github.com/AlaudaDevops/countersign/pkg/webhook/asked"
)

// Limits bound how many questions may be open at a time; zero stands for the default. Requests that ask the same count
// once.
type Limits struct {
	// PerPerson is for one person and object, in all namespaces.
	PerPerson int
	// PerServiceAccount is for one service account (as the subject) and object.
	PerServiceAccount int
	// PerNamespace is for the requests of one namespace and object.
	PerNamespace int
}

// DefaultLimits are the limits where nothing else is said.
var DefaultLimits = Limits{PerPerson: 10, PerServiceAccount: 100, PerNamespace: 100}

func (l *Limits) setDefaults() {
	for limit, standard := range map[*int]int{
		&l.PerPerson: DefaultLimits.PerPerson, &l.PerServiceAccount: DefaultLimits.PerServiceAccount, &l.PerNamespace: DefaultLimits.PerNamespace,
	} {
		if *limit <= 0 {
			*limit = standard
		}
	}
}

// question is one distinct question of a namespace.
type question struct {
	namespace string
	key       fingerprint.Key
	use       string
}

// asking is an open question and whom it counts for.
type asking struct {
	question
	object  string
	person  string
	account string
}

func askingOf(req *approvalv1alpha1.ResourceCheckRequest) asking {
	in := fingerprint.FromRequest(&req.Spec)
	a := asking{
		question: question{req.Namespace, fingerprint.Sum(&in), fingerprint.UseText(req.Spec.Use)},
		object:   asked.Key(&req.Spec.ObjectRef),
	}
	if by := req.Spec.RequestedBy; by != nil && !admit.IsServiceAccount(by.Username) {
		a.person = by.Username
	}
	if s := req.Spec.Context.Subject; s != nil && s.Kind == approvalv1alpha1.SubjectServiceAccount {
		a.account = admit.Username(s)
	}
	return a
}

// stillAsks tells that somebody has yet to answer the request.
func stillAsks(req *approvalv1alpha1.ResourceCheckRequest, now time.Time) bool {
	_, _, ended := decision.Ended(req, now)
	return !ended && req.DeletionTimestamp == nil && req.Status.Follows == nil && req.Status.Validity == nil
}

// withinLimits refuses one question too many. A question that is open already is free: it costs nobody an answer.
// Questions for Releases are not limited, and do not count.
func (w *Webhook) withinLimits(ctx context.Context, c *completed, dryRun bool) error {
	if c.unlimited {
		return nil
	}
	wanted := askingOf(c.request)
	requests, err := asked.For(ctx, w.Cache, &c.request.Spec.ObjectRef)
	if err != nil {
		return admit.Unavailable("it cannot be told now how many requests are open: try again in a moment", err)
	}
	now := w.Clock.Now()
	open := map[question]asking{}
	seen := map[question]bool{}
	for i := range requests {
		a := askingOf(&requests[i])
		seen[a.question] = true
		if stillAsks(&requests[i], now) && !isRelease(requests[i].Spec.Context.Resource) {
			open[a.question] = a
		}
	}
	// The cache lags behind what was admitted a moment ago.
	for _, a := range w.admitted.unseen(now, wanted.object, seen) {
		open[a.question] = a
	}
	if _, isOpen := open[wanted.question]; isOpen {
		return nil
	}
	if err := w.Limits.check(wanted, open); err != nil || dryRun {
		return err
	}
	w.admitted.add(now, wanted)
	return nil
}

func (l *Limits) check(wanted asking, open map[question]asking) error {
	var person, account, namespace int
	for _, a := range open {
		if wanted.person != "" && a.person == wanted.person {
			person++
		}
		if wanted.account != "" && a.account == wanted.account {
			account++
		}
		if a.namespace == wanted.namespace {
			namespace++
		}
	}
	const advice = "wait for answers, or revoke what is no longer needed"
	switch {
	case person >= l.PerPerson:
		return admit.TooMany(fmt.Sprintf("you have %d open requests for this object, and no more are allowed: %s", person, advice))
	case account >= l.PerServiceAccount:
		return admit.TooMany(fmt.Sprintf("the service account has %d open requests for this object, and no more are allowed: %s", account, advice))
	case namespace >= l.PerNamespace:
		return admit.TooMany(fmt.Sprintf("the namespace has %d open requests for this object, and no more are allowed: %s", namespace, advice))
	}
	return nil
}
