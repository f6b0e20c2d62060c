package origin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	assert.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

func TestFromUnstructuredKeepsIdentityAndRecord(t *testing.T) {
	n := FromUnstructured(parse(t, `
apiVersion: v1
kind: Pod
metadata:
  namespace: apps
  name: build-1
  uid: pod-uid
  creationTimestamp: "2025-01-02T03:04:05Z"
  annotations:
    attribution.alaudadevops.io/created-by: "system:serviceaccount:kube-system:job-controller"
    attribution.alaudadevops.io/created-for: job-uid
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: other, uid: other-uid}
  - {apiVersion: batch/v1, kind: Job, name: build, uid: job-uid, controller: true}
spec: {serviceAccountName: builder}
status: {phase: Failed}
`))
	assert.Equal(t, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, n.GroupVersionKind)
	assert.Equal(t, "apps", n.Namespace)
	assert.Equal(t, "build-1", n.Name)
	assert.Equal(t, types.UID("pod-uid"), n.UID)
	assert.Equal(t, "system:serviceaccount:kube-system:job-controller", n.CreatedBy)
	assert.Equal(t, types.UID("job-uid"), n.CreatedFor)
	assert.Equal(t, &Owner{&schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, "build", "job-uid"}, n.Owner)
	assert.Equal(t, []string{"builder"}, n.ServiceAccounts)
	assert.True(t, n.Finished)
	assert.Equal(t, "Failed", n.FinishedWhy)
	assert.Equal(t, "Pod apps/build-1", n.String())
}

func TestFromUnstructuredKeepsARecordThatDiffersFromTheOwner(t *testing.T) {
	n := FromUnstructured(parse(t, `
metadata:
  name: a
  annotations: {attribution.alaudadevops.io/created-for: another}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: build, uid: job-uid, controller: true}]
`))
	assert.Equal(t, types.UID("another"), n.CreatedFor)
	assert.Equal(t, types.UID("job-uid"), n.Owner.UID)
}

func TestACreatorThatWasAssignedLaterProvesNothing(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {creationTimestamp: "2026-03-01T12:00:00Z", annotations: {
		attribution.alaudadevops.io/created-by: alice, attribution.alaudadevops.io/migrated-by: "%s"}}}`
	since := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	creator, believed := FromUnstructured(parse(t, fmt.Sprintf(pod, ""))).Creator(since)
	assert.True(t, believed, "an empty one says nothing")
	assert.Equal(t, "alice", creator)
	n := FromUnstructured(parse(t, fmt.Sprintf(pod, "admin")))
	assert.Equal(t, "alice", n.CreatedBy, "people may read it")
	_, believed = n.Creator(since)
	assert.False(t, believed)
}

func TestFromUnstructuredReadsRuns(t *testing.T) {
	tests := map[string]struct {
		object       string
		wantAccounts []string
		wantPipeline string
		wantFinished string
	}{
		"pod without account": {
			object:       `{apiVersion: v1, kind: Pod, status: {phase: Running}}`,
			wantAccounts: []string{"default"},
		},
		"job": {
			object:       `{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {serviceAccountName: j}}}, status: {conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]}}`,
			wantAccounts: []string{"j"}, wantFinished: "Complete",
		},
		"job that runs": {
			object:       `{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Suspended, status: "True"}, {type: Failed, status: "False"}]}}`,
			wantAccounts: []string{"default"},
		},
		"pipeline run of v1": {
			object: `{apiVersion: tekton.dev/v1, kind: PipelineRun, spec: {pipelineRef: {name: promote}, taskRunTemplate: {serviceAccountName: run},
				taskRunSpecs: [{pipelineTaskName: a, serviceAccountName: deploy}, {pipelineTaskName: b}, {pipelineTaskName: c, serviceAccountName: run}]},
				status: {conditions: [{type: Succeeded, status: Unknown, reason: Running}]}}`,
			wantAccounts: []string{"run", "deploy"}, wantPipeline: "promote",
		},
		"pipeline run of v1beta1": {
			object: `{apiVersion: tekton.dev/v1beta1, kind: PipelineRun, spec: {serviceAccountName: run, pipelineRef: {resolver: git, params: [{name: url, value: "https://x"}]},
				taskRunSpecs: [{taskServiceAccountName: deploy}]}, status: {conditions: [{type: Succeeded, status: "False", reason: Cancelled}]}}`,
			wantAccounts: []string{"run", "deploy"}, wantPipeline: "git url=https://x", wantFinished: "Cancelled",
		},
		"task run": {
			object:       `{apiVersion: tekton.dev/v1, kind: TaskRun, spec: {taskRef: {name: push}}, status: {conditions: [{type: Succeeded, status: "True", reason: Succeeded}]}}`,
			wantAccounts: []string{"default"}, wantPipeline: "push", wantFinished: "Succeeded",
		},
		"a kind that we know nothing of": {
			object: `{apiVersion: apps/v1, kind: Deployment, status: {conditions: [{type: Succeeded, status: "True"}]}}`,
		},
		"unexpected shapes count as absent": {
			object:       `{apiVersion: tekton.dev/v1, kind: PipelineRun, spec: {taskRunTemplate: 1, taskRunSpecs: [1], params: {a: b}, pipelineRef: []}, status: {conditions: no}}`,
			wantAccounts: []string{"default"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := FromUnstructured(parse(t, tc.object))
			assert.Equal(t, tc.wantAccounts, n.ServiceAccounts)
			assert.Equal(t, tc.wantPipeline, n.Pipeline)
			assert.Equal(t, tc.wantFinished, n.FinishedWhy)
			assert.Equal(t, tc.wantFinished != "", n.Finished)
		})
	}
}

func TestParametersAreMaskedAndBounded(t *testing.T) {
	u := parse(t, `
