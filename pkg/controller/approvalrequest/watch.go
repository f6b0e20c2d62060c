package approvalrequest

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// kind is the only one that this controller answers. An ApprovalResponse may also revoke checks of other kinds.
const kind = "ApprovalRequest"

// indexRequestUID finds ApprovalResponses by the UID of the ApprovalRequest that they answer.
const indexRequestUID = "spec.requestRef.uid"

// SetupIndexes makes the indexes that the controller's client needs.
func SetupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &approvalv1alpha1.ApprovalResponse{}, indexRequestUID, RequestUID)
}

// RequestUID is the index function of ApprovalResponses.
func RequestUID(object client.Object) []string {
	if response, ok := object.(*approvalv1alpha1.ApprovalResponse); ok && answersOurKind(response) {
		return []string{string(response.Spec.RequestRef.UID)}
	}
	return nil
}

func answersOurKind(response *approvalv1alpha1.ApprovalResponse) bool {
	ref := response.Spec.RequestRef
	return ref.UID != "" && (ref.Kind == "" || ref.Kind == kind) &&
		(ref.APIVersion == "" || ref.APIVersion == approvalv1alpha1.GroupVersion.String())
}

// answered finds the check of an answer.
func answered(_ context.Context, object client.Object) []reconcile.Request {
	response, ok := object.(*approvalv1alpha1.ApprovalResponse)
	if !ok || !answersOurKind(response) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: response.Namespace, Name: response.Spec.RequestRef.Name}}}
}

// asked finds the checks of a request.
func asked(_ context.Context, object client.Object) []reconcile.Request {
	request, ok := object.(*approvalv1alpha1.ResourceCheckRequest)
	if !ok {
		return nil
	}
	var checks []reconcile.Request
	for _, ref := range request.Status.RequestRefs {
		if ref.Kind == kind && ref.APIVersion == approvalv1alpha1.GroupVersion.String() {
			checks = append(checks, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: ref.Namespace, Name: ref.ObjectName}})
		}
	}
	return checks
}

// askersChanged lets through what changes who is independent. A new request has no checks yet; when its first checks
// are named, somebody may already have joined it.
var askersChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return len(askersOf(e.Object)) > 0 },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(askersOf(e.ObjectOld), askersOf(e.ObjectNew)) ||
			len(askersOf(e.ObjectNew)) > 0 && len(asked(context.Background(), e.ObjectOld)) != len(asked(context.Background(), e.ObjectNew))
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func askersOf(object client.Object) []string {
	if request, ok := object.(*approvalv1alpha1.ResourceCheckRequest); ok {
		return request.Status.Askers
	}
	return nil
}
