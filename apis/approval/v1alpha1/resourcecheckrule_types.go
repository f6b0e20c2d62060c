package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceCheckRule says which check guards an object, and for which operations.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rcrule,categories=countersign
// +kubebuilder:printcolumn:name="Object",type=string,JSONPath=`.spec.objectRef.name`
// +kubebuilder:printcolumn:name="Check",type=string,JSONPath=`.spec.checkTemplate.kind`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec.objectRef == oldSelf.spec.objectRef",message="spec.objectRef cannot be changed: make a new rule for the other object"
type ResourceCheckRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceCheckRuleSpec `json:"spec"`
	// +optional
	Status ResourceCheckRuleStatus `json:"status,omitempty"`
}

// ResourceCheckRuleSpec is object, condition and the template of one check.
type ResourceCheckRuleSpec struct {
	// objectRef is what the rule guards. It lives in the rule's namespace.
	ObjectRef ObjectReference `json:"objectRef"`
	// when selects the operations; absent means every operation that is not a read.
	// +optional
	When *OperationSelector `json:"when,omitempty"`
	// checkTemplate is the check that must approve.
	CheckTemplate CheckTemplate `json:"checkTemplate"`
	// +optional
	Grant *Grant `json:"grant,omitempty"`
}

// CheckTemplate is what a check is made from. Its spec is that of the named kind.
type CheckTemplate struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*$`
	Kind string `json:"kind"`
	// +optional
	Metadata *CheckTemplateMetadata `json:"metadata,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	Spec runtime.RawExtension `json:"spec,omitempty"`
}

// CheckTemplateMetadata is put on each check.
type CheckTemplateMetadata struct {
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Grant bounds what an approval gives.
type Grant struct {
	// maxDuration is the longest that an approval may hold.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
}

// ResourceCheckRuleStatus repeats what the webhook found.
type ResourceCheckRuleStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ResourceCheckRuleList is a list of rules.
// +kubebuilder:object:root=true
type ResourceCheckRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceCheckRule `json:"items"`
}
