package world

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/bench/await"
)

// Narrow changes a request before it is made.
type Narrow func(*approvalv1alpha1.ResourceCheckRequest)

// ForToken narrows a request to the token with this jti.
func ForToken(jti string) Narrow {
	return func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context.Token = &approvalv1alpha1.TokenReference{JTI: jti}
	}
}

// ForJob asks for what the pods of a Job do.
func ForJob(name string) Narrow {
	return func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context.Resource = &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Name: name}
	}
}

// Ask makes the developer's request for every use of a connector.
func (w *World) Ask(ctx context.Context, connector string, narrow ...Narrow) (*approvalv1alpha1.ResourceCheckRequest, error) {
	request := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: Team, GenerateName: approvalv1alpha1.ReservedNamePrefix},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: objectRef(connector), Use: everyUse(), Reason: "the benchmark asks",
		},
	}
	for _, change := range narrow {
		change(request)
	}
	return request, w.As(Developer).Create(ctx, request)
}

// Check waits until the request's one check has been made.
func (w *World) Check(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest) (approvalv1alpha1.CheckReference, error) {
	err := await.Until(ctx, "the check of "+request.Name+" is made", func(ctx context.Context) error {
		if err := w.As(Admin).Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		if len(request.Status.RequestRefs) != 1 {
			return errors.New("the request names no check yet")
		}
		return nil
	})
	if err != nil {
		return approvalv1alpha1.CheckReference{}, err
	}
	return request.Status.RequestRefs[0], nil
}

// Approve is the owner's answer to a check.
func (w *World) Approve(ctx context.Context, check approvalv1alpha1.CheckReference) (*approvalv1alpha1.ApprovalResponse, error) {
	answer := &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: check.Namespace, GenerateName: "answer-"},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Name: check.ObjectName}, Decision: approvalv1alpha1.DecisionApprove,
		},
	}
	return answer, w.As(Owner).Create(ctx, answer)
}

// Granted waits until the request holds.
func (w *World) Granted(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest) error {
	return await.Until(ctx, request.Name+" is granted", func(ctx context.Context) error {
		if err := w.As(Admin).Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		return isReady(request.Status.Conditions)
	})
}

// Obtain goes all the way from asking to the grant.
func (w *World) Obtain(ctx context.Context, connector string, narrow ...Narrow) error {
	request, err := w.Ask(ctx, connector, narrow...)
	if err != nil {
		return err
	}
	check, err := w.Check(ctx, request)
	if err != nil {
		return err
	}
	if _, err := w.Approve(ctx, check); err != nil {
		return err
	}
	return w.Granted(ctx, request)
}
