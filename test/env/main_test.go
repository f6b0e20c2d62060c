package env

import (
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

var cluster *Cluster

func TestMain(m *testing.M) {
	Main(m, &cluster, WithAudit(auditv1.LevelMetadata))
}
