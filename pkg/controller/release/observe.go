package release

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/controller/pairing"
)

// observer collects facts from one reader: the cache, or the API server where a step cannot be taken back.
type observer struct {
	*Controller
	client.Reader
	// indexed tells that the reader is the cache, whose objects are shared and must not be changed.
	indexed bool
}

func (c *Controller) fromCache() observer { return observer{c, c.client, true} }

func (c *Controller) fromServer() observer { return observer{c, c.live, false} }

// observe collects what the next step follows from. request is a name under which the Release's request may be found; the
// status may know another.
func (o observer) observe(ctx context.Context, release *releasev1alpha1.Release, request string) (*facts, error) {
	f := &facts{
		words: o.options.Vocabulary, username: o.options.Username, now: o.clock.Now().UTC().Truncate(time.Second),
		since: o.since(), release: release,
	}
	if ok, why := o.guard.Guarded(); !ok {
		f.unguarded = why
	}
	for _, look := range []func(context.Context, *facts) error{o.product, o.plan, o.run} {
		if err := look(ctx, f); err != nil {
			return nil, err
		}
	}
	if f.plan == nil {
		return f, nil
	}
	if err := o.question(ctx, f, request); err != nil {
		return nil, err
	}
	if f.foreign {
		return f, nil
	}
	return f, o.target(ctx, f)
}

// product tells whose kinds these are.
func (o observer) product(ctx context.Context, f *facts) error {
	ours, err := definition.OursIn(ctx, o.client, releasev1alpha1.DefinitionReleases)
	if err != nil {
		return fmt.Errorf("it cannot be told whose kind Release is: %w", err)
	}
	f.foreign = !ours
	return nil
}

func (o observer) plan(ctx context.Context, f *facts) error {
	if f.release.Spec.ReleasePlan == "" {
		return nil
	}
	plan := &releasev1alpha1.ReleasePlan{}
	found, err := o.found(o.Get(ctx, client.ObjectKey{Namespace: f.release.Namespace, Name: f.release.Spec.ReleasePlan}, plan))
	if found && plan.DeletionTimestamp == nil {
		f.plan = plan
	}
	return err
}

// run looks at the run that the status names. Runs are watched by their outlines only, so it is always read live.
func (o observer) run(ctx context.Context, f *facts) error {
	processing := f.release.Status.ManagedProcessing
	if processing == nil || processing.PipelineRun == "" || f.foreign {
		return nil
	}
	namespace, name, _ := strings.Cut(processing.PipelineRun, "/")
	run := &unstructured.Unstructured{}
	run.SetGroupVersionKind(runKind)
	found, err := o.found(o.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run))
	if found {
		f.run = run
	}
	return err
}

// question looks at the rules of the plan and what was asked by them.
func (o observer) question(ctx context.Context, f *facts, request string) error {
	if err := o.rules(ctx, f); err != nil {
		return err
	}
	for _, name := range []string{f.release.Status.Request, request} {
		if err := o.request(ctx, f, name); err != nil {
			return err
		}
	}
	return o.check(ctx, f)
}

// rules are those that guard the plan. The API server has no index, and yet must list them before a run starts: a rule that
// was added a moment ago must be asked, too, and reading those that the cache knows would not show it.
func (o observer) rules(ctx context.Context, f *facts) error {
	options := []client.ListOption{client.InNamespace(f.plan.Namespace)}
	if o.indexed {
		options = append(options, client.MatchingFields{indexRule: f.plan.Name}, client.UnsafeDisableDeepCopy)
	}
	var rules approvalv1alpha1.ResourceCheckRuleList
	if err := o.List(ctx, &rules, options...); err != nil {
		return fmt.Errorf("the rules of the plan cannot be listed: %w", err)
	}
	for i := range rules.Items {
		if guards(&rules.Items[i], f.plan.Name) {
			f.rules = append(f.rules, rules.Items[i])
		}
	}
	return nil
}

