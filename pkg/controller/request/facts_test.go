package request

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/identity"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

const ownName = "system:serviceaccount:countersign-system:countersign-controller"

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// nodes is a source in memory; what is not in it is err.
type nodes struct {
	byName map[string]*origin.Node
	err    error
}

func (n nodes) Get(_ context.Context, gk schema.GroupKind, namespace, name string) (*origin.Node, error) {
	if node := n.byName[gk.Kind+"/"+namespace+"/"+name]; node != nil {
		return node, nil
	}
	return nil, n.err
}

func (n nodes) ReleasesOf(_ context.Context, run string) ([]*origin.Node, error) {
	for _, node := range n.byName {
		if node.Release != nil && node.Release.PipelineRun == run {
			return []*origin.Node{node}, nil
		}
	}
	if !errors.Is(n.err, origin.ErrNotFound) {
		return nil, n.err
	}
	return nil, nil
}

// climbs is a climber that knows one way.
type climbs struct {
	hops []origin.Hop
	err  error
	from *origin.Node
}

func (c *climbs) ClimbFrom(_ context.Context, node *origin.Node) (*origin.Climb, error) {
	c.from = node
	if c.err != nil {
		return nil, c.err
	}
	return &origin.Climb{Resource: c.hops[len(c.hops)-1].Node, Hops: c.hops}, nil
}

func makeNode(kind, name, createdBy string) *origin.Node {
	return &origin.Node{
		GroupVersionKind: schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: kind},
		Namespace:        "dev", Name: name, UID: "uid-of-" + "x", CreatedBy: createdBy, Created: epoch.Add(time.Hour),
	}
}

func newFactsController(t *testing.T, watched Watched, live origin.Source, climber Climber, connectors ...*connectorsv1alpha1.Connector) *Controller {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, connectorsv1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&connectorsv1alpha1.Connector{}, indexIdentity, identity.Keys)
	for _, c := range connectors {
		b = b.WithObjects(c)
	}
	return &Controller{options: Options{Username: ownName}, Dependencies: Dependencies{
		Clock: testingclock.NewFakeClock(epoch.Add(2 * time.Hour)), Client: b.Build(),
		Runs: Runs{Watched: watched, Live: live, Climber: climber, Since: func() time.Time { return epoch }},
	}}
}

func runRequest() *approvalv1alpha1.ResourceCheckRequest {
	return &approvalv1alpha1.ResourceCheckRequest{Spec: approvalv1alpha1.ResourceCheckRequestSpec{
		Context: approvalv1alpha1.RequestContext{
			Subject:  &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: "dev", Name: "builder"},
			Resource: &approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Namespace: "dev", Name: "build", UID: "uid-of-x"},
		},
		RequestedBy: &approvalv1alpha1.Identity{Username: "helper"},
	}}
}

func TestFactsOfARun(t *testing.T) {
	run := makeNode("PipelineRun", "build", "dana")
	old := makeNode("PipelineRun", "old", "dana")
	old.Created = epoch.Add(-time.Hour)
	cases := map[string]struct {
		hops       []origin.Hop
		connectors []*connectorsv1alpha1.Connector
		person     string
		unknown    bool
		excluded   []string
	}{
		"a person's run": {
			hops: []origin.Hop{{Node: run}}, person: "dana",
			excluded: []string{"system:serviceaccount:dev:builder", "helper", "dana"},
		},
		"a run of a controller": {
			hops: []origin.Hop{{Node: makeNode("PipelineRun", "build", "system:serviceaccount:ci:listener")}}, person: approvalv1alpha1.UnknownUser,
			excluded: []string{"system:serviceaccount:dev:builder", "helper", "system:serviceaccount:ci:listener"},
		},
		"everybody on the way": {
			hops: []origin.Hop{{Node: makeNode("TaskRun", "t", "tekton"), Proven: true}, {Node: run}}, person: "dana",
			excluded: []string{"system:serviceaccount:dev:builder", "helper", "tekton", "dana"},
		},
		"no record":             {hops: []origin.Hop{{Node: makeNode("PipelineRun", "build", "")}}, person: approvalv1alpha1.UnknownUser, unknown: true, excluded: []string{"system:serviceaccount:dev:builder", "helper"}},
		"a record out of doubt": {hops: []origin.Hop{{Node: old}}, person: approvalv1alpha1.UnknownUser, unknown: true, excluded: []string{"system:serviceaccount:dev:builder", "helper"}},
		"through a connector": {
			hops: []origin.Hop{{Node: run}}, person: approvalv1alpha1.UnknownUser, unknown: true,
			connectors: []*connectorsv1alpha1.Connector{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "cluster"}, Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "k8s"},
				Status: connectorsv1alpha1.ConnectorStatus{Identity: "dana"},
			}},
			excluded: []string{"system:serviceaccount:dev:builder", "helper"},
		},
		"a name at another tool is no user here": {
			hops: []origin.Hop{{Node: run}}, person: "dana",
			connectors: []*connectorsv1alpha1.Connector{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "git"}, Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "git"},
				Status: connectorsv1alpha1.ConnectorStatus{Identity: "dana"},
			}},
			excluded: []string{"system:serviceaccount:dev:builder", "helper", "dana"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			source := nodes{byName: map[string]*origin.Node{"PipelineRun/dev/build": run}}
			controller := newFactsController(t, source, nodes{err: origin.ErrNotFound}, &climbs{hops: c.hops}, c.connectors...)
			f, err := controller.factsOf(context.Background(), runRequest())
			require.NoError(t, err)
			assert.Equal(t, c.person, f.person)
			assert.Equal(t, c.unknown, f.unknown)
			assert.Equal(t, c.excluded, f.excluded)
			assert.Len(t, f.hops, len(c.hops))
		})
	}
}

