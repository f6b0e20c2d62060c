package request

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
	"github.com/AlaudaDevops/countersign/pkg/decision"
)

const (
	// fieldManager is who made a check, in the API server's bookkeeping.
	fieldManager = string(status.FieldOwner)
	// askersOwner owns the askers that this controller adds: admission adds the others.
	askersOwner = client.FieldOwner("countersign-followers")
	// maxAskers bounds the list of askers, as its schema has it.
	maxAskers = 64
)

// writeStatus writes only what changed, and only over what the plan was made from.
func (c *Controller) writeStatus(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest, plan *decision.Plan) (written bool, err error) {
	if equality.Semantic.DeepEqual(request.Status, plan.Status) {
		return false, nil
	}
	owned := plan.Status
	// Admission writes the askers, under other field owners.
	owned.Askers = nil
	version, err := status.Replace(ctx, c.Client, request, &owned)
	if err != nil {
		return false, fmt.Errorf("the status of request %s/%s cannot be written: %w", request.Namespace, request.Name, err)
	}
	if version == "" {
		return false, errStale
	}
	c.own.wrote(request.UID, version)
	c.announce(request, plan)
	return true, nil
}

// cancel closes open checks: our own kinds say that they are cancelled, foreign ones are deleted.
func (c *Controller) cancel(ctx context.Context, refs []approvalv1alpha1.CheckReference, asker string) error {
	for i := range refs {
		if err := c.cancelOne(ctx, &refs[i], asker); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) cancelOne(ctx context.Context, ref *approvalv1alpha1.CheckReference, asker string) error {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	kind, ok := c.Kinds.Lookup(gvk.GroupKind())
	if !ok {
		return nil
	}
	in, live, err := c.find(ctx, gvk, ref)
	if err != nil || live == nil || live.GetUID() != ref.UID || live.GetLabels()[approvalv1alpha1.LabelRequestUID] != asker {
		return err
	}
	if !isOpen(kind, live) {
		return nil
	}
	c.metrics.cancelled.Inc()
	if kind.BuiltIn() {
		return cancelStatus(ctx, in, live)
	}
	return deleteExactly(ctx, in, live)
}

func (c *Controller) find(ctx context.Context, gvk schema.GroupVersionKind, ref *approvalv1alpha1.CheckReference) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if apimeta.IsNoMatchError(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the kind %s cannot be looked up: %w", gvk, err)
	}
	live, err := c.liveCheck(ctx, gvk, ref.Namespace, ref.ObjectName)
	return c.Dynamic.Resource(mapping.Resource).Namespace(ref.Namespace), live, err
}

func isOpen(kind *checks.Kind, live *unstructured.Unstructured) bool {
	switch kind.Read(live).State {
	case duckv1alpha1.CheckApproved, duckv1alpha1.CheckRejected, duckv1alpha1.CheckCancelled:
		return false
	}
	return true
}

// cancelStatus writes only over the check as it was seen, so an answer that came in between survives.
func cancelStatus(ctx context.Context, in dynamic.ResourceInterface, live *unstructured.Unstructured) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()},
		"status": map[string]any{
			"state": duckv1alpha1.CheckCancelled, "reason": duckv1alpha1.CheckReasonRequestEnded,
			"message": "Nothing rests on this check any more; there is nothing to answer.", "waitingFor": nil,
		},
	})
	if err != nil {
		return err
	}
	_, err = in.Patch(ctx, live.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return errStale
	}
	return fmt.Errorf("the check %s cannot be cancelled: %w", describe(live), err)
}

// recordAskers adds who asks for the same under another name to those who may not answer. Admission has done so already
// unless the request that they followed is gone and this one asks in its place.
func (c *Controller) recordAskers(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest, equals []*approvalv1alpha1.ResourceCheckRequest) error {
	missing := missingAskers(request, equals)
	if len(missing) == 0 {
		return nil
	}
	askers := append(slices.Clone(request.Status.Askers), missing...)
	record := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"askers": anyOf(askers[:min(len(askers), maxAskers)])}}}
	record.SetGroupVersionKind(approvalv1alpha1.GroupVersion.WithKind("ResourceCheckRequest"))
	record.SetNamespace(request.Namespace)
	record.SetName(request.Name)
	record.SetUID(request.UID)
	err := c.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(record), askersOwner, client.ForceOwnership)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func missingAskers(request *approvalv1alpha1.ResourceCheckRequest, equals []*approvalv1alpha1.ResourceCheckRequest) []string {
	var missing []string
	if len(request.Status.Askers) == maxAskers {
		return nil
	}
	for _, other := range equals {
		by := other.Spec.RequestedBy
		if other.Status.Follows == nil || other.Status.Follows.UID != request.UID || by == nil {
			continue
		}
		known := request.Spec.RequestedBy != nil && request.Spec.RequestedBy.Username == by.Username
		if !known && !slices.Contains(request.Status.Askers, by.Username) && !slices.Contains(missing, by.Username) {
			missing = append(missing, by.Username)
		}
	}
	slices.SortFunc(missing, strings.Compare)
	return missing
}

func anyOf(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}
