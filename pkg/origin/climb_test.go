package origin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const (
	jobController     = "system:serviceaccount:kube-system:job-controller"
	cronJobController = "system:serviceaccount:kube-system:cronjob-controller"
)

var (
	epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	run   = connectorsv1alpha1.ContextScopeRun
	kinds = map[string]schema.GroupVersionKind{
		"Pod": {Version: "v1", Kind: "Pod"}, "Job": {Group: "batch", Version: "v1", Kind: "Job"},
		"CronJob": {Group: "batch", Version: "v1", Kind: "CronJob"}, "ReplicaSet": {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
		"TaskRun": {Group: "tekton.dev", Version: "v1", Kind: "TaskRun"}, "PipelineRun": {Group: "tekton.dev", Version: "v1", Kind: "PipelineRun"},
	}
)

// node makes an object whose UID is its name, created after the epoch by creator for its owner.
func node(kind, name, creator string, owner *Node) *Node {
	n := &Node{GroupVersionKind: kinds[kind], Namespace: "ns", Name: name, UID: types.UID(name), CreatedBy: creator, Created: epoch.Add(time.Hour)}
	if owner != nil {
		n.Owner = &Owner{&owner.GroupVersionKind, owner.Name, owner.UID}
		n.CreatedFor = owner.UID
	}
	return n
}

type fakeSource struct {
	nodes []*Node
	calls atomic.Int64
	err   error
	gate  chan struct{}
}

func (s *fakeSource) Get(_ context.Context, kind schema.GroupKind, _, name string) (*Node, error) {
	s.calls.Add(1)
	if s.gate != nil {
		<-s.gate
	}
	for _, n := range s.nodes {
		if n.GroupKind() == kind && n.Name == name {
			return n, nil
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
}

func climber(s Source, options ...Option) *Climber {
	return NewClimber(s, DefaultConfig(), func() time.Time { return epoch }, options...)
}

func podName(n *Node) types.NamespacedName {
	return types.NamespacedName{Namespace: n.Namespace, Name: n.Name}
}

func TestS1_ClimbCountsOnlyProvenHops(t *testing.T) {
	pipelineRun := node("PipelineRun", "pr", "alice", nil)
	taskRun := node("TaskRun", "tr", tektonController, pipelineRun)
	pod := node("Pod", "pod", tektonController, taskRun)
	job := node("Job", "job", "alice", nil)
	jobPod := node("Pod", "pod", jobController, job)
	replicaSet := node("ReplicaSet", "rs", "x", nil)
	change := func(n *Node, edit func(*Node)) *Node {
		changed := *n
		edit(&changed)
		return &changed
	}

	tests := map[string]struct {
		nodes       []*Node
		scope       connectorsv1alpha1.ContextScope
		want        string
		wantStopped string
	}{
		"pipeline run":                      {nodes: []*Node{pod, taskRun, pipelineRun}, want: "pr"},
		"pipeline run, task scope":          {nodes: []*Node{pod, taskRun, pipelineRun}, scope: "Task", want: "tr"},
		"pipeline run, pod scope":           {nodes: []*Node{pod, taskRun, pipelineRun}, scope: "Pod", want: "pod"},
		"an unknown scope is the narrowest": {nodes: []*Node{pod, taskRun, pipelineRun}, scope: "Cluster", want: "pod"},
		"job":                               {nodes: []*Node{jobPod, job}, want: "job"},
		"pod alone":                         {nodes: []*Node{node("Pod", "pod", "alice", nil)}, want: "pod"},
		"a cron job is no context": {
			nodes: []*Node{node("Pod", "pod", jobController, job), node("Job", "job", cronJobController, node("CronJob", "cj", "alice", nil))},
			want:  "job",
		},
		"a replica set is no context and is not even read": {
			nodes: []*Node{node("Pod", "pod", "system:serviceaccount:kube-system:replicaset-controller", replicaSet)},
			want:  "pod",
		},
		"pod created by a person with an owner": {
			nodes: []*Node{change(pod, func(n *Node) { n.CreatedBy = "mallory" }), taskRun, pipelineRun},
			want:  "pod", wantStopped: `created by "mallory"`,
		},
		"pod created by another kind's controller": {
			nodes: []*Node{change(pod, func(n *Node) { n.CreatedBy = jobController }), taskRun, pipelineRun},
			want:  "pod", wantStopped: "not by the controller of TaskRun",
		},
		"owner set after creation": {
			nodes: []*Node{change(pod, func(n *Node) { n.CreatedFor = "" }), taskRun, pipelineRun},
			want:  "pod", wantStopped: "was not created for",
		},
		"owner pointed elsewhere after creation": {
			nodes: []*Node{change(pod, func(n *Node) { n.CreatedFor = "older" }), taskRun, pipelineRun},
			want:  "pod", wantStopped: "was not created for",
		},
		"created before the epoch": {
			nodes: []*Node{change(pod, func(n *Node) { n.Created = epoch }), taskRun, pipelineRun},
			want:  "pod", wantStopped: "no creator record that can be relied on",
		},
		"forged task run": {
			nodes: []*Node{pod, change(taskRun, func(n *Node) { n.CreatedBy = "mallory" }), pipelineRun},
			want:  "tr", wantStopped: `created by "mallory"`,
		},
		"owner of a kind without a controller": {
			nodes: []*Node{change(pod, func(n *Node) {
				n.Owner = &Owner{&schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: "CustomRun"}, "x", "x"}
			})},
			want: "pod", wantStopped: "no controller is registered",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			climb, err := climber(&fakeSource{nodes: tc.nodes}).Climb(t.Context(), podName(pod), "pod", tc.scope)
			require.NoError(t, err)
			assert.Equal(t, tc.want, climb.Resource.Name)
			assert.Contains(t, climb.Stopped, tc.wantStopped)
			assert.Equal(t, tc.wantStopped == "", climb.Stopped == "")
		})
	}
}

func TestS9_ClimbThatIsNotWholeIsPending(t *testing.T) {
	pipelineRun := node("PipelineRun", "pr", "alice", nil)
	taskRun := node("TaskRun", "tr", tektonController, pipelineRun)
	pod := node("Pod", "pod", tektonController, taskRun)
	recreated := *pipelineRun
	recreated.UID = "another"
	loop := node("PipelineRun", "pr", tektonController, nil)
	loop.Owner, loop.CreatedFor = &Owner{&loop.GroupVersionKind, "pr", "pr"}, "pr"

	tests := map[string]struct {
		source *fakeSource
		want   error
	}{
		"pod not seen":              {&fakeSource{}, ErrNotFound},
		"pod of another UID":        {&fakeSource{nodes: []*Node{node("Pod", "pod", "a", nil)}}, ErrNotFound},
		"owner not seen":            {&fakeSource{nodes: []*Node{pod}}, ErrUnobserved},
		"owner's owner not seen":    {&fakeSource{nodes: []*Node{pod, taskRun}}, ErrUnobserved},
		"owner of another UID":      {&fakeSource{nodes: []*Node{pod, taskRun, &recreated}}, ErrUnobserved},
		"owner's kind not observed": {&fakeSource{nodes: []*Node{pod, taskRun}, err: ErrUnobserved}, ErrUnobserved},
		"owners in a circle":        {&fakeSource{nodes: []*Node{pod, taskRun, loop}}, ErrUnobserved},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			uid := types.UID("pod")
			if name == "pod of another UID" {
				uid = "old-pod"
			}
			c := climber(tc.source)
			_, err := c.Climb(t.Context(), podName(pod), uid, run)
			require.ErrorIs(t, err, tc.want)

			tc.source.nodes, tc.source.err = []*Node{pod, taskRun, pipelineRun}, nil
			_, err = c.Climb(t.Context(), podName(pod), "pod", run)
			assert.NoError(t, err, "what was not whole must not be kept")
		})
	}
}