apiVersion: tekton.dev/v1
kind: PipelineRun
spec:
  params:
  - {name: image, value: app:1}
  - {name: REGISTRY_PASSWORD, value: hunter2}
  - {name: github-token, value: [a, b]}
  - {name: list, value: [a, b]}
  - {name: object, value: {url: u, apiKey: hunter2}}
`)
	params := FromUnstructured(u).Parameters
	assert.Equal(t, []approvalv1alpha1.Parameter{
		{Name: "image", Value: "app:1"}, {Name: "REGISTRY_PASSWORD", Value: "***"}, {Name: "github-token", Value: "***"},
		{Name: "list", Value: `["a","b"]`}, {Name: "object", Value: `{"apiKey":"***","url":"u"}`},
	}, params)

	var many []any
	for range 100 {
		many = append(many, map[string]any{"name": "n", "value": strings.Repeat("é", 2000)})
	}
	assert.NoError(t, unstructured.SetNestedSlice(u.Object, many, "spec", "params"))
	params = FromUnstructured(u).Parameters
	assert.Len(t, params, 64)
	assert.Equal(t, strings.Repeat("é", 1021)+"...", params[0].Value)
}

func TestEnded(t *testing.T) {
	tests := map[string]struct {
		node *Node
		want bool
	}{
		"running":   {&Node{UID: "u"}, false},
		"gone":      {nil, true},
		"recreated": {&Node{UID: "v"}, true},
		"deleting":  {&Node{UID: "u", Deleting: true}, true},
		"finished":  {&Node{UID: "u", Finished: true, FinishedWhy: "Failed"}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			why, ended := Ended(tc.node, "u")
			assert.Equal(t, tc.want, ended)
			assert.Equal(t, tc.want, why != "")
		})
	}
}

func TestCreatorIsBelievedOnlyAfterTheEpoch(t *testing.T) {
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		node  Node
		since time.Time
		want  bool
	}{
		"after":              {Node{CreatedBy: "a", Created: at.Add(time.Second)}, at, true},
		"in the same second": {Node{CreatedBy: "a", Created: at}, at, false},
		"before":             {Node{CreatedBy: "a", Created: at.Add(-time.Second)}, at, false},
		"no epoch":           {Node{CreatedBy: "a", Created: at}, time.Time{}, false},
		"no record":          {Node{Created: at.Add(time.Second)}, at, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, ok := tc.node.Creator(tc.since)
			assert.Equal(t, tc.want, ok)
		})
	}
}

func FuzzFromUnstructured(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"tekton.dev/v1","kind":"PipelineRun","metadata":{"name":"a","namespace":"b","uid":"c"},"spec":{"params":[{"name":"x","value":["y"]}]}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","ownerReferences":[{"controller":true,"uid":"u","name":"n","kind":"Job","apiVersion":"batch/v1"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(data) != nil {
			return
		}
		n := FromUnstructured(u)
		if n.Name != u.GetName() || n.Namespace != u.GetNamespace() || n.UID != u.GetUID() {
			t.Fatalf("%s became %s (%s)", data, n, n.UID)
		}
		for _, p := range n.Parameters {
			if len([]rune(p.Value)) > maxParamValue {
				t.Fatalf("the value of %q is not bounded", p.Name)
			}
		}
	})
}
