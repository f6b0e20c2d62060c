package request

import (
	"context"
	"fmt"
	"strings"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// completed is a new request as it shall be stored, and what was found out on the way.
type completed struct {
	request *approvalv1alpha1.ResourceCheckRequest
	driven  bool
	// unlimited is for Releases: somebody was allowed to make each of them.
	unlimited bool
	key       fingerprint.Key
	history   *history
}

// complete fills in everything that the server decides. It changes nothing in what it has completed once already, so
// the validating step asserts by completing again.
func (w *Webhook) complete(ctx context.Context, caller *admit.Caller, u *unstructured.Unstructured, namespace string) (*completed, error) {
	c := &completed{request: &approvalv1alpha1.ResourceCheckRequest{}}
	if err := admit.Decode(u, c.request); err != nil {
		return nil, err
	}
	c.request.Namespace = namespace
	spec := &c.request.Spec
	hops, err := w.settleSpec(ctx, caller, c, namespace)
	if err != nil {
		return nil, err
	}
	identity := caller.Identity(admit.NotSystem)
	spec.RequestedBy = &identity
	question := fingerprint.FromRequest(spec)
	c.key = fingerprint.Sum(&question)
	if c.history, err = w.readHistory(ctx, &question, c.request); err != nil {
		return nil, err
	}
	if err := c.history.forbids(c.driven, w.Clock.Now()); err != nil {
		return nil, err
	}
	if err := w.settleName(c); err != nil {
		return nil, err
	}
	return c, c.writeTo(u, hops)
}

// settleSpec answers who asks, for what, in which context.
func (w *Webhook) settleSpec(ctx context.Context, caller *admit.Caller, c *completed, namespace string) ([]origin.Hop, error) {
	spec := &c.request.Spec
	a, err := w.asker(ctx, caller, spec, namespace)
	if err != nil {
		return nil, err
	}
	if err := checkWords(caller, spec, w.Clock.Now()); err != nil {
		return nil, err
	}
	t, err := w.target(ctx, a, spec, namespace)
	if err != nil {
		return nil, err
	}
	s, err := w.settle(ctx, a, t, &spec.Context, namespace)
	if err != nil {
		return nil, err
	}
	spec.ObjectRef, spec.Context, c.driven, c.unlimited = t.ref, s.context, a.isDriven(), a.way == forRelease
	return s.hops, nil
}

// writeTo puts what was settled into the object, and nothing else.
func (c *completed) writeTo(u *unstructured.Unstructured, hops []origin.Hop) error {
	admit.ClearOwnership(u)
	admit.SetLabels(u, c.labels(hops))
	if c.request.Name != "" {
		u.SetName(c.request.Name)
	}
	return first(
		admit.Set(u, c.request.Spec.ObjectRef, "spec", "objectRef"),
		admit.Set(u, c.request.Spec.Context, "spec", "context"),
		admit.Set(u, c.request.Spec.RequestedBy, "spec", "requestedBy"),
	)
}

// serverLabels are the labels that nobody else sets or changes.
var serverLabels = []string{
	approvalv1alpha1.LabelFingerprint, approvalv1alpha1.LabelObjectKind, approvalv1alpha1.LabelObjectName,
	approvalv1alpha1.LabelTektonPipelineRun, approvalv1alpha1.LabelTektonTaskRun,
}

// labels have an empty value where the label must not be there.
func (c *completed) labels(hops []origin.Hop) map[string]string {
	ref := c.request.Spec.ObjectRef
	labels := map[string]string{
		approvalv1alpha1.LabelFingerprint:       c.key.String(),
		approvalv1alpha1.LabelObjectKind:        admit.LabelValue(ref.Kind),
		approvalv1alpha1.LabelObjectName:        admit.LabelValue(ref.Name),
		approvalv1alpha1.LabelTektonPipelineRun: "",
		approvalv1alpha1.LabelTektonTaskRun:     "",
	}
	for _, hop := range hops {
		switch hop.Node.GroupKind() {
		case schema.GroupKind{Group: pipeline.GroupName, Kind: "PipelineRun"}:
			labels[approvalv1alpha1.LabelTektonPipelineRun] = admit.LabelValue(hop.Node.Name)
		case schema.GroupKind{Group: pipeline.GroupName, Kind: "TaskRun"}:
			labels[approvalv1alpha1.LabelTektonTaskRun] = admit.LabelValue(hop.Node.Name)
		}
	}
	return labels
}

// settleName names a request that asks the server for a name, so that equal asks collide. Names beginning like the
// server's own are the server's alone.
func (w *Webhook) settleName(c *completed) error {
	req := c.request
	if req.GenerateName == approvalv1alpha1.ReservedNamePrefix {
		name := c.history.name(c.key, &req.Spec, w.Clock.Now())
		if req.Name != "" && req.Name != name {
			return admit.Conflict(fmt.Sprintf("the server would name this request %s by now and not %s: ask again without a name", name, req.Name))
		}
		req.Name = name
		return nil
	}
	for _, name := range []string{req.Name, req.GenerateName} {
		if strings.HasPrefix(name, approvalv1alpha1.ReservedNamePrefix) {
			return admit.Invalid("metadata.name", fmt.Sprintf("names beginning with %s are the server's: choose another, or set generateName to exactly that",
				approvalv1alpha1.ReservedNamePrefix))
		}
	}
	return nil
}