func TestS8_ClimbIsKeptByPodUID(t *testing.T) {
	job := node("Job", "job", "alice", nil)
	pod := node("Pod", "pod", jobController, job)
	source := &fakeSource{nodes: []*Node{pod, job}}
	since := epoch
	c := NewClimber(source, DefaultConfig(), func() time.Time { return since })
	for range 3 {
		climb, err := c.Climb(t.Context(), podName(pod), "pod", run)
		require.NoError(t, err)
		assert.Equal(t, "job", climb.Resource.Name)
	}
	assert.EqualValues(t, 2, source.calls.Load())

	_, err := c.Climb(t.Context(), podName(pod), "another", run)
	require.ErrorIs(t, err, ErrNotFound)

	since = epoch.Add(2 * time.Hour)
	climb, err := c.Climb(t.Context(), podName(pod), "pod", run)
	require.NoError(t, err)
	assert.Equal(t, "pod", climb.Resource.Name, "a raised epoch takes older records back")
}

func TestClimbsAreBounded(t *testing.T) {
	g := newGenerations(4)
	for i := range 100 {
		g.put(types.UID(fmt.Sprint(i)), epoch, &scoped{})
		_, ok := g.get("0", epoch)
		assert.True(t, ok, "what is used stays")
		assert.LessOrEqual(t, len(g.young)+len(g.old), 5)
	}
	_, ok := g.get("1", epoch)
	assert.False(t, ok)
}

