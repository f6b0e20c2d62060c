package release

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

func TestTheRun(t *testing.T) {
	run := compute(newFacts(func(f *facts) {
		p := f.admissions[0].Spec.Pipeline
		p.PipelineRef = releasev1alpha1.PipelineRef{Resolver: "git", Params: []releasev1alpha1.Param{{Name: "url", Value: "https://git.example.com/x"}}, OciStorage: "quay.example.com/trusted"}
		p.Timeouts = &releasev1alpha1.PipelineTimeouts{Pipeline: &metav1.Duration{Duration: 2 * time.Hour}, Tasks: &metav1.Duration{Duration: time.Hour}}
		p.TaskRunSpecs = []apiextensionsv1.JSON{{Raw: []byte(`{"pipelineTaskName":"sign","serviceAccountName":"signer"}`)}}
	})).start
	require.NotNil(t, run)
	assert.Equal(t, "tekton.dev/v1, Kind=PipelineRun", run.GroupVersionKind().String())
	assert.Equal(t, "managed", run.GetNamespace())
	assert.Equal(t, map[string]string{
		releasev1alpha1.LabelReleaseNamespace: "tenant", releasev1alpha1.LabelReleaseName: "shop-1", releasev1alpha1.LabelReleaseUID: "release",
	}, run.GetLabels())
	assert.Equal(t, map[string]string{
		releasev1alpha1.AnnotationReleaseAuthor: alice, releasev1alpha1.AnnotationReleaseStanding: "false", releasev1alpha1.AnnotationReleaseVerified: "true",
	}, run.GetAnnotations())
	assert.Equal(t, map[string]any{
		"release": "tenant/shop-1", "releasePlan": "tenant/prod", "releasePlanAdmission": "managed/shop", "snapshot": "tenant/shop-abc",
		"attributionAuthor": alice, "attributionStanding": "false", "attributionVerified": "true",
		"ociStorage": "quay.example.com/trusted", "policy": "strict",
	}, paramsOf(run))
	spec := run.Object["spec"].(map[string]any)
	assert.Equal(t, map[string]any{"resolver": "git", "params": []any{given("url", "https://git.example.com/x")}}, spec["pipelineRef"])
	assert.Equal(t, map[string]any{"serviceAccountName": "pusher"}, spec["taskRunTemplate"])
	assert.Equal(t, map[string]any{"pipeline": "2h0m0s", "tasks": "1h0m0s"}, spec["timeouts"])
	assert.Equal(t, []any{map[string]any{"pipelineTaskName": "sign", "serviceAccountName": "signer"}}, spec["taskRunSpecs"])
	assert.Empty(t, run.GetOwnerReferences(), "an owner of another namespace would have it deleted")
}

func TestThePlainRun(t *testing.T) {
	run := compute(newFacts(func(f *facts) {
		f.admissions[0].Spec.Policy, f.admissions[0].Spec.Pipeline.ServiceAccountName = "", ""
	})).start
	spec := run.Object["spec"].(map[string]any)
	assert.Equal(t, map[string]any{"name": "push"}, spec["pipelineRef"])
	assert.NotContains(t, paramsOf(run), "policy")
	assert.NotContains(t, paramsOf(run), "ociStorage")
	for _, absent := range []string{"taskRunTemplate", "timeouts", "taskRunSpecs"} {
		assert.NotContains(t, spec, absent)
	}
}

func TestNamesOfRunsFitAndDiffer(t *testing.T) {
	release := func(name string, uid string) *releasev1alpha1.Release {
		r := &releasev1alpha1.Release{}
		r.Name, r.UID = name, types.UID(uid)
		return r
	}
	names := map[string]bool{}
	for _, name := range []string{"a", strings.Repeat("a", 253), strings.Repeat("a", 51) + "-" + strings.Repeat("b", 60), "a.b"} {
		for _, uid := range []string{"1", "2"} {
			got := runName(release(name, uid))
			assert.LessOrEqual(t, len(got), 63)
			assert.Empty(t, validation.IsDNS1123Subdomain(got), got)
			assert.False(t, names[got], got)
			names[got] = true
			assert.Equal(t, got, runName(release(name, uid)))
		}
	}
}

func TestNamesOfRulesFit(t *testing.T) {
	assert.Equal(t, "attribution-prod", ruleName("prod"))
	long, other := ruleName(strings.Repeat("a", 253)), ruleName(strings.Repeat("a", 252)+"b")
	assert.Len(t, long, 253)
	assert.NotEqual(t, long, other)
}

