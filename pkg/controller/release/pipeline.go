package release

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

const (
	runVersion = "v1"
	bundles    = "bundles"
	maxRunName = 63
)

var (
	runKind      = schema.GroupVersionKind{Group: pipeline.GroupName, Version: runVersion, Kind: "PipelineRun"}
	pipelineKind = schema.GroupVersionKind{Group: pipeline.GroupName, Version: runVersion, Kind: "Pipeline"}
)

// pipelineSpec is what a Release runs, from whichever object says so.
type pipelineSpec struct {
	// admission is where the run goes, and what let the Release in.
	admission *releasev1alpha1.ReleasePlanAdmission
	releasev1alpha1.Pipeline
	policy string
	// params are those that the strategy gives beside our own.
	params []releasev1alpha1.StrategyParam
}

// pipelineOf finds what is to run, or says what is missing.
func pipelineOf(words attribution.Vocabulary, admission *releasev1alpha1.ReleasePlanAdmission, strategy *releasev1alpha1.ReleaseStrategy) (*pipelineSpec, string) {
	where := "the ReleasePlanAdmission " + admission.Namespace + "/" + admission.Name
	if words.PipelineFrom == attribution.PipelineFromStrategy {
		return fromStrategy(where, admission, strategy)
	}
	if admission.Spec.Pipeline == nil {
		return nil, where + " names no pipeline: its owners must set spec.pipeline, then create the Release anew"
	}
	return &pipelineSpec{admission: admission, Pipeline: *admission.Spec.Pipeline, policy: admission.Spec.Policy}, ""
}

func fromStrategy(where string, admission *releasev1alpha1.ReleasePlanAdmission, strategy *releasev1alpha1.ReleaseStrategy) (*pipelineSpec, string) {
	name := admission.Spec.ReleaseStrategy
	switch {
	case name == "":
		return nil, where + " names no strategy: its owners must set spec.releaseStrategy, then create the Release anew"
	case strategy == nil:
		return nil, fmt.Sprintf("there is no ReleaseStrategy %s/%s, which %s names: its owners must make it, then create the Release anew", admission.Namespace, name, where)
	case strategy.Spec.Pipeline == "":
		return nil, fmt.Sprintf("the ReleaseStrategy %s/%s names no pipeline: its owners must set spec.pipeline, then create the Release anew", strategy.Namespace, strategy.Name)
	}
	spec := &pipelineSpec{admission: admission, policy: strategy.Spec.Policy, params: strategy.Spec.Params}
	spec.ServiceAccountName = strategy.Spec.ServiceAccount
	spec.PipelineRef.Name = strategy.Spec.Pipeline
	if strategy.Spec.Bundle != "" {
		spec.PipelineRef = releasev1alpha1.PipelineRef{Resolver: bundles, Params: []releasev1alpha1.Param{
			{Name: "bundle", Value: strategy.Spec.Bundle}, {Name: "name", Value: strategy.Spec.Pipeline}, {Name: "kind", Value: "pipeline"},
		}}
	}
	return spec, ""
}

// newRun is the run of a Release. Its name follows from the Release alone, so that there is never a second one.
func (s *step) newRun(f *facts, spec *pipelineSpec) *unstructured.Unstructured {
	run := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	run.SetGroupVersionKind(runKind)
	run.SetNamespace(spec.admission.Namespace)
	run.SetName(runName(f.release))
	run.SetLabels(map[string]string{
		releasev1alpha1.LabelReleaseNamespace: attribution.LabelValue(f.release.Namespace),
		releasev1alpha1.LabelReleaseName:      attribution.LabelValue(f.release.Name),
		releasev1alpha1.LabelReleaseUID:       string(f.release.UID),
	})
	who := attributed(f.words, &s.status)
	run.SetAnnotations(map[string]string{
		releasev1alpha1.AnnotationReleaseAuthor:   who.Author,
		releasev1alpha1.AnnotationReleaseStanding: fmt.Sprint(who.StandingAttribution),
		releasev1alpha1.AnnotationReleaseVerified: fmt.Sprint(who.Verified),
	})
	run.Object["spec"] = spec.runSpec(f, who)
	return run
}

