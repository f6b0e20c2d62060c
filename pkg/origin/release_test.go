package origin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

func release(name string, content map[string]any, annotations map[string]string) *unstructured.Unstructured {
	u := object("appstudio.redhat.com/v1alpha1", "Release", name)
	for key, value := range content {
		u.Object[key] = value
	}
	u.SetAnnotations(annotations)
	return u
}

func TestReleaseIsRead(t *testing.T) {
	standing := &attribution.Standing{Kind: "ReleasePlan", Namespace: "ns", Name: "to-prod", UID: "plan-1", Generation: 2, Author: "bob", AcceptedAt: time.Unix(0, 0).UTC()}
	tests := map[string]struct {
		content     map[string]any
		annotations map[string]string
		want        Release
		accountable string
	}{
		"an empty one": {},
		"one of a person": {
			content:     map[string]any{"spec": map[string]any{"releasePlan": "to-prod"}},
			annotations: map[string]string{"attribution.alaudadevops.io/author": "alice"},
			want:        Release{Plan: "to-prod", Author: "alice"}, accountable: "alice",
		},
		"one of a program": {
			annotations: map[string]string{"attribution.alaudadevops.io/automated-by": "system:serviceaccount:ci:bot", "attribution.alaudadevops.io/standing": standing.String()},
			want:        Release{AutomatedBy: "system:serviceaccount:ci:bot", Standing: standing}, accountable: "bob",
		},
		"one of a program for which nobody stands": {
			annotations: map[string]string{"attribution.alaudadevops.io/automated-by": "bot", "attribution.alaudadevops.io/author": "alice"},
			want:        Release{AutomatedBy: "bot", Author: "alice"},
		},
		"a record that cannot be read counts as none": {
			annotations: map[string]string{"attribution.alaudadevops.io/standing": "bob"},
		},
		"a verified one": {
			content: map[string]any{"status": map[string]any{
				"attribution":       map[string]any{"author": "bob", "standingAttribution": true, "verified": true, "verifiedAt": "2026-03-02T12:00:00Z"},
				"managedProcessing": map[string]any{"pipelineRun": "prod/run-1"},
			}},
			want: Release{Verified: "bob", VerifiedAt: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), ByPlan: true, PipelineRun: "prod/run-1"},
		},
		"a verified one in the older wording": {
			content: map[string]any{"status": map[string]any{"authorization": map[string]any{"author": "bob", "standingAuthorization": true, "verified": true, "verifiedAt": "2026-03-02T12:00:00Z"}}},
			want:    Release{Verified: "bob", VerifiedAt: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), ByPlan: true},
		},
		"one that is not verified": {
			content: map[string]any{"status": map[string]any{"attribution": map[string]any{"author": "bob", "verified": false}}},
		},
		"one with an unexpected shape": {
			content: map[string]any{"spec": "x", "status": map[string]any{"attribution": []any{"bob"}, "managedProcessing": 1}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := FromUnstructured(release("r", test.content, test.annotations))
			assert.Equal(t, &test.want, node.Release)
			assert.Equal(t, test.accountable, node.Release.Accountable())
			assert.Empty(t, node.ServiceAccounts)
		})
	}
	assert.Nil(t, FromUnstructured(object("v1", "Pod", "p")).Release)
}

func TestReleaseEnds(t *testing.T) {
	tests := map[string]struct {
		conditions []any
		wantWhy    string
	}{
		"without conditions": {},
		"only validated":     {conditions: []any{map[string]any{"type": "Validated", "status": "True", "reason": "Succeeded"}}},
		"on its way":         {conditions: []any{map[string]any{"type": "Released", "status": "Unknown", "reason": "Progressing"}}},
		"on its way, as the public release-service says it": {
			conditions: []any{map[string]any{"type": "Released", "status": "False", "reason": "Progressing"}},
		},
		"released": {conditions: []any{map[string]any{"type": "Released", "status": "True", "reason": "Succeeded"}}, wantWhy: "Succeeded"},
		"failed":   {conditions: []any{map[string]any{"type": "Released", "status": "False", "reason": "Failed"}}, wantWhy: "Failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := FromUnstructured(release("r", map[string]any{"status": map[string]any{"conditions": test.conditions}}, nil))
			assert.Equal(t, test.wantWhy != "", node.Finished)
			assert.Equal(t, test.wantWhy, node.FinishedWhy)
			_, ended := Ended(node, node.UID)
			assert.Equal(t, test.wantWhy != "", ended)
		})
	}
}

// The kind of Releases may be installed long after this process started, or never.
func TestCacheFindsReleasesOnceTheirKindIsInstalled(t *testing.T) {
	mapper := &growingMapper{known: map[schema.GroupKind]string{PodKind: "pods"}}
	made := release("r", map[string]any{"status": map[string]any{"managedProcessing": map[string]any{"pipelineRun": "prod/run-1"}}}, nil)
	// The mapper of these tests knows one version.
	made.SetAPIVersion("appstudio.redhat.com/v1")
	c, _, clock, changes := startCache(t, mapper, made)
	require.Eventually(t, c.HasSynced, 10*time.Second, time.Millisecond)
	_, err := c.ReleasesOf(t.Context(), "prod/run-1")
	require.ErrorIs(t, err, ErrUnobserved)

	mapper.set(func() { mapper.known[ReleaseKind] = "releases" })
	require.Eventually(t, clock.HasWaiters, 10*time.Second, time.Millisecond)
	clock.Step(recheckEvery)
	<-changes
	found, err := c.ReleasesOf(t.Context(), "prod/run-1")
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, "Release ns/r", found[0].String())
	found, err = c.ReleasesOf(t.Context(), "prod/run-2")
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestReleasesAreHeldByTheRunThatTheyNameNow(t *testing.T) {
	s := newStore(func(Change) {})
	named := func(name, run string) *unstructured.Unstructured {
		return release(name, map[string]any{"status": map[string]any{"managedProcessing": map[string]any{"pipelineRun": run}}}, nil)
	}
	names := func(run string) []string {
		var out []string
		for _, n := range s.releasesOf(run) {
			out = append(out, n.Name)
		}
		return out
	}
	require.NoError(t, s.Add(named("a", "prod/run-1")))
	require.NoError(t, s.Add(named("b", "prod/run-1")))
	require.NoError(t, s.Add(named("c", "")))
	require.NoError(t, s.Update(named("a", "prod/run-1")))
	assert.ElementsMatch(t, []string{"a", "b"}, names("prod/run-1"))
	require.NoError(t, s.Update(named("a", "prod/run-2")))
	assert.Equal(t, []string{"b"}, names("prod/run-1"))
	assert.Equal(t, []string{"a"}, names("prod/run-2"))
	require.NoError(t, s.Delete(named("a", "prod/run-2")))
	require.NoError(t, s.Delete(named("a", "prod/run-2")))
	require.NoError(t, s.Replace([]any{named("b", "prod/run-3")}, "1"))
	assert.Equal(t, map[string][]*Node{"prod/run-3": s.releasesOf("prod/run-3")}, s.held.byRun)
	assert.Equal(t, []string{"b"}, names("prod/run-3"))
	assert.Empty(t, names(""))
}
