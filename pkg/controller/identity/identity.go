// Package identity tells as whom connectors act. Whoever may use a connector may have done what such a user did.
package identity

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// kubernetesClass is the class of connectors whose credentials are an identity of a cluster.
const kubernetesClass = "k8s"

// Keys is the index function of Connectors for ActsAs: the user as whom one acts.
func Keys(obj client.Object) []string {
	connector, ok := obj.(*connectorsv1alpha1.Connector)
	if !ok || connector.Spec.ConnectorClassName != kubernetesClass || connector.Status.Identity == "" {
		return nil
	}
	return []string{connector.Status.Identity}
}

// ActsAs tells whether any connector acts as the user. The index of the cache has Keys.
func ActsAs(ctx context.Context, cache client.Reader, index, username string) (bool, error) {
	if username == "" {
		return false, nil
	}
	var list connectorsv1alpha1.ConnectorList
	if err := cache.List(ctx, &list, client.MatchingFields{index: username}, client.UnsafeDisableDeepCopy, client.Limit(1)); err != nil {
		return false, fmt.Errorf("connectors cannot be listed: %w", err)
	}
	return len(list.Items) > 0, nil
}