func runName(release *releasev1alpha1.Release) string {
	return shortened(release.Name, string(release.UID), maxRunName)
}

func (p *pipelineSpec) runSpec(f *facts, who releasev1alpha1.Attribution) map[string]any {
	spec := map[string]any{"pipelineRef": p.ref(), "params": p.runParams(f, who)}
	if p.ServiceAccountName != "" {
		spec["taskRunTemplate"] = map[string]any{"serviceAccountName": p.ServiceAccountName}
	}
	if timeouts := p.timeouts(); len(timeouts) > 0 {
		spec["timeouts"] = timeouts
	}
	if specs := p.taskRunSpecs(); len(specs) > 0 {
		spec["taskRunSpecs"] = specs
	}
	return spec
}

func (p *pipelineSpec) ref() map[string]any {
	if p.PipelineRef.Name != "" {
		return map[string]any{"name": p.PipelineRef.Name}
	}
	params := make([]any, 0, len(p.PipelineRef.Params))
	for _, param := range p.PipelineRef.Params {
		params = append(params, given(param.Name, param.Value))
	}
	return map[string]any{"resolver": p.PipelineRef.Resolver, "params": params}
}

// runParams are our own after those of the strategy, which cannot take their place.
func (p *pipelineSpec) runParams(f *facts, who releasev1alpha1.Attribution) []any {
	own := p.ownParams(f, who)
	taken := map[string]bool{}
	for _, param := range own {
		taken[param.(map[string]any)["name"].(string)] = true
	}
	var params []any
	for _, param := range p.params {
		if taken[param.Name] {
			continue
		}
		taken[param.Name] = true
		if len(param.Values) > 0 {
			params = append(params, map[string]any{"name": param.Name, "value": anyOf(param.Values)})
			continue
		}
		params = append(params, given(param.Name, param.Value))
	}
	return append(params, own...)
}

func (p *pipelineSpec) ownParams(f *facts, who releasev1alpha1.Attribution) []any {
	in := f.release.Namespace + "/"
	params := []any{
		given(releasev1alpha1.ParamRelease, in+f.release.Name),
		given(releasev1alpha1.ParamReleasePlan, in+f.plan.Name),
		given(releasev1alpha1.ParamReleasePlanAdmission, p.admission.Namespace+"/"+p.admission.Name),
		given(releasev1alpha1.ParamSnapshot, in+f.release.Spec.Snapshot),
		given(releasev1alpha1.ParamAttributionAuthor, who.Author),
		given(releasev1alpha1.ParamAttributionStanding, fmt.Sprint(who.StandingAttribution)),
		given(releasev1alpha1.ParamAttributionVerified, fmt.Sprint(who.Verified)),
	}
	if p.PipelineRef.OciStorage != "" {
		params = append(params, given(releasev1alpha1.ParamOciStorage, p.PipelineRef.OciStorage))
	}
	if p.policy != "" {
		params = append(params, given(releasev1alpha1.ParamPolicy, p.policy))
	}
	return params
}

func (p *pipelineSpec) timeouts() map[string]any {
	timeouts := map[string]any{}
	if p.Timeouts == nil {
		return timeouts
	}
	for name, timeout := range map[string]*metav1.Duration{"pipeline": p.Timeouts.Pipeline, "tasks": p.Timeouts.Tasks, "finally": p.Timeouts.Finally} {
		if timeout != nil {
			timeouts[name] = timeout.Duration.String()
		}
	}
	return timeouts
}

// taskRunSpecs go to Tekton as they are; it says what is wrong with them.
func (p *pipelineSpec) taskRunSpecs() []any {
	specs := make([]any, 0, len(p.TaskRunSpecs))
	for i := range p.TaskRunSpecs {
		var spec map[string]any
		if json.Unmarshal(p.TaskRunSpecs[i].Raw, &spec) == nil {
			specs = append(specs, spec)
		}
	}
	return specs
}

func given(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }

func anyOf(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}
