package approvalrequest

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// observe gathers what the status follows from.
func (c *Controller) observe(ctx context.Context, check *approvalv1alpha1.ApprovalRequest) (quorum.Input, error) {
	now := c.now()
	in := quorum.Input{Spec: &check.Spec, StartedAt: now.Time, Now: now.Time, Previous: &check.Status}
	if started := check.Status.StartedAt; started != nil {
		in.StartedAt = started.Time
	}
	var err error
	if in.Answers, err = c.answers(ctx, check); err != nil {
		return in, err
	}
	in.Askers, err = c.askers(ctx, check)
	return in, err
}

func (c *Controller) answers(ctx context.Context, check *approvalv1alpha1.ApprovalRequest) ([]quorum.Answer, error) {
	var stored approvalv1alpha1.ApprovalResponseList
	err := c.client.List(ctx, &stored, client.InNamespace(check.Namespace), client.MatchingFields{indexRequestUID: string(check.UID)})
	if err != nil {
		return nil, fmt.Errorf("the answers to %s/%s cannot be listed: %w", check.Namespace, check.Name, err)
	}
	answers := make([]quorum.Answer, 0, len(stored.Items))
	for i := range stored.Items {
		if answer, ok := read(&stored.Items[i]); ok {
			answers = append(answers, answer)
		}
	}
	return answers, nil
}

// read leaves out an answer that the server did not complete: nobody is known to have given it.
func read(response *approvalv1alpha1.ApprovalResponse) (quorum.Answer, bool) {
	spec := &response.Spec
	if spec.Responder == nil {
		return quorum.Answer{}, false
	}
	answer := quorum.Answer{
		UID: response.UID, Responder: *spec.Responder, Decision: spec.Decision, Comment: spec.Comment,
		At: response.CreationTimestamp.Time, AsOwner: spec.AsOwner,
	}
	if spec.GrantFor != nil {
		answer.GrantFor = &spec.GrantFor.Duration
	}
	return answer, true
}

// askers are the users who asked for the same as the request behind the check. If that request is gone, nothing rests
// on the check any more.
func (c *Controller) askers(ctx context.Context, check *approvalv1alpha1.ApprovalRequest) ([]string, error) {
	if check.Spec.Request == nil {
		return nil, nil
	}
	ref := check.Spec.Request.Ref
	var request approvalv1alpha1.ResourceCheckRequest
	err := c.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &request)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("request %s/%s cannot be read: %w", ref.Namespace, ref.Name, err)
	}
	if err != nil || request.UID != ref.UID {
		return nil, nil
	}
	return request.Status.Askers, nil
}