func TestConcurrentClimbsAreMerged(t *testing.T) {
	pod := node("Pod", "pod", "alice", nil)
	source := &fakeSource{nodes: []*Node{pod}, gate: make(chan struct{})}
	c := climber(source)

	hurried, cancel := context.WithCancel(t.Context())
	var waiting, asked sync.WaitGroup
	results := make(chan error, 8)
	for range cap(results) {
		asked.Add(1)
		waiting.Go(func() {
			asked.Done()
			_, err := c.Climb(t.Context(), podName(pod), "pod", run)
			results <- err
		})
	}
	asked.Wait()
	cancel()
	_, err := c.Climb(hurried, podName(pod), "pod", run)
	require.ErrorIs(t, err, ErrUnobserved)

	close(source.gate)
	waiting.Wait()
	for range cap(results) {
		assert.NoError(t, <-results)
	}
}

func TestClimbFromShowsEveryCreator(t *testing.T) {
	cronJob := node("CronJob", "cj", "alice", nil)
	job := node("Job", "job", cronJobController, cronJob)
	pod := node("Pod", "pod", jobController, job)
	c := climber(&fakeSource{nodes: []*Node{pod, job, cronJob}})

	climb, err := c.ClimbFrom(t.Context(), pod)
	require.NoError(t, err)
	assert.Equal(t, "job", climb.Resource.Name)
	assert.Equal(t, []Hop{{Node: pod, Proven: true}, {Node: job, Proven: true}, {Node: cronJob}}, climb.Hops)

	_, err = climber(&fakeSource{err: errors.Join(ErrUnobserved)}).ClimbFrom(t.Context(), pod)
	require.ErrorIs(t, err, ErrUnobserved)
}

func TestS7_ClimbThatWasCutOffSaysSo(t *testing.T) {
	cronJob := node("CronJob", "cj", "alice", nil)
	job := node("Job", "job", cronJobController, cronJob)
	pod := node("Pod", "pod", jobController, job)
	change := func(n *Node, edit func(*Node)) *Node {
		changed := *n
		edit(&changed)
		return &changed
	}
	withoutOwner := func(n *Node) { n.Owner = nil }
	tests := map[string]struct {
		nodes []*Node
		want  []bool
	}{
		"whole":                         {[]*Node{pod, job, cronJob}, []bool{false, false, false}},
		"a pod that a person made":      {[]*Node{node("Pod", "pod", "alice", nil)}, []bool{false}},
		"the job's owner was taken off": {[]*Node{pod, change(job, withoutOwner)}, []bool{false, true}},
		"the pod's owner was taken off": {[]*Node{change(pod, withoutOwner)}, []bool{true}},
		"the job's owner was replaced": {
			[]*Node{pod, change(job, func(n *Node) { n.Owner = &Owner{&cronJob.GroupVersionKind, "bobs", "bobs"} })}, []bool{false, true},
		},
		"the job's owner became one of another kind": {
			[]*Node{pod, change(job, func(n *Node) { n.Owner = &Owner{&pod.GroupVersionKind, "pod", "pod"} })}, []bool{false, true},
		},
		"a person names an owner that did not make it": {
			[]*Node{pod, change(job, func(n *Node) { n.CreatedBy = "alice" })}, []bool{false, false},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			climb, err := climber(&fakeSource{nodes: tc.nodes}).ClimbFrom(t.Context(), tc.nodes[0])
			require.NoError(t, err)
			var detached []bool
			for _, hop := range climb.Hops {
				detached = append(detached, hop.Detached)
			}
			assert.Equal(t, tc.want, detached)
		})
	}
}

func TestKeptClimbDoesNotAllocate(t *testing.T) {
	pod := node("Pod", "pod", "alice", nil)
	c := climber(&fakeSource{nodes: []*Node{pod}})
	name := podName(pod)
	_, err := c.Climb(t.Context(), name, "pod", run)
	require.NoError(t, err)
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = c.Climb(ctx, name, "pod", run) }))
}
