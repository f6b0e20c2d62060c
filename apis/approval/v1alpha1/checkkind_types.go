package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckKind registers a kind of the Check duck type. Its name is <kind>.<group>, in lower case.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ckind,categories=countersign
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.kind.lowerAscii() + '.' + (self.spec.apiVersion.contains('/') ? self.spec.apiVersion.split('/')[0] : 'core')",message="the name must be <kind>.<group> in lower case, e.g. approvalrequest.approval.alaudadevops.io"
// +kubebuilder:validation:XValidation:rule="self.spec.kind == oldSelf.spec.kind",message="spec.kind cannot be changed: register another CheckKind"
type CheckKind struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CheckKindSpec `json:"spec"`
	// +optional
	Status CheckKindStatus `json:"status,omitempty"`
}

// CheckKindSpec says how to make and read checks of a kind.
type CheckKindSpec struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*$`
	Kind string `json:"kind"`
	// state says how to read the answer of a kind without status.state.
	// +optional
	State *StateReader `json:"state,omitempty"`
	// requestField is the field of the check that takes the question, e.g. .spec.request.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^\.spec(\.[A-Za-z_][A-Za-z0-9_]*)+$`
	// +optional
	RequestField string `json:"requestField,omitempty"`
	// expand lists the string fields in which $(...) is expanded.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^\.spec(\.[A-Za-z_][A-Za-z0-9_]*|\[\*\])+$`
	// +listType=set
	// +optional
	Expand []string `json:"expand,omitempty"`
	// answers lists the fields of the spec that answering writes; they do not count in the digest.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^\.spec(\.[A-Za-z_][A-Za-z0-9_]*|\[\*\])+$`
	// +listType=set
	// +optional
	Answers []string `json:"answers,omitempty"`
	// writers lists the users who may write the status of checks of this kind, besides holders of decide.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=set
	// +optional
	Writers []string `json:"writers,omitempty"`
}

// StateReader reads the state of a check.
type StateReader struct {
	// cel is an expression over self, the whole check; it yields pending, approved, rejected, error or
	// cancelled.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	CEL string `json:"cel"`
}

// CheckKindStatus says whether checks of the kind can be made and relied on.
type CheckKindStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CheckKindList is a list of check kinds.
// +kubebuilder:object:root=true
type CheckKindList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CheckKind `json:"items"`
}
