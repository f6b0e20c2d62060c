package env

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// patience bounds waiting for what other processes do; nothing depends on its length.
const patience = time.Minute

const tick = 20 * time.Millisecond

// cluster is shared by the tests that do not stop it.
var cluster *Cluster

// TestMain lets the test binary stand for the helper command of detached clusters too.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[2] == "--dir" {
		os.Exit(runHelper(os.Args[1], os.Args[3]))
	}
	Main(m, &cluster, WithAudit(auditv1.LevelMetadata))
}

func runHelper(name, stateDir string) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := map[string]func(context.Context, string) error{nameIssuer: RunIssuer, nameEgress: RunEgress, orphanMaker: makeOrphan}[name]
	if err := run(ctx, stateDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