func TestFactsBeginAtThePod(t *testing.T) {
	run, pod := makeNode("PipelineRun", "build", "dana"), makeNode("Pod", "p", "tekton")
	withPod := runRequest()
	withPod.Spec.Context.Pod = &approvalv1alpha1.PodReference{Namespace: "dev", Name: "p", UID: "uid-of-x"}
	cases := map[string]struct {
		watched, live map[string]*origin.Node
		liveErr       error
		want          string
		err           error
	}{
		"watched":            {watched: map[string]*origin.Node{"Pod/dev/p": pod}, want: "Pod"},
		"not watched yet":    {live: map[string]*origin.Node{"Pod/dev/p": pod}, want: "Pod"},
		"gone":               {watched: map[string]*origin.Node{"PipelineRun/dev/build": run}, liveErr: origin.ErrNotFound, want: "PipelineRun"},
		"cannot be seen":     {watched: map[string]*origin.Node{"PipelineRun/dev/build": run}, liveErr: origin.ErrUnobserved, err: origin.ErrUnobserved},
		"everything is gone": {liveErr: origin.ErrNotFound, err: origin.ErrNotFound},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			climber := &climbs{hops: []origin.Hop{{Node: run}}}
			controller := newFactsController(t, nodes{byName: c.watched, err: origin.ErrUnobserved}, nodes{byName: c.live, err: c.liveErr}, climber)
			_, err := controller.factsOf(context.Background(), withPod)
			if c.err != nil {
				assert.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, climber.from.Kind)
		})
	}
}

func TestFactsWaitForTheWholeWay(t *testing.T) {
	source := nodes{byName: map[string]*origin.Node{"PipelineRun/dev/build": makeNode("PipelineRun", "build", "dana")}}
	controller := newFactsController(t, source, source, &climbs{err: origin.ErrUnobserved})
	_, err := controller.factsOf(context.Background(), runRequest())
	assert.ErrorIs(t, err, origin.ErrUnobserved, "nobody is asked before it is known who must not answer")
}

func TestFactsOfAPerson(t *testing.T) {
	request := &approvalv1alpha1.ResourceCheckRequest{Spec: approvalv1alpha1.ResourceCheckRequestSpec{
		Context:     approvalv1alpha1.RequestContext{Subject: &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "dana"}},
		RequestedBy: &approvalv1alpha1.Identity{Username: "dana"},
	}}
	f, err := (&Controller{}).factsOf(context.Background(), request)
	require.NoError(t, err)
	assert.Equal(t, &facts{person: "dana", excluded: []string{"dana"}}, f)
}

func TestMoreToExcludeThanFitsIsUnknown(t *testing.T) {
	f := &facts{}
	for i := range maxExcluded {
		f.exclude("user-" + strconv.Itoa(i))
	}
	assert.False(t, f.unknown)
	f.exclude("user-0")
	assert.False(t, f.unknown)
	f.exclude("one-more")
	assert.True(t, f.unknown)
	assert.Len(t, f.excluded, maxExcluded)
}

