// Package migrate tests `creators migrate` on a cluster whose objects are older than the admission policies, by the audit
// log that its API server wrote. No controllers run, so nobody else touches the objects.
package migrate

import (
	"testing"

	"github.com/go-logr/logr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/AlaudaDevops/countersign/test/env"
)

// cluster is shared by all tests.
var cluster *env.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	env.Main(m, &cluster, env.WithCRDs("../../../config/crd/bases", "../testdata/foreign-kinds.yaml"),
		env.WithAudit(auditv1.LevelRequestResponse), env.WithControllers("none"))
}
