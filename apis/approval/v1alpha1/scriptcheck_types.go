package v1alpha1

import (
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScriptCheck answers with one CEL expression.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=scheck,categories=countersign
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="the spec of a check cannot be changed: change the rule"
type ScriptCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ScriptCheckSpec `json:"spec"`
	// +kubebuilder:default={state: pending}
	// +optional
	Status ScriptCheckStatus `json:"status,omitempty"`
}

// ScriptCheckSpec is the expression and the question.
type ScriptCheckSpec struct {
	// expression is CEL over request, object, resource, rule and now. True approves, false rejects, the
	// text "not yet" waits.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
	// message is told to the requester when the expression does not approve.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// timeout is how long the check waits while the answer is not yet.
	// +kubebuilder:default="168h0m0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// request is the question, written by the controller.
	// +optional
	Request *CheckRequest `json:"request,omitempty"`
}

// ScriptCheckStatus is written by the controller only.
type ScriptCheckStatus struct {
	duckv1alpha1.CheckStatus `json:",inline"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScriptCheckList is a list of script checks.
// +kubebuilder:object:root=true
type ScriptCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ScriptCheck `json:"items"`
}
