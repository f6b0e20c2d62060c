package gate

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

var serviceAccountKind = schema.GroupKind{Kind: "ServiceAccount"}

// question is what is looked up: the fingerprints under which an answer may stand, and the run behind it.
type question struct {
	// keys has the caller's fingerprints; count says how many, so that none needs an allocation.
	keys  [4]fingerprint.Key
	count int
	// run is the context, as it is now; nil for people. ended says how it ended, empty while it goes on.
	run   *origin.Node
	ended string
	// climb is the way from the pod to the run; nil for people.
	climb *origin.Climb
}

func (q *question) add(in *fingerprint.Input) {
	for _, key := range fingerprint.Keys(in) {
		if q.count < len(q.keys) {
			q.keys[q.count] = key
			q.count++
		}
	}
}

// refusal is why a question cannot even be asked.
type refusal struct{ reason, message string }

func (g *Gate) question(ctx context.Context, who *token.Identity, c *Connector) (question, *refusal) {
	in := fingerprint.Input{Object: objectOf(c)}
	switch {
	case who.ServiceAccount == nil:
		return personal(who, in), nil
	case who.Pod == nil:
		return g.unbound(ctx, who, c, in)
	default:
		return g.bound(ctx, who, c, in)
	}
}

func objectOf(c *Connector) fingerprint.Object {
	return fingerprint.Object{
		Group: connectorsv1alpha1.GroupVersion.Group, Kind: connectorsv1alpha1.KindConnector,
		Namespace: c.Namespace, Name: c.Name, UID: string(c.UID),
	}
}

// personal asks for a person: an answer may be bound to the token, or to the person alone.
func personal(who *token.Identity, in fingerprint.Input) question {
	var q question
	in.Subject = fingerprint.Subject{Kind: fingerprint.User, Name: who.Username, UID: who.UID}
	q.add(&in)
	if who.JTI != "" {
		in.JTI = who.JTI
		q.add(&in)
	}
	return q
}

func (g *Gate) unbound(ctx context.Context, who *token.Identity, c *Connector, in fingerprint.Input) (question, *refusal) {
	var q question
	if !c.Spec.AllowUnboundServiceAccounts {
		return q, &refusal{approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
			"the token of %s belongs to no pod, and the connector %s/%s takes service accounts only from pods; use a token that is projected into a pod",
			who.Username, c.Namespace, c.Name)}
	}
	if who.JTI == "" {
		return q, &refusal{approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
			"the token of %s has no jti, so no approval can be bound to it; use a token from a TokenRequest", who.Username)}
	}
	if no := g.accountAlive(ctx, who); no != nil {
		return q, no
	}
	in.Subject, in.JTI = serviceAccount(who), who.JTI
	q.add(&in)
	return q, nil
}

// bound asks for a pod's run.
func (g *Gate) bound(ctx context.Context, who *token.Identity, c *Connector, in fingerprint.Input) (question, *refusal) {
	var q question
	if no := g.podAlive(ctx, who.Pod); no != nil {
		return q, no
	}
	if no := g.accountAlive(ctx, who); no != nil {
		return q, no
	}
	pod := types.NamespacedName{Namespace: who.Pod.Namespace, Name: who.Pod.Name}
	climb, err := g.climber.Climb(ctx, pod, types.UID(who.Pod.UID), c.Spec.ContextScope)
	if err != nil {
		return q, &refusal{approvalv1alpha1.ReasonOriginPending, fmt.Sprintf(
			"the run that pod %s belongs to cannot be told yet (%v); try again in a moment", pod, err)}
	}
	q.climb, q.run = climb, climb.Resource
	if q.ended, err = g.runEnded(ctx, climb.Resource); err != nil {
		return q, &refusal{approvalv1alpha1.ReasonOriginPending, fmt.Sprintf("%v; try again in a moment", err)}
	}
	in.Subject, in.Resource = serviceAccount(who), resourceOf(climb.Resource)
	q.add(&in)
	return q, nil
}

func serviceAccount(who *token.Identity) fingerprint.Subject {
	account := who.ServiceAccount
	return fingerprint.Subject{
		Kind: fingerprint.ServiceAccount, Namespace: account.Namespace, Name: account.Name, UID: account.UID,
	}
}

func resourceOf(n *origin.Node) *fingerprint.Object {
	return &fingerprint.Object{Group: n.Group, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name, UID: string(n.UID)}
}

// Alive says why a token does not count although its time has not ended: its pod or its service account is gone, or it
// cannot be told. The reason is empty if it counts. Decide looks by itself; this is for what is answered without deciding.
func (g *Gate) Alive(ctx context.Context, who *token.Identity) (reason, message string) {
	if who.ServiceAccount == nil {
		return "", ""
	}
	no := g.accountAlive(ctx, who)
	if no == nil && who.Pod != nil {
		no = g.podAlive(ctx, who.Pod)
	}
	if no == nil {
		return "", ""
	}
	return no.reason, no.message
}

// podAlive refuses a token whose pod is gone: it dies with its pod.
func (g *Gate) podAlive(ctx context.Context, pod *token.PodRef) *refusal {
	node, err := g.origin.Get(ctx, origin.PodKind, pod.Namespace, pod.Name)
	if err == nil && string(node.UID) == pod.UID {
		return nil
	}
	return notAlive(g.obituary.Check(ctx, origin.PodKind, pod.Namespace, pod.Name, types.UID(pod.UID)))
}

func (g *Gate) accountAlive(ctx context.Context, who *token.Identity) *refusal {
	account := who.ServiceAccount
	name := types.NamespacedName{Namespace: account.Namespace, Name: account.Name}
	if uid, ok := g.accounts.Get(name); ok && string(uid) == account.UID {
		return nil
	}
	return notAlive(g.obituary.Check(ctx, serviceAccountKind, name.Namespace, name.Name, types.UID(account.UID)))
}

func notAlive(err error) *refusal {
	if errors.Is(err, errGone) {
		return &refusal{approvalv1alpha1.ReasonUnauthenticated,
			fmt.Sprintf("the token is no longer valid, because its %v; use the token of a running pod", err)}
	}
	return &refusal{approvalv1alpha1.ReasonOriginPending, fmt.Sprintf("%v; try again in a moment", err)}
}

// runEnded tells how a context has ended. The gate sees it from its own cache, before the controller has marked
// the request.
func (g *Gate) runEnded(ctx context.Context, run *origin.Node) (string, error) {
	now, err := g.origin.Get(ctx, run.GroupVersionKind.GroupKind(), run.Namespace, run.Name)
	if errors.Is(err, origin.ErrUnobserved) {
		return "", err
	}
	if err != nil {
		now = nil
	}
	if why, ended := origin.Ended(now, run.UID); ended {
		return run.String() + ": " + why, nil
	}
	return "", nil
}
