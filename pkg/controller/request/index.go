package request

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/identity"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
)

// Indexes of this controller. Their names are its own, because two controllers cannot define the same one.
const (
	indexUID             = "request.uid"
	indexFingerprint     = "request.fingerprint"
	indexObject          = "request.object"
	indexObjectNamespace = "request.objectNamespace"
	indexRun             = "request.run"
	indexCheck           = "request.check"
	indexRuleObject      = "request.ruleObject"
	indexAnswered        = "request.answered"
	indexIdentity        = "request.connectorIdentity"
)

// Index defines the indexes that the controller needs of a manager's cache.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		of      client.Object
		name    string
		extract client.IndexerFunc
	}{
		{&approvalv1alpha1.ResourceCheckRequest{}, indexUID, ofRequest(func(r *approvalv1alpha1.ResourceCheckRequest) []string { return []string{string(r.UID)} })},
		{&approvalv1alpha1.ResourceCheckRequest{}, indexFingerprint, ofRequest(func(r *approvalv1alpha1.ResourceCheckRequest) []string { return []string{keyOf(r).String()} })},
		{&approvalv1alpha1.ResourceCheckRequest{}, indexObject, ofRequest(func(r *approvalv1alpha1.ResourceCheckRequest) []string { return []string{objectKeyOf(r)} })},
		{&approvalv1alpha1.ResourceCheckRequest{}, indexObjectNamespace, ofRequest(func(r *approvalv1alpha1.ResourceCheckRequest) []string { return []string{objectNamespace(r)} })},
		{&approvalv1alpha1.ResourceCheckRequest{}, indexRun, ofRequest(runKeys)},
		{&approvalv1alpha1.ResourceCheckRequest{}, indexCheck, ofRequest(checkUIDs)},
		{&approvalv1alpha1.ResourceCheckRule{}, indexRuleObject, ruleObject},
		{&approvalv1alpha1.ApprovalResponse{}, indexAnswered, answered},
		{&connectorsv1alpha1.Connector{}, indexIdentity, identity.Keys},
	} {
		if err := indexer.IndexField(ctx, index.of, index.name, index.extract); err != nil {
			return fmt.Errorf("the index %s cannot be made: %w", index.name, err)
		}
	}
	return nil
}

func ofRequest(extract func(*approvalv1alpha1.ResourceCheckRequest) []string) client.IndexerFunc {
	return func(obj client.Object) []string {
		if r, ok := obj.(*approvalv1alpha1.ResourceCheckRequest); ok {
			return extract(r)
		}
		return nil
	}
}

// keyOf computes the fingerprint; labels are never read.
func keyOf(r *approvalv1alpha1.ResourceCheckRequest) fingerprint.Key {
	question := fingerprint.FromRequest(&r.Spec)
	return fingerprint.Sum(&question)
}

// objectNamespace is where the protected object lives; the server fills it in.
func objectNamespace(r *approvalv1alpha1.ResourceCheckRequest) string {
	if r.Spec.ObjectRef.Namespace == "" {
		return r.Namespace
	}
	return r.Spec.ObjectRef.Namespace
}

func objectKeyOf(r *approvalv1alpha1.ResourceCheckRequest) string {
	return refKey(&r.Spec.ObjectRef, objectNamespace(r))
}

// refKey identifies an object by group, kind and name; versions say nothing.
func refKey(ref *approvalv1alpha1.ObjectReference, namespace string) string {
	return nameKey(ref.GroupKind(), namespace, ref.Name)
}

func nameKey(gk schema.GroupKind, namespace, name string) string {
	return gk.String() + "/" + namespace + "/" + name
}

func runKeys(r *approvalv1alpha1.ResourceCheckRequest) []string {
	if run := r.Spec.Context.Resource; run != nil && r.Status.Ended == nil {
		return []string{refKey(run, run.Namespace)}
	}
	return nil
}

func checkUIDs(r *approvalv1alpha1.ResourceCheckRequest) []string {
	uids := make([]string, 0, len(r.Status.RequestRefs))
	for i := range r.Status.RequestRefs {
		uids = append(uids, string(r.Status.RequestRefs[i].UID))
	}
	return uids
}

func ruleObject(obj client.Object) []string {
	rule, ok := obj.(*approvalv1alpha1.ResourceCheckRule)
	if !ok {
		return nil
	}
	return []string{refKey(&rule.Spec.ObjectRef, rule.Namespace)}
}

func answered(obj client.Object) []string {
	answer, ok := obj.(*approvalv1alpha1.ApprovalResponse)
	if !ok || answer.Spec.RequestRef.UID == "" {
		return nil
	}
	return []string{string(answer.Spec.RequestRef.UID)}
}

// requestsBy reads from the cache without copying: the result must not be changed.
func (c *Controller) requestsBy(ctx context.Context, index, key string) ([]*approvalv1alpha1.ResourceCheckRequest, error) {
	var list approvalv1alpha1.ResourceCheckRequestList
	if err := c.Client.List(ctx, &list, client.MatchingFields{index: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("requests cannot be listed: %w", err)
	}
	requests := make([]*approvalv1alpha1.ResourceCheckRequest, len(list.Items))
	for i := range list.Items {
		requests[i] = &list.Items[i]
	}
	return requests, nil
}

// byUID finds the request with a UID in the cache; nil if there is none.
func (c *Controller) byUID(ctx context.Context, uid types.UID) (*approvalv1alpha1.ResourceCheckRequest, error) {
	found, err := c.requestsBy(ctx, indexUID, string(uid))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}
