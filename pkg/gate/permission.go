package gate

import (
	"context"
	"fmt"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// permitted returns the connector if the caller may use it at all. Whoever holds no right on it gets the same
// answer as for one that does not exist.
func (g *Gate) permitted(ctx context.Context, use Use) (*Connector, *refusal) {
	for _, verb := range verbsOf(use.Operations) {
		allowed, err := g.holds(ctx, use, verb)
		if err != nil {
			return nil, &refusal{approvalv1alpha1.ReasonNotReady, "your permission cannot be looked up; try again in a moment"}
		}
		if !allowed {
			return nil, g.notPermitted(ctx, use, verb)
		}
	}
	connector, ok := g.Connector(use.Namespace, use.Name)
	if !ok {
		return nil, unknown(use)
	}
	if connector.Invalid != "" {
		return nil, &refusal{approvalv1alpha1.ReasonError, connector.Invalid}
	}
	return connector, nil
}

// notPermitted names the missing verb to somebody who holds the other one.
func (g *Gate) notPermitted(ctx context.Context, use Use, missing string) *refusal {
	other := connectorsv1alpha1.VerbRead
	if missing == other {
		other = connectorsv1alpha1.VerbWrite
	}
	if allowed, err := g.holds(ctx, use, other); err != nil || !allowed {
		return unknown(use)
	}
	return &refusal{approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
		"%s may not %s through the connector %s/%s; ask its owner for the verb %s on connectors/%s in namespace %s",
		use.Identity.Username, missing, use.Namespace, use.Name, missing, connectorsv1alpha1.APIsSubresource, use.Namespace)}
}

func unknown(use Use) *refusal {
	return &refusal{approvalv1alpha1.ReasonConnectorUnknown, fmt.Sprintf(
		"there is no connector %s/%s, or you hold no right on it; check the name, or ask the owner of namespace %s for read or write on connectors/%s",
		use.Namespace, use.Name, use.Namespace, connectorsv1alpha1.APIsSubresource)}
}

// holds asks with everything that is known of the caller: authorizers may look at uid and extra.
func (g *Gate) holds(ctx context.Context, use Use, verb string) (bool, error) {
	allowed, _, err := g.authz.Allowed(ctx, userOf(use.Identity), authz.ResourceAttributes{
		Namespace: use.Namespace, Verb: verb,
		Group: connectorsv1alpha1.GroupVersion.Group, Version: connectorsv1alpha1.GroupVersion.Version,
		Resource: "connectors", Subresource: connectorsv1alpha1.APIsSubresource, Name: use.Name,
	})
	return allowed, err
}

func userOf(who *token.Identity) authz.UserInfo {
	return authz.UserInfo{Username: who.Username, UID: who.UID, Groups: who.Groups, Extra: who.Extra}
}

var (
	readOnly  = []string{connectorsv1alpha1.VerbRead}
	writeOnly = []string{connectorsv1alpha1.VerbWrite}
	readWrite = []string{connectorsv1alpha1.VerbRead, connectorsv1alpha1.VerbWrite}
)

// verbsOf are the verbs that the operations need, each once.
func verbsOf(operations []operation.Operation) []string {
	var reads, writes bool
	for _, o := range operations {
		if o.IsRead() {
			reads = true
		} else {
			writes = true
		}
	}
	switch {
	case reads && writes:
		return readWrite
	case reads:
		return readOnly
	}
	return writeOnly
}
