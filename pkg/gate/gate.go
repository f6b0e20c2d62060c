package gate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// DefaultStaleness is how long the API server's watches may be silent before the gate closes.
const DefaultStaleness = 90 * time.Second

// liveTimeout bounds the look-up of one object that the caches do not hold.
const liveTimeout = 2 * time.Second

// Guard says whether the admission policies that everything rests on are in force.
type Guard interface {
	// Guarded is false, with the reason, while a policy is missing or altered. It takes no lock.
	Guarded() (ok bool, why string)
	// OnChange registers what is called when the answer changes; it is called before the guard starts.
	OnChange(handler func())
}

// Options are what a Gate is made of; all are required but Watches, Staleness and Origin.
type Options struct {
	Clock      clock.WithTicker
	Dynamic    dynamic.Interface
	Kubernetes kubernetes.Interface
	Mapper     apimeta.RESTMapper
	Authorizer *authz.Authorizer
	Guard      Guard
	// Watches wraps the clients of everything that the gate reads; without, a broken watch goes unseen.
	Watches *Watches
	// Epoch is the moment from which on creator records are believed; zero means never.
	Epoch func() time.Time
	// Origin says which controllers create what; the zero value is origin.DefaultConfig.
	Origin *origin.Config
	// Namespace and Name are those of the Lease that proves that watches deliver.
	Namespace, Name string
	// Staleness is how long the watches may be silent; zero is DefaultStaleness.
	Staleness time.Duration
}

// Gate judges every use of a connector.
type Gate struct {
	*index

	clock     clock.WithTicker
	authz     *authz.Authorizer
	guard     Guard
	origin    *origin.Cache
	climber   *origin.Climber
	obituary  *obituary
	heartbeat *heartbeat
	watches   *Watches
	inbox     *inbox
	changes   *changes
	mirrors   []*mirror
}

// New returns a Gate that is shut until Start has filled it.
func New(o Options) *Gate {
	config := origin.DefaultConfig()
	if o.Origin != nil {
		config = *o.Origin
	}
	staleness := o.Staleness
	if staleness == 0 {
		staleness = DefaultStaleness
	}
	watches := o.Watches
	if watches == nil {
		watches = NewWatches(o.Clock)
	}
	watched := origin.NewCache(o.Clock, o.Dynamic, o.Mapper, config)
	g := &Gate{
		index: newIndex(), clock: o.Clock, authz: o.Authorizer, guard: o.Guard, origin: watched,
		climber:  origin.NewClimber(watched, config, o.Epoch),
		obituary: newObituary(origin.NewLive(o.Dynamic, o.Mapper)),
		heartbeat: &heartbeat{
			client: o.Kubernetes, clock: o.Clock, namespace: o.Namespace, name: o.Name, staleness: staleness,
		},
		watches: watches,
		inbox:   newInbox(),
		changes: newChanges(),
	}
	watched.OnChange(func(origin.Change) { g.changes.Happened() })
	o.Guard.OnChange(g.changes.Happened)
	g.mirrors = g.newMirrors(o.Dynamic)
	return g
}

func (g *Gate) newMirrors(client dynamic.Interface) []*mirror {
	approval, connectors := approvalv1alpha1.GroupVersion, connectorsv1alpha1.GroupVersion
	dropConnector := func(name types.NamespacedName, _ types.UID) { g.connectors.Delete(name) }
	dropAccount := func(name types.NamespacedName, _ types.UID) { g.accounts.Delete(name) }
	return []*mirror{
		g.mirror(client, connectors.WithResource("connectors"), g.setConnector, dropConnector),
		g.mirror(client, approval.WithResource("resourcecheckrules"), g.setRule, g.forgetRule),
		g.mirror(client, approval.WithResource("resourcecheckrequests"), g.setAsked, g.forgetAsked),
		g.mirror(client, approval.WithResource("approvalrequests"), g.inbox.set, g.inbox.forget),
		g.mirror(client, corev1.SchemeGroupVersion.WithResource("serviceaccounts"), g.setAccount, dropAccount),
		g.heartbeat.mirror(client),
	}
}

// mirror wakes those who wait for changes after each one has been taken up.
func (g *Gate) mirror(client dynamic.Interface, resource schema.GroupVersionResource, set setFunc, forget forgetFunc) *mirror {
	return &mirror{
		client: client, resource: resource,
		set: func(u object) {
			set(u)
			g.changes.Happened()
		},
		forget: func(name types.NamespacedName, uid types.UID) {
			forget(name, uid)
			g.changes.Happened()
		},
	}
}

// setAsked feeds both the decisions and the inbox, which needs to know who asked for the same.
func (g *Gate) setAsked(u object) {
	g.setRequest(u)
	g.inbox.setAskers(u)
}

