package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReleasePlanAdmission lets Releases from another namespace in, and says which pipeline they run.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=countersign"
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rpa,categories=countersign
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Origin",type=string,JSONPath=`.spec.origin`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReleasePlanAdmission struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	Spec ReleasePlanAdmissionSpec `json:"spec"`
	// +optional
	Status ReleasePlanAdmissionStatus `json:"status,omitempty"`
}

// ReleasePlanAdmissionSpec says what is let in, and what it runs.
type ReleasePlanAdmissionSpec struct {
	// applications that are let in; these or componentGroups.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	Applications []string `json:"applications,omitempty"`
	// componentGroups that are let in; these or applications.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	ComponentGroups []string `json:"componentGroups,omitempty"`
	// origin is the namespace that Releases may come from.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Origin string `json:"origin,omitempty"`
	// environment is kept for readers.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Environment string `json:"environment,omitempty"`
	// policy names the enterprise contract policy; handed to the pipeline.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Policy string `json:"policy,omitempty"`
	// releaseStrategy names a ReleaseStrategy in this namespace that says what to run, in the older wording.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ReleaseStrategy string `json:"releaseStrategy,omitempty"`
	// data is handed to the pipeline as it is.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Data *runtime.RawExtension `json:"data,omitempty"`
	// collectors are kept and not run here.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Collectors *runtime.RawExtension `json:"collectors,omitempty"`
	// pipeline is what a Release runs.
	// +optional
	Pipeline *Pipeline `json:"pipeline,omitempty"`
}

// Pipeline names a Tekton pipeline and how it runs.
type Pipeline struct {
	PipelineRef PipelineRef `json:"pipelineRef"`
	// serviceAccountName is who the pipeline runs as.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// timeouts of the run, as Tekton spells them.
	// +optional
	Timeouts *PipelineTimeouts `json:"timeouts,omitempty"`
	// taskRunSpecs are handed to the run as they are.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	TaskRunSpecs []apiextensionsv1.JSON `json:"taskRunSpecs,omitempty"`
	// maxRetries is kept and not used here.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxRetries *int32 `json:"maxRetries,omitempty"`
}

// PipelineRef names a pipeline by a resolver, or by its name in the admission's namespace.
// +kubebuilder:validation:XValidation:rule="has(self.resolver) != has(self.name)",message="name either a resolver with its params, or a pipeline of this namespace"
type PipelineRef struct {
	// resolver is a Tekton resolver such as git, bundles or cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Resolver string `json:"resolver,omitempty"`
	// params of the resolver.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Params []Param `json:"params,omitempty"`
	// name of a Pipeline in the admission's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
	// ociStorage is handed to the pipeline as the parameter ociStorage.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	OciStorage string `json:"ociStorage,omitempty"`
	// useEmptyDir is kept and not used here.
	// +optional
	UseEmptyDir bool `json:"useEmptyDir,omitempty"`
}

// Param is a name and a value.
type Param struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
}

// PipelineTimeouts are durations as Tekton takes them.
type PipelineTimeouts struct {
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	Pipeline *metav1.Duration `json:"pipeline,omitempty"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	Tasks *metav1.Duration `json:"tasks,omitempty"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	Finally *metav1.Duration `json:"finally,omitempty"`
}

// ReleasePlanAdmissionStatus is written by holders of the verb decide only.
type ReleasePlanAdmissionStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReleasePlanAdmissionList is a list of admissions.
// +kubebuilder:object:root=true
type ReleasePlanAdmissionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ReleasePlanAdmission `json:"items"`
}

// ReleaseStrategy says what a Release runs, in the older wording.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=countersign"
// +kubebuilder:resource:shortName=rs,categories=countersign
// +kubebuilder:printcolumn:name="Pipeline",type=string,JSONPath=`.spec.pipeline`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReleaseStrategy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	Spec ReleaseStrategySpec `json:"spec"`
}

// ReleaseStrategySpec names a pipeline, with its parameters.
type ReleaseStrategySpec struct {
	// pipeline is its name in this namespace, or in the bundle.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Pipeline string `json:"pipeline,omitempty"`
	// bundle is the image that holds the pipeline.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Bundle string `json:"bundle,omitempty"`
	// policy names the enterprise contract policy.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Policy string `json:"policy,omitempty"`
	// serviceAccount is who the pipeline runs as.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// params are handed to the pipeline.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Params []StrategyParam `json:"params,omitempty"`
}

// StrategyParam is a parameter with one value or a list.
type StrategyParam struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Value string `json:"value,omitempty"`
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// ReleaseStrategyList is a list of strategies.
// +kubebuilder:object:root=true
type ReleaseStrategyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ReleaseStrategy `json:"items"`
}
