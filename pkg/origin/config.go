package origin

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Config says which kinds are contexts, and which controllers create which children. It is a file in YAML:
//
//	runs:
//	- {group: tekton.dev, kind: PipelineRun}
//	hops:
//	- child: {group: batch, kind: Job}
//	  owner: {group: batch, kind: CronJob}
//	  controllers: ["system:serviceaccount:kube-system:cronjob-controller"]
type Config struct {
	// Runs are the kinds that an approval is reused for. Workloads that live on without an end (Deployment, CronJob and
	// the like) must not be among them: an approval would never end.
	Runs []GroupKind `json:"runs"`
	// Hops are the only ones that can be proven.
	Hops []ConfiguredHop `json:"hops"`
}

// GroupKind names a kind; versions do not matter.
type GroupKind struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
}

// ConfiguredHop says who creates children of one kind for owners of another.
type ConfiguredHop struct {
	Child GroupKind `json:"child"`
	Owner GroupKind `json:"owner"`
	// Controllers are exact user names. Whoever can act as one of them can forge contexts.
	Controllers []string `json:"controllers"`
}

// PodKind is where every climb begins.
var PodKind = schema.GroupKind{Kind: "Pod"}

// tektonController is the service account of Tekton's own manifests.
const tektonController = "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller"

// DefaultConfig knows Kubernetes' own controllers, under both identities that the controller manager may use, Tekton as
// its manifests install it, and Releases.
func DefaultConfig() Config {
	pod, pipelineRun, taskRun := GroupKind{"", "Pod"}, tekton("PipelineRun"), tekton("TaskRun")
	job, replicaSet := GroupKind{"batch", "Job"}, apps("ReplicaSet")
	return Config{
		// A Release ends when it is released or failed. Nothing is made for one in its namespace, so no hop leads to it.
		Runs: []GroupKind{pipelineRun, taskRun, job, {ReleaseKind.Group, ReleaseKind.Kind}},
		Hops: []ConfiguredHop{
			{pod, job, manager("job-controller")},
			{job, GroupKind{"batch", "CronJob"}, manager("cronjob-controller")},
			{pod, replicaSet, manager("replicaset-controller")},
			{replicaSet, apps("Deployment"), manager("deployment-controller")},
			{pod, apps("StatefulSet"), manager("statefulset-controller")},
			{pod, apps("DaemonSet"), manager("daemon-set-controller")},
			{pod, taskRun, []string{tektonController}},
			{pod, pipelineRun, []string{tektonController}},
			{taskRun, pipelineRun, []string{tektonController}},
			{tekton("CustomRun"), pipelineRun, []string{tektonController}},
			{pipelineRun, pipelineRun, []string{tektonController}},
		},
	}
}

func tekton(kind string) GroupKind { return GroupKind{pipeline.GroupName, kind} }

func apps(kind string) GroupKind { return GroupKind{"apps", kind} }

// manager is a controller of the controller manager, which may run each under an account of its own or all as one.
func manager(controller string) []string {
	return []string{"system:serviceaccount:kube-system:" + controller, "system:kube-controller-manager"}
}

// LoadConfig reads a file, which replaces the defaults as a whole. Unknown fields are refused.
func LoadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("the table of origins cannot be read: %w", err)
	}
	var config Config
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return Config{}, fmt.Errorf("the table of origins %s is not valid: %w", path, err)
	}
	if err := config.Validate(); err != nil {
		return Config{}, fmt.Errorf("the table of origins %s is not valid: %w", path, err)
	}
	return config, nil
}

// Validate refuses a table by which anybody could prove a hop, or no context could ever be found.
func (c Config) Validate() error {
	if len(c.Runs) == 0 {
		return errors.New("runs is empty: name at least one kind that approvals are reused for")
	}
	if slices.ContainsFunc(c.Runs, func(k GroupKind) bool { return k.Kind == "" }) {
		return errors.New("an entry of runs has no kind: name it")
	}
	for i, hop := range c.Hops {
		if hop.Child.Kind == "" || hop.Owner.Kind == "" {
			return fmt.Errorf("hops[%d] lacks the kind of the child or the owner: name both", i)
		}
		if len(hop.Controllers) == 0 || slices.Contains(hop.Controllers, "") {
			return fmt.Errorf("hops[%d] (%s of %s) lacks a controller: name the exact user that creates such children", i, hop.Child.Kind, hop.Owner.Kind)
		}
	}
	return nil
}

func (k GroupKind) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.Group, Kind: k.Kind}
}

// IsRun tells whether objects of the kind are contexts.
func (c Config) IsRun(kind schema.GroupKind) bool {
	return slices.Contains(c.Runs, GroupKind{kind.Group, kind.Kind})
}

// Kinds are those that climbs from pods to a context read: pods, runs, and what stands between them.
func (c Config) Kinds() []schema.GroupKind {
	kinds := []schema.GroupKind{PodKind}
	add := func(kind schema.GroupKind) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, run := range c.Runs {
		add(run.groupKind())
	}
	t := newTable(c)
	for i := 0; i < len(kinds); i++ {
		for _, hop := range c.Hops {
			if hop.Child.groupKind() == kinds[i] && t.leadsToRun(hop.Owner.groupKind()) {
				add(hop.Owner.groupKind())
			}
		}
	}
	return kinds
}

// HasRunsBelow tells whether runs of the kind start other runs, so that their tasks are contexts of their own.
func (c Config) HasRunsBelow(kind schema.GroupKind) bool {
	return slices.ContainsFunc(c.Hops, func(hop ConfiguredHop) bool {
		return hop.Owner.groupKind() == kind && c.IsRun(hop.Child.groupKind())
	})
}
