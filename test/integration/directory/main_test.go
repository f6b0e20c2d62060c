// Package directory tests the directory that asks the API server, against a real one.
package directory

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/AlaudaDevops/countersign/test/env"
)

// cluster is shared by all tests.
var cluster *env.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	env.Main(m, &cluster, env.WithControllers("none"), env.WithCRDs("../../../config/crd/bases"), env.WithSetup(install))
}

// install applies the rights that are shipped.
func install(ctx context.Context, c *env.Cluster) error {
	return c.ApplyFiles(ctx, c.Admin(), "../../../config/rbac", "../../../config/roles", "../../../config/components/whois/rbac.yaml")
}
