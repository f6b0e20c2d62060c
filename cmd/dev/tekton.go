package main

import (
	"context"

	"k8s.io/client-go/rest"
)

// startTekton runs the real Tekton, so that Releases end as pipeline runs.
func (e *environment) startTekton(ctx context.Context) error { return e.cluster.RunTekton(ctx) }

// applyReleases makes an admission with its pipeline, and a plan. The plan is a program's, as with GitOps, so that nobody
// stands for it yet.
func (e *environment) applyReleases(ctx context.Context) error {
	if err := e.cluster.ApplyFiles(ctx, e.cluster.Admin(), e.sample("releases.yaml")); err != nil {
		return err
	}
	robot := e.cluster.Admin()
	robot.Impersonate = rest.ImpersonationConfig{UserName: automatedAccount, Groups: []string{"system:masters"}}
	return e.cluster.ApplyFiles(ctx, robot, e.sample("releaseplan.yaml"))
}
