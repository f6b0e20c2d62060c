package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ApprovalResponse is one person's answer: an object of its own, so that simultaneous answers all survive
// and nobody can touch another's.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=apres,categories=countersign
// +kubebuilder:selectablefield:JSONPath=`.spec.requestRef.uid`
// +kubebuilder:printcolumn:name="Request",type=string,JSONPath=`.spec.requestRef.name`
// +kubebuilder:printcolumn:name="Responder",type=string,JSONPath=`.spec.responder.username`
// +kubebuilder:printcolumn:name="Credential",type=string,JSONPath=`.spec.responder.extra.authentication\.kubernetes\.io/credential-id[*]`,description="Credential of the responder; without one, who answered is another's word (asserted)."
// +kubebuilder:printcolumn:name="Decision",type=string,JSONPath=`.spec.decision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="an answer cannot be changed: revoke it with an answer of its own"
type ApprovalResponse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ApprovalResponseSpec `json:"spec"`
}

// ApprovalDecision is what a person answers.
// +kubebuilder:validation:Enum=Approve;Reject;Revoke
type ApprovalDecision string

// Answers of people.
const (
	DecisionApprove ApprovalDecision = "Approve"
	DecisionReject  ApprovalDecision = "Reject"
	DecisionRevoke  ApprovalDecision = "Revoke"
)

// ApprovalResponseSpec is one answer.
// +kubebuilder:validation:XValidation:rule="self.decision == 'Approve' || (has(self.comment) && self.comment.size() > 0)",message="comment is needed to reject or revoke: say why, the requester reads it"
// +kubebuilder:validation:XValidation:rule="!has(self.grantFor) || self.decision == 'Approve'",message="grantFor goes with Approve only"
type ApprovalResponseSpec struct {
	// requestRef names the check that is answered.
	RequestRef CheckTarget      `json:"requestRef"`
	Decision   ApprovalDecision `json:"decision"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Comment string `json:"comment,omitempty"`
	// grantFor shortens how long the grant holds.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	GrantFor *metav1.Duration `json:"grantFor,omitempty"`
	// responder is who answered, set by the server.
	// +optional
	Responder *Identity `json:"responder,omitempty"`
	// asOwner says that a Revoke rests on the verb revoke, set by the server.
	// +optional
	AsOwner bool `json:"asOwner,omitempty"`
}

// CheckTarget names a check in the answer's namespace.
type CheckTarget struct {
	// apiVersion is needed only to revoke a check that is no ApprovalRequest.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +kubebuilder:default=ApprovalRequest
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*$`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is filled by the server if left out; a wrong one is refused.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// ApprovalResponseList is a list of answers.
// +kubebuilder:object:root=true
type ApprovalResponseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ApprovalResponse `json:"items"`
}
