package main

import "context"

// startTekton runs the real Tekton, so that Releases end as pipeline runs.
func (e *environment) startTekton(ctx context.Context) error { return e.cluster.RunTekton(ctx) }