func (g *Gate) forgetAsked(name types.NamespacedName, uid types.UID) {
	g.forgetRequest(name, uid)
	g.inbox.forgetAskers(uid)
}

// Start watches until the context ends. It implements manager.Runnable.
func (g *Gate) Start(ctx context.Context) error {
	for _, m := range g.mirrors {
		go m.Run(ctx)
	}
	go g.heartbeat.Run(ctx)
	return g.origin.Start(ctx)
}

// Ready says why the gate cannot answer at all; nil if it can.
func (g *Gate) Ready() error {
	if no := g.shut(); no != nil {
		return fmt.Errorf("%s: %s", no.reason, no.message)
	}
	return nil
}

// shut is what closes the gate for everybody.
func (g *Gate) shut() *refusal {
	for _, m := range g.mirrors {
		if !m.HasSynced() {
			return &refusal{approvalv1alpha1.ReasonNotReady,
				"the gate has not seen all " + m.resource.Resource + " yet; try again in a moment"}
		}
	}
	if !g.origin.HasSynced() {
		return &refusal{approvalv1alpha1.ReasonNotReady, "the gate has not seen all runs yet; try again in a moment"}
	}
	if ok, why := g.guard.Guarded(); !ok {
		return &refusal{approvalv1alpha1.ReasonUnguarded, why}
	}
	if err := g.heartbeat.Check(g.clock.Now()); err != nil {
		return &refusal{approvalv1alpha1.ReasonStale, err.Error()}
	}
	if err := g.watches.Check(g.clock.Now(), g.heartbeat.staleness); err != nil {
		return &refusal{approvalv1alpha1.ReasonStale, err.Error()}
	}
	return nil
}

// Connector returns a connector as it is now.
func (g *Gate) Connector(namespace, name string) (*Connector, bool) {
	return g.connectors.Get(types.NamespacedName{Namespace: namespace, Name: name})
}

// Changed returns a channel that closes when anything changes that a decision reads. Take it before deciding.
func (g *Gate) Changed() <-chan struct{} { return g.changes.Next() }

// Use is one wish to use a connector. All operations must be allowed for the request to pass.
type Use struct {
	Identity        *token.Identity
	Namespace, Name string
	Operations      []operation.Operation
}

// Answer is a verdict with what it was looked up for.
type Answer struct {
	decision.Verdict
	// Operation is the one that the verdict speaks of: the first that was denied, else the first.
	Operation operation.Operation
	// Run is the caller's context; nil for people and where the verdict did not get that far.
	Run *origin.Node
	// Climb is the way from the pod to the run; nil as Run.
	Climb *origin.Climb
}

// Decide judges one use as everything stands now. It never fails: whatever cannot be told is a denial.
func (g *Gate) Decide(ctx context.Context, use Use) Answer {
	answer := Answer{}
	if len(use.Operations) == 0 {
		return answer.deny(&refusal{approvalv1alpha1.ReasonInvalidRequest, "no operation is asked for; name a method and a path"})
	}
	answer.Operation = use.Operations[0]
	if no := g.shut(); no != nil {
		return answer.deny(no)
	}
	connector, no := g.permitted(ctx, use)
	if no != nil {
		return answer.deny(no)
	}
	return g.judge(ctx, use, connector, answer)
}

func (a Answer) deny(no *refusal) Answer {
	a.Verdict = decision.Verdict{Reason: no.reason, Message: no.message}
	return a
}

// judge asks the pure decision once for each operation.
func (g *Gate) judge(ctx context.Context, use Use, c *Connector, answer Answer) Answer {
	question, no := g.question(ctx, use.Identity, c)
	answer.Run, answer.Climb = question.run, question.climb
	if no != nil {
		return answer.deny(no)
	}
	in := decision.Input{
		Object: decision.Object{
			Kind: connectorsv1alpha1.KindConnector, Namespace: c.Namespace, Name: c.Name,
			UID: c.UID, Generation: c.Generation, RequireChecks: c.Spec.RequireChecks,
		},
		Requests: g.found(question.keys[:question.count]), Now: g.clock.Now(), ContextEnded: question.ended,
	}
	if set, ok := g.rules.Get(connectorKey(c.Namespace, c.Name)); ok {
		in.Rules, in.Refs = set.rules, set.refs
	}
	for i := range use.Operations {
		in.Operation = use.Operations[i]
		verdict := decision.Decide(&in)
		if i == 0 || !verdict.Allow {
			answer.Verdict, answer.Operation = verdict, in.Operation
		}
		if !verdict.Allow {
			break
		}
	}
	return answer
}