// The run's life shows in the Release.
func TestFollowsTheRun(t *testing.T) {
	const processed, released = releasev1alpha1.ConditionManagedPipelineProcessed, releasev1alpha1.ConditionReleased
	f := newFacts(runsAs("", "", ""))
	name := f.release.Status.ManagedProcessing.PipelineRun
	s := stored(f)
	assert.Equal(t, "Unknown Progressing: the pipeline run "+name+" is going on", s.told(processed))
	assert.Equal(t, s.told(processed), s.told(released))
	assert.Equal(t, now, s.status.ManagedProcessing.StartTime.UTC())
	assert.Equal(t, recheckRun, s.again)

	tests := map[string]struct {
		changes       []change
		wantProcessed string
		wantReleased  string
	}{
		"succeeded": {[]change{runsAs(metav1.ConditionTrue, "Completed", "Tasks Completed: 3"), started},
			"True Succeeded: the pipeline run " + name + " succeeded", "True Succeeded: the pipeline run " + name + " succeeded"},
		"succeeded before it was seen": {[]change{runsAs(metav1.ConditionTrue, "Completed", "")},
			"True Succeeded: the pipeline run " + name + " succeeded", "True Succeeded: the pipeline run " + name + " succeeded"},
		"failed": {[]change{runsAs(metav1.ConditionFalse, "Failed", "task \"sign\" \x1b[31mfailed"), started},
			`False Failed: the pipeline run ` + name + ` failed (Failed), saying: "task \"sign\" \x1b[31mfailed"`, `False Failed: the pipeline run ` + name + ` failed (Failed), saying: "task \"sign\" \x1b[31mfailed"`},
		"goes on though the request ended": {[]change{runsAs(metav1.ConditionUnknown, "Running", ""), ended(approvalv1alpha1.ReasonRevoked, "x"), func(f *facts) { f.admissions = nil }},
			"Unknown Progressing: the pipeline run " + name + " is going on", "Unknown Progressing: the pipeline run " + name + " is going on"},
		"deleted": {[]change{runsAs("", "", ""), started, func(f *facts) { f.run = nil }},
			"False Failed: the pipeline run " + name + " was deleted while it was going on: create the Release anew if it is still wanted",
			"False Failed: the pipeline run " + name + " was deleted while it was going on: create the Release anew if it is still wanted"},
		"labels changed since": {[]change{runsAs("", "", ""), started, func(f *facts) { f.run.SetLabels(nil) }},
			"Unknown Progressing: the pipeline run " + name + " is going on", "Unknown Progressing: the pipeline run " + name + " is going on"},
	}
	for what, tc := range tests {
		t.Run(what, func(t *testing.T) {
			f := newFacts(tc.changes...)
			s := compute(f)
			assert.Equal(t, tc.wantProcessed, s.told(processed))
			assert.Equal(t, tc.wantReleased, s.told(released))
			assert.Equal(t, metav1.ConditionTrue, s.condition(releasev1alpha1.ConditionValidated).Status)
			assert.Nil(t, s.start)
			if finished(&s.status) {
				assert.NotNil(t, s.status.CompletionTime)
				assert.NotNil(t, s.status.ManagedProcessing.CompletionTime)
				assert.Zero(t, s.again)
			}
		})
	}
}

func TestMessagesOfRunsAreBounded(t *testing.T) {
	f := newFacts(runsAs(metav1.ConditionFalse, strings.Repeat("R", 5000), strings.Repeat("é", 5000)), started)
	assert.Less(t, len(compute(f).told(releasev1alpha1.ConditionReleased)), 2200)
}

// A run of that name which this controller did not make for this Release is not taken for its own.
func TestForeignRuns(t *testing.T) {
	tests := map[string]change{
		"of another creator": func(f *facts) {
			f.run.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationCreatedBy: bob})
		},
		"of nobody":                   func(f *facts) { f.run.SetAnnotations(nil) },
		"of another Release":          func(f *facts) { f.run.SetLabels(map[string]string{releasev1alpha1.LabelReleaseUID: "x"}) },
		"older than the records":      func(f *facts) { f.since = now.Add(time.Second) },
		"replaced by another's later": func(f *facts) { started(f); f.run.SetAnnotations(nil) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			s := compute(newFacts(runsAs(metav1.ConditionTrue, "Completed", ""), change))
			assert.Contains(t, s.told(releasev1alpha1.ConditionReleased), "was not made by this controller for this Release")
			assert.Contains(t, s.told(releasev1alpha1.ConditionManagedPipelineProcessed), "False Failed")
		})
	}
	s := compute(newFacts(runsAs("", "", ""), func(f *facts) { f.since = time.Time{} }))
	assert.False(t, finished(&s.status), "it is not known yet whose it is")
	assert.Equal(t, retryUnguarded, s.again)
}