func (o observer) request(ctx context.Context, f *facts, name string) error {
	if name == "" || f.request != nil {
		return nil
	}
	request := &approvalv1alpha1.ResourceCheckRequest{}
	found, err := o.found(o.Get(ctx, client.ObjectKey{Namespace: f.release.Namespace, Name: name}, request))
	if found && ownRequest(request, o.options.Username, f.release.UID) {
		f.request = request
	}
	return err
}

// check reads the attribution check, unless the author is verified already. It is read live, because the request tells of
// its answer sooner than a watch might.
func (o observer) check(ctx context.Context, f *facts) error {
	if f.request == nil || !f.foreign && attributed(f.words, &f.release.Status).Verified {
		return nil
	}
	ref := checkOf(f.request, ruleName(f.plan.Name))
	if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != checkKind {
		return nil
	}
	check := &approvalv1alpha1.AttributionCheck{}
	found, err := o.found(o.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.ObjectName}, check))
	if found && check.UID == ref.UID {
		f.check = check
	}
	return err
}

// target looks at where the Release goes.
func (o observer) target(ctx context.Context, f *facts) error {
	index := ""
	if o.indexed {
		index = indexAdmission
	}
	var err error
	if f.admissions, err = pairing.Candidates(ctx, o, index, f.words, f.plan); err != nil {
		return err
	}
	admission, _ := pairing.Find(f.words, f.plan, f.admissions)
	if admission == nil {
		return nil
	}
	if err := o.strategy(ctx, f, admission); err != nil {
		return err
	}
	return o.pipeline(ctx, f, admission)
}

// strategy is read live: strategies are few, and read twice for a Release.
func (o observer) strategy(ctx context.Context, f *facts, admission *releasev1alpha1.ReleasePlanAdmission) error {
	if f.words.PipelineFrom != attribution.PipelineFromStrategy || admission.Spec.ReleaseStrategy == "" {
		return nil
	}
	strategy := &releasev1alpha1.ReleaseStrategy{}
	found, err := o.found(o.live.Get(ctx, client.ObjectKey{Namespace: admission.Namespace, Name: admission.Spec.ReleaseStrategy}, strategy))
	if found {
		f.strategy = strategy
	}
	return err
}

// pipeline looks whether the pipeline is there, if it is one of the admission's namespace: before anybody is asked, and
// before the run is started.
func (o observer) pipeline(ctx context.Context, f *facts, admission *releasev1alpha1.ReleasePlanAdmission) error {
	spec, problem := pipelineOf(f.words, admission, f.strategy)
	if problem != "" || f.request != nil && f.request.Status.Validity == nil {
		return nil
	}
	kind, name := runKind, ""
	if spec.PipelineRef.Name != "" {
		kind, name = pipelineKind, spec.PipelineRef.Name
	}
	if _, err := o.mapper.RESTMapping(kind.GroupKind(), kind.Version); apimeta.IsNoMatchError(err) {
		f.pipelineMissing = "Tekton Pipelines is not installed, so no pipeline can run: have it installed, then create the Release anew"
		return nil
	} else if err != nil {
		return fmt.Errorf("the kind %s cannot be looked up: %w", kind.Kind, err)
	}
	if name == "" {
		return nil
	}
	pipeline := &metav1.PartialObjectMetadata{}
	pipeline.SetGroupVersionKind(pipelineKind)
	found, err := o.found(o.live.Get(ctx, client.ObjectKey{Namespace: admission.Namespace, Name: name}, pipeline))
	if !found && err == nil {
		f.pipelineMissing = fmt.Sprintf("there is no Pipeline %s/%s to run: the owners of the ReleasePlanAdmission %s must make it, then create the Release anew",
			admission.Namespace, name, admission.Name)
	}
	return err
}

// found tells an object that is not there from one that could not be read.
func (o observer) found(err error) (bool, error) {
	if apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}
