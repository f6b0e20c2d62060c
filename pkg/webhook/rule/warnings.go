package rule

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks/trial"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
	"github.com/AlaudaDevops/countersign/pkg/webhook/asked"
)

// maxOpenWrites bounds how many warnings of one sort a client sees; the API server cuts them off itself at 4 KiB.
const maxOpenWrites = 8

// warn says at once what the writer would find out later. Nothing here refuses the rule, whatever fails.
func (w *Webhook) warn(ctx context.Context, r *admit.Review, rule *approvalv1alpha1.ResourceCheckRule) {
	finding, err := trial.Run(ctx, w.Trial, w.Registry, rule)
	switch {
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "the template of a rule could not be tried")
		r.Warn("the template could not be tried now; status.conditions will tell whether checks can be made from it")
	case finding.Reason != "":
		r.Warn("%s: until that is repaired, the rule denies: %s", finding.Reason, finding.Message)
	}
	w.warnOpenWrites(ctx, r, rule)
	w.warnConsequences(ctx, r, rule)
}

// warnOpenWrites tells of writes that a list of methods does not name.
func (w *Webhook) warnOpenWrites(ctx context.Context, r *admit.Review, rule *approvalv1alpha1.ResourceCheckRule) {
	connector := w.connector(ctx, rule)
	if connector == nil {
		return
	}
	open := operation.OpenWrites(connector.Spec.ConnectorClassName, decision.When(rule.Spec.When))
	if connector.Spec.RequireChecks && len(open) > 0 {
		// They are closed then, unless another rule covers them.
		return
	}
	for i, sentence := range open {
		if i == maxOpenWrites {
			r.Warn("%d more kinds of writes are left open", len(open)-i)
			break
		}
		r.Warn("%s", sentence)
	}
}

// connector is the protected object if it is a connector that is there already.
func (w *Webhook) connector(ctx context.Context, rule *approvalv1alpha1.ResourceCheckRule) *connectorsv1alpha1.Connector {
	ref := &rule.Spec.ObjectRef
	if ref.Kind != connectorsv1alpha1.KindConnector {
		return nil
	}
	connector := &connectorsv1alpha1.Connector{}
	if err := w.Live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, connector); err != nil {
		return nil
	}
	return connector
}

// warnConsequences counts what the change does to those who ask now: a new or edited rule has answered nobody yet.
func (w *Webhook) warnConsequences(ctx context.Context, r *admit.Review, rule *approvalv1alpha1.ResourceCheckRule) {
	requests, err := asked.For(ctx, w.Cache, &rule.Spec.ObjectRef)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "the requests that a rule concerns could not be counted")
		r.Warn("it is not known now how many grants the change closes")
		return
	}
	grants, questions := w.consequences(requests, rule)
	if questions > 0 {
		r.Warn("the change closes %s and asks %s anew; put texts that shall not do that into annotations",
			count(grants, "live grant"), count(questions, "question"))
	}
}

func (w *Webhook) consequences(requests []approvalv1alpha1.ResourceCheckRequest, rule *approvalv1alpha1.ResourceCheckRule) (grants, questions int) {
	now := w.Clock.Now()
	compiled := decision.FromRule(rule)
	for i := range requests {
		req := &requests[i]
		if _, _, ended := decision.Ended(req, now); ended || !decision.AppliesTo(&compiled, decision.Use(req.Spec.Use)) {
			continue
		}
		if req.Status.Validity != nil {
			grants++
		}
		if req.Status.Follows == nil {
			questions++
		}
	}
	return grants, questions
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