func TestQuestion(t *testing.T) {
	before := &metav1.Time{Time: epoch.Add(time.Hour)}
	later := &metav1.Time{Time: epoch.Add(2 * time.Hour)}
	cases := map[string]struct {
		timeRange *approvalv1alpha1.TimeRange
		grant     *approvalv1alpha1.Grant
		deadline  *metav1.Time
		duration  string
		want      *metav1.Time
	}{
		"nothing said":       {deadline: later, duration: "24h0m0s", want: later},
		"asked for less":     {timeRange: &approvalv1alpha1.TimeRange{Duration: &metav1.Duration{Duration: time.Minute}}, duration: "1m0s"},
		"given less":         {grant: &approvalv1alpha1.Grant{MaxDuration: &metav1.Duration{Duration: time.Hour}}, duration: "1h0m0s"},
		"useless after":      {timeRange: &approvalv1alpha1.TimeRange{Before: before}, deadline: later, duration: "24h0m0s", want: before},
		"given up earlier":   {timeRange: &approvalv1alpha1.TimeRange{Before: later}, deadline: before, duration: "24h0m0s", want: before},
		"no time-out of its": {timeRange: &approvalv1alpha1.TimeRange{Before: before}, duration: "24h0m0s", want: before},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := runRequest()
			request.Spec.TimeRange = c.timeRange
			rule := &approvalv1alpha1.RuleSnapshot{Name: "r"}
			rule.Spec.Grant = c.grant
			q := (&facts{}).question(request, rule, c.deadline)
			assert.Equal(t, c.duration, q.Duration)
			assert.Equal(t, c.want, q.Deadline)
		})
	}
}

func TestRunEnded(t *testing.T) {
	ref := runRequest().Spec.Context.Resource
	other := makeNode("PipelineRun", "build", "dana")
	other.UID = "another"
	finished := makeNode("PipelineRun", "build", "dana")
	finished.Finished, finished.FinishedWhy = true, "Failed"
	running := makeNode("PipelineRun", "build", "dana")
	one := func(n *origin.Node) map[string]*origin.Node {
		return map[string]*origin.Node{"PipelineRun/dev/build": n}
	}
	cases := map[string]struct {
		watched, live map[string]*origin.Node
		liveErr       error
		ended         bool
		err           error
	}{
		"goes on":                      {watched: one(running)},
		"finished":                     {watched: one(finished), ended: true},
		"not seen by the watch yet":    {live: one(running)},
		"the watch shows an older one": {watched: one(other), live: one(running)},
		"gone":                         {liveErr: origin.ErrNotFound, ended: true},
		"another one":                  {watched: one(other), live: one(other), ended: true},
		"nobody can tell":              {liveErr: origin.ErrUnobserved, err: origin.ErrUnobserved},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			controller := newFactsController(t, nodes{byName: c.watched, err: origin.ErrNotFound}, nodes{byName: c.live, err: c.liveErr}, nil)
			why, ended, err := controller.runEnded(context.Background(), ref)
			assert.True(t, errors.Is(err, c.err))
			assert.Equal(t, c.ended, ended)
			assert.Equal(t, c.ended, why != "")
		})
	}
}

func TestFactsOfARelease(t *testing.T) {
	const robot = "system:serviceaccount:ci:bot"
	standing := &attribution.Standing{Author: "bob"}
	tests := map[string]struct {
		creator      string
		release      origin.Release
		wantPerson   string
		wantExcluded []string
	}{
		"of a person": {
			creator: "alice", release: origin.Release{Author: "alice"},
			wantPerson: "alice", wantExcluded: []string{"alice", "system:serviceaccount:dev:builder"},
		},
		"of a program for which somebody stands": {
			creator: robot, release: origin.Release{AutomatedBy: robot, Standing: standing},
			wantPerson: "bob", wantExcluded: []string{"bob", robot, "system:serviceaccount:dev:builder"},
		},
		"of a program for which nobody stands": {
			creator: robot, release: origin.Release{AutomatedBy: robot},
			wantPerson: approvalv1alpha1.UnknownUser, wantExcluded: []string{robot, "system:serviceaccount:dev:builder"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := makeNode("PipelineRun", "build", test.creator)
			node.Release = &test.release
			source := nodes{byName: map[string]*origin.Node{"PipelineRun/dev/build": node}}
			c := newFactsController(t, source, source, &climbs{hops: []origin.Hop{{Node: node}}})
			facts, err := c.factsOf(context.Background(), runRequest())
			require.NoError(t, err)
			assert.Equal(t, test.wantPerson, facts.person)
			assert.Subset(t, facts.excluded, test.wantExcluded)
			assert.False(t, facts.unknown)
		})
	}
}
