package cli

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// completer offers names; an error offers none, because a shell has no place for it.
type completer func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

func (p *program) complete(names func(ctx context.Context, c *cluster) ([]string, error)) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := p.dial(p)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(cmd.Context(), c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func (p *program) completeRequests(at *where) completer {
	return p.complete(func(ctx context.Context, c *cluster) ([]string, error) {
		namespace, err := at.namespace(p)
		if err != nil {
			return nil, err
		}
		list := &approvalv1alpha1.ResourceCheckRequestList{}
		err = c.List(ctx, list, client.InNamespace(namespace))
		names := make([]string, 0, len(list.Items))
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, err
	})
}

// completeChecks offers the checks that the caller can answer.
func (p *program) completeChecks(o *answerOptions) completer {
	return p.complete(func(ctx context.Context, c *cluster) ([]string, error) {
		namespace, err := o.at.namespace(p)
		if err != nil {
			return nil, err
		}
		if o.all {
			namespace = metav1.NamespaceAll
		}
		me, err := c.whoami(ctx)
		if err != nil {
			return nil, err
		}
		checks, err := c.inbox(ctx, namespace, me)
		names := make([]string, 0, len(checks))
		for i := range checks {
			names = append(names, checks[i].Name)
		}
		return names, err
	})
}

// completeRecordedKinds offers the kinds of which the cluster records creators.
func (p *program) completeRecordedKinds() completer {
	return p.complete(func(ctx context.Context, c *cluster) ([]string, error) {
		kinds, err := p.recordedKinds(ctx, c, true)
		names := make([]string, 0, len(kinds))
		for _, kind := range kinds {
			names = append(names, resourceText(kind))
		}
		return names, err
	})
}
