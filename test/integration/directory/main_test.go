// Package directory tests the directory that asks the API server, against a real one.
package directory

import (
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/AlaudaDevops/countersign/test/env"
)

// cluster is shared by all tests.
var cluster *env.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	env.Main(m, &cluster, env.WithControllers("none"))
}
