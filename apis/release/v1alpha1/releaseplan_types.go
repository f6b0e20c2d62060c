package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReleasePlan says where an application is released to. Rules on it gate every Release of it.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=countersign"
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rp,categories=countersign
// +kubebuilder:printcolumn:name="Application",type=string,JSONPath=`.spec.application`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target`
// +kubebuilder:printcolumn:name="Author",type=string,JSONPath=`.status.standingAttribution.author`
// +kubebuilder:printcolumn:name="Standing",type=string,JSONPath=`.status.conditions[?(@.type=="StandingAttributionValid")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReleasePlan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	Spec ReleasePlanSpec `json:"spec"`
	// +optional
	Status ReleasePlanStatus `json:"status,omitempty"`
}

// ReleasePlanSpec says what is released where.
type ReleasePlanSpec struct {
	// application is what is released; this or componentGroup.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Application string `json:"application,omitempty"`
	// componentGroup is what is released; this or application.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	ComponentGroup string `json:"componentGroup,omitempty"`
	// target is the namespace whose ReleasePlanAdmission runs the pipeline.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Target string `json:"target,omitempty"`
	// releaseGracePeriodDays is how long Releases of this plan should be kept.
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReleaseGracePeriodDays int32 `json:"releaseGracePeriodDays,omitempty"`
	// data is handed to the pipeline as it is.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Data *runtime.RawExtension `json:"data,omitempty"`
	// collectors are kept and not run here.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Collectors *runtime.RawExtension `json:"collectors,omitempty"`
	// tenantPipeline is kept and not run here.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	TenantPipeline *runtime.RawExtension `json:"tenantPipeline,omitempty"`
	// finalPipeline is kept and not run here.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	FinalPipeline *runtime.RawExtension `json:"finalPipeline,omitempty"`
}

// ReleasePlanStatus is written by holders of the verb decide only.
type ReleasePlanStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// releasePlanAdmission is the admission that the plan is matched to.
	// +optional
	ReleasePlanAdmission *MatchedReleasePlanAdmission `json:"releasePlanAdmission,omitempty"`
	// standingAttribution is who answers for automated Releases of this plan.
	// +optional
	StandingAttribution *StandingAttribution `json:"standingAttribution,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MatchedReleasePlanAdmission is the counterpart of a plan.
type MatchedReleasePlanAdmission struct {
	// name is its namespace and name, joined by a slash.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	Name string `json:"name,omitempty"`
	// active tells that it lets Releases through.
	// +optional
	Active bool `json:"active,omitempty"`
}

// StandingAttribution is the standing author of a plan, as last verified.
type StandingAttribution struct {
	// author is the exact user name.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Author string `json:"author,omitempty"`
	// proposed is who was asked to stand for the plan and has not accepted.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Proposed string `json:"proposed,omitempty"`
	// +optional
	AcceptedAt *metav1.Time `json:"acceptedAt,omitempty"`
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
}

// ReleasePlanList is a list of plans.
// +kubebuilder:object:root=true
type ReleasePlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ReleasePlan `json:"items"`
}
