package request

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/archive"
)

func TestSpreadGivesEachItsTurn(t *testing.T) {
	s := newSpread(2)
	now := epoch
	assert.Zero(t, s.delay("a", now))
	assert.Zero(t, s.delay("b", now))
	c, d := s.delay("c", now), s.delay("d", now)
	assert.Equal(t, 500*time.Millisecond, c)
	assert.Equal(t, time.Second, d)
	assert.Equal(t, c, s.delay("c", now), "asking again does not cost the turn")
	now = now.Add(c)
	assert.Zero(t, s.delay("c", now))
	assert.Equal(t, 500*time.Millisecond, s.delay("d", now))
	assert.Positive(t, s.delay("c", now), "a turn is taken once")
	s.forget("c")
	s.forget("d")
	assert.Empty(t, s.turns)
}

func TestOwnWrites(t *testing.T) {
	seen := func(version string) *approvalv1alpha1.ResourceCheckRequest {
		return &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: version}}
	}
	o := newOwnWrites()
	assert.False(t, o.lags(seen("9")))
	o.wrote("a", "10")
	assert.True(t, o.lags(seen("9")))
	assert.False(t, o.lags(seen("11")), "somebody else has written since")
	assert.Empty(t, o.versions)
	o.wrote("a", "10")
	assert.False(t, o.lags(seen("opaque")), "what cannot be compared does not stop anything")
}

func TestPasses(t *testing.T) {
	gr := schema.GroupResource{Resource: "checks"}
	cases := map[string]struct {
		err  error
		want bool
	}{
		"no connection":    {errors.New("connection refused"), true},
		"a busy server":    {apierrors.NewTooManyRequests("later", 1), true},
		"a broken webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"a conflict":       {apierrors.NewConflict(gr, "c", nil), true},
		"invalid":          {apierrors.NewInvalid(schema.GroupKind{Kind: "Check"}, "c", nil), false},
		"forbidden":        {apierrors.NewForbidden(gr, "c", nil), false},
		"no namespace":     {apierrors.NewNotFound(gr, "c"), false},
		"wrapped":          {fmt.Errorf("x: %w", apierrors.NewGenericServerResponse(http.StatusBadRequest, "create", gr, "c", "", 0, true)), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, passes(c.err)) })
	}
}

func TestSoonest(t *testing.T) {
	assert.Equal(t, time.Second, soonest(0, time.Second))
	assert.Equal(t, time.Second, soonest(time.Second, 0))
	assert.Equal(t, time.Second, soonest(time.Minute, time.Second))
	assert.Zero(t, soonest(0, 0))
}

func TestMissingAskers(t *testing.T) {
	follower := func(user string, leader types.UID) *approvalv1alpha1.ResourceCheckRequest {
		return &approvalv1alpha1.ResourceCheckRequest{
			Spec:   approvalv1alpha1.ResourceCheckRequestSpec{RequestedBy: &approvalv1alpha1.Identity{Username: user}},
			Status: approvalv1alpha1.ResourceCheckRequestStatus{Follows: &approvalv1alpha1.RequestReference{UID: leader}},
		}
	}
	leader := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{UID: "me"},
		Spec:       approvalv1alpha1.ResourceCheckRequestSpec{RequestedBy: &approvalv1alpha1.Identity{Username: "dana"}},
		Status:     approvalv1alpha1.ResourceCheckRequestStatus{Askers: []string{"known"}},
	}
	equals := []*approvalv1alpha1.ResourceCheckRequest{
		follower("zoe", "me"), follower("ann", "me"), follower("ann", "me"), follower("dana", "me"), follower("known", "me"),
		follower("stranger", "other"), {},
	}
	assert.Equal(t, []string{"ann", "zoe"}, missingAskers(leader, equals))
}

// switchable takes evidence or not.
type switchable struct {
	err   error
	lines int
}

func (s *switchable) Write([]byte) error {
	if s.err == nil {
		s.lines++
	}
	return s.err
}

