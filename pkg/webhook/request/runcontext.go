package request

import (
	"context"
	"errors"
	"fmt"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// settled is the context of a request, and what labels it.
type settled struct {
	context approvalv1alpha1.RequestContext
	// hops lead from the pod or the named run upwards; empty where there is no run.
	hops []origin.Hop
}

// settle works the context out, and refuses what the client sent of it if it differs.
func (w *Webhook) settle(ctx context.Context, a *asker, t *target, sent *approvalv1alpha1.RequestContext, namespace string) (*settled, error) {
	s := &settled{context: approvalv1alpha1.RequestContext{Subject: &a.subject}}
	switch a.way {
	case byPod:
		return s, w.settlePod(ctx, a, t, sent, namespace, s)
	case forRun:
		return s, w.settleRun(ctx, a, t, sent, s)
	case forRelease:
		return s, settleRelease(a, sent, s)
	case withoutPod:
		return s, settleWithoutPod(a, t, sent, s)
	}
	s.context.Token = sent.Token
	return s, samePod(sent.Pod, &approvalv1alpha1.PodReference{})
}

// settlePod climbs from the caller's pod. The token is kept as evidence; the approval is for the run.
func (w *Webhook) settlePod(ctx context.Context, a *asker, t *target, sent *approvalv1alpha1.RequestContext, namespace string, s *settled) error {
	pod := a.caller.Pod
	if pod.Namespace != namespace {
		return admit.Invalid("metadata.namespace", fmt.Sprintf("a pod asks in its own namespace: create the request in %s", pod.Namespace))
	}
	climb, err := w.Climber.Climb(ctx, pod.NamespacedName, pod.UID, t.scope)
	if errors.Is(err, origin.ErrNotFound) {
		return admit.Because(approvalv1alpha1.ReasonContextEnded, "the pod that this token belongs to is gone: ask with the token of a pod that runs")
	}
	if err != nil {
		return admit.Unavailable("it is not known yet what the pod runs for: try again in a moment", err)
	}
	resource := climb.Resource.Reference()
	s.hops = climb.Hops
	s.context.Resource = &resource
	s.context.Pod = &approvalv1alpha1.PodReference{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	if a.caller.JTI != "" {
		s.context.Token = &approvalv1alpha1.TokenReference{JTI: a.caller.JTI}
	}
	return first(
		samePod(sent.Pod, s.context.Pod), sameResource(sent.Resource, &resource), sameToken(sent.Token, a.caller.JTI),
		w.goesOn(ctx, climb.Resource),
	)
}

// goesOn refuses a context that has ended. The climb may be an older one, so the object is read again.
func (w *Webhook) goesOn(ctx context.Context, run *origin.Node) error {
	now, err := w.Origins.Get(ctx, run.GroupKind(), run.Namespace, run.Name)
	if err != nil && !errors.Is(err, origin.ErrNotFound) {
		return admit.Unavailable("it cannot be told now whether the run still goes on: try again in a moment", err)
	}
	return refuseEnded(run, now)
}

func refuseEnded(run, now *origin.Node) error {
	if why, ended := origin.Ended(now, run.UID); ended {
		return admit.Because(approvalv1alpha1.ReasonContextEnded, fmt.Sprintf("nothing can be asked for %s any more, because %s: start another run", run, why))
	}
	return nil
}

// settleRun checks that the named run is what its pods will be taken for: an approval for anything else would never
// be used.
func (w *Webhook) settleRun(ctx context.Context, a *asker, t *target, sent *approvalv1alpha1.RequestContext, s *settled) error {
	if err := refuseEnded(a.run, a.run); err != nil {
		return err
	}
	climb, err := w.Climber.ClimbFrom(ctx, a.run)
	if err != nil {
		return admit.Unavailable("it is not known yet what the run belongs to: try again in a moment", err)
	}
	if err := w.reaches(a.run, climb.Resource, t); err != nil {
		return err
	}
	resource := a.run.Reference()
	s.hops = climb.Hops
	s.context.Resource = &resource
	return first(samePod(sent.Pod, &approvalv1alpha1.PodReference{}), sameToken(sent.Token, ""))
}

func (w *Webhook) reaches(run, topmost *origin.Node, t *target) error {
	const field = "spec.context.resource"
	switch t.scope {
	case connectorsv1alpha1.ContextScopeRun, "":
		if topmost.UID != run.UID {
			return admit.Invalid(field, fmt.Sprintf("%s belongs to %s, and approvals reach as far as that: ask for %s", run, topmost, topmost))
		}
	case connectorsv1alpha1.ContextScopeTask:
		if w.Runs.HasRunsBelow(run.GroupKind()) {
			return admit.Invalid(field, fmt.Sprintf("%s %s is approved for each task on its own: ask for a task of %s", t.ref.Kind, t.ref.Name, run))
		}
	default:
		return admit.Invalid(field, fmt.Sprintf("%s %s is approved for each pod on its own, and pods ask for themselves: leave the resource out", t.ref.Kind, t.ref.Name))
	}
	return nil
}

func settleWithoutPod(a *asker, t *target, sent *approvalv1alpha1.RequestContext, s *settled) error {
	switch {
	case !isConnector(&t.ref) || !t.allowUnbound:
		return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
			"the token belongs to no pod, and %s %s does not allow that: ask with the token of a pod, or let the owner set allowUnboundServiceAccounts on the connector",
			t.ref.Kind, t.ref.Name))
	case a.caller.JTI == "":
		return admit.Because(approvalv1alpha1.ReasonNotPermitted, "the credential has no token identifier (jti), to which the approval would be bound: ask with a token from the TokenRequest API")
	}
	s.context.Token = &approvalv1alpha1.TokenReference{JTI: a.caller.JTI}
	return first(samePod(sent.Pod, &approvalv1alpha1.PodReference{}), sameToken(sent.Token, a.caller.JTI))
}
