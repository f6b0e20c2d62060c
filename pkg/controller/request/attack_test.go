package request

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// releaseOf names the run as its own.
func releaseOf(creator string, release origin.Release) *origin.Node {
	release.PipelineRun, release.Verified = "dev/build", release.Accountable()
	return &origin.Node{
		GroupVersionKind: origin.ReleaseKind.WithVersion("v1alpha1"), Namespace: "team-a", Name: "shop-1", UID: "release",
		CreatedBy: creator, Created: epoch.Add(time.Hour), Release: &release,
	}
}

// The controller made the run, but for somebody: he would approve what he released himself.
func TestS7_NobodyApprovesWhatRunsForHisOwnRelease(t *testing.T) {
	const robot = "system:serviceaccount:ci:bot"
	automated := origin.Release{AutomatedBy: robot, Standing: &attribution.Standing{Author: "alice"}}
	tests := map[string]struct {
		release      *origin.Node
		made         time.Duration
		wantPerson   string
		wantExcluded []string
		wantUnknown  bool
		wantErr      error
	}{
		"of a person":  {release: releaseOf("alice", origin.Release{Author: "alice"}), wantPerson: "alice", wantExcluded: []string{"alice"}},
		"of a program": {release: releaseOf(robot, automated), wantPerson: "alice", wantExcluded: []string{"alice", robot}},
		"that is gone": {wantPerson: approvalv1alpha1.UnknownUser, wantUnknown: true},
		"not yet seen": {made: 119 * time.Minute, wantErr: origin.ErrUnobserved},
		"of who knows": {release: releaseOf("", origin.Release{Author: "alice"}), wantPerson: "alice", wantExcluded: []string{"alice"}, wantUnknown: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run := makeNode("PipelineRun", "build", ownName)
			if test.made != 0 {
				run.Created = epoch.Add(test.made)
			}
			source := nodes{byName: map[string]*origin.Node{"PipelineRun/dev/build": run}, err: origin.ErrNotFound}
			if test.release != nil {
				source.byName["Release/team-a/shop-1"] = test.release
			}
			c := newFactsController(t, source, source, &climbs{hops: []origin.Hop{{Node: run}}})
			f, err := c.factsOf(context.Background(), runRequest())
			require.ErrorIs(t, err, test.wantErr)
			if err != nil {
				return
			}
			assert.Equal(t, test.wantPerson, f.person)
			assert.Subset(t, f.excluded, test.wantExcluded)
			assert.Equal(t, test.wantUnknown, f.unknown)
		})
	}
}