// valueOf is the value of a counter or gauge.
func valueOf(t *testing.T, of prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, of.Write(&m))
	return m.GetGauge().GetValue() + m.GetCounter().GetValue()
}

func TestKeeperTellsOfTransitionsOnly(t *testing.T) {
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	sink, recorder := &switchable{err: errors.New("disk full")}, events.NewFakeRecorder(10)
	k := newKeeper(sink, recorder, m)
	about := &approvalv1alpha1.ResourceCheckRequest{}
	write := func(uid string) error {
		return k.write(&archive.Record{RequestUID: uid, Occasion: archive.OccasionRetention}, about)
	}
	assert.Error(t, write("a"))
	assert.Error(t, write("b"))
	assert.Contains(t, <-recorder.Events, "Warning ArchiveFailing disk full")
	assert.Empty(t, recorder.Events)
	assert.Equal(t, 1.0, valueOf(t, m.archiveFailing))
	assert.Equal(t, 2.0, valueOf(t, m.archiveErrors))
	assert.Empty(t, k.doneOn("a"))

	sink.err = nil
	require.NoError(t, write("a"))
	assert.Contains(t, <-recorder.Events, "Normal ArchiveTakesEvidence")
	assert.Zero(t, valueOf(t, m.archiveFailing))
	assert.Equal(t, archive.OccasionRetention, k.doneOn("a"))
	k.forget("a")
	assert.Empty(t, k.doneOn("a"))
}

func TestRunOfIsWhatTheFirstCheckWasTold(t *testing.T) {
	check := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	}
	told := check(map[string]any{"request": map[string]any{"context": []any{map[string]any{"createdBy": "dana", "resource": map[string]any{"kind": "Job"}}}}})
	hops := runOf([]*unstructured.Unstructured{check(map[string]any{"request": "text"}), check(map[string]any{}), told})
	require.Len(t, hops, 1)
	assert.Equal(t, "dana", hops[0].CreatedBy)
	assert.Nil(t, runOf(nil))
}

func TestSnapshotNamesTheLastAuthor(t *testing.T) {
	cases := map[string]struct {
		annotations map[string]string
		want        string
	}{
		"changed":   {map[string]string{approvalv1alpha1.AnnotationChangedBy: "b", approvalv1alpha1.AnnotationCreatedBy: "a"}, "b"},
		"as made":   {map[string]string{approvalv1alpha1.AnnotationCreatedBy: "a"}, "a"},
		"no record": {nil, approvalv1alpha1.UnknownUser},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			rule := &approvalv1alpha1.ResourceCheckRule{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
			assert.Equal(t, c.want, snapshot(rule).LastAuthor)
		})
	}
}

func TestIndexes(t *testing.T) {
	request := runRequest()
	request.UID, request.Namespace = "r", "dev"
	request.Spec.ObjectRef = approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Name: "harbor"}
	request.Status.RequestRefs = []approvalv1alpha1.CheckReference{{UID: "c-1"}, {UID: "c-2"}}
	rule := &approvalv1alpha1.ResourceCheckRule{ObjectMeta: metav1.ObjectMeta{Namespace: "dev"}}
	rule.Spec.ObjectRef = request.Spec.ObjectRef
	rule.Spec.ObjectRef.APIVersion = "connectors.alaudadevops.io/v2"
	assert.Equal(t, []string{objectKeyOf(request)}, ruleObject(rule), "matched by group, kind and name, whatever the version")
	assert.Equal(t, []string{"c-1", "c-2"}, checkUIDs(request))
	assert.Equal(t, []string{nameKey(schema.GroupKind{Group: "tekton.dev", Kind: "PipelineRun"}, "dev", "build")}, runKeys(request))
	request.Status.Ended = &approvalv1alpha1.Ended{}
	assert.Empty(t, runKeys(request), "what ended waits for no run")
	assert.Empty(t, answered(&approvalv1alpha1.ApprovalResponse{}))
	assert.Nil(t, ofRequest(checkUIDs)(rule))
}
