package v1alpha1

import (
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApprovalRequest is the built-in check that people answer. The controller makes it from a rule's template.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=apreq,categories=countersign
// +kubebuilder:printcolumn:name="Object",type=string,JSONPath=`.spec.request.object.name`
// +kubebuilder:printcolumn:name="Requester",type=string,JSONPath=`.spec.request.requestedBy.username`
// +kubebuilder:printcolumn:name="Credential",type=string,JSONPath=`.spec.request.requestedBy.extra.authentication\.kubernetes\.io/credential-id[*]`,description="Credential of the requester; without one, who asked is another's word (asserted)."
// +kubebuilder:printcolumn:name="Use",type=string,JSONPath=`.spec.request.use.operations`
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.spec.request.context[-1:].resource.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.waitingFor[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="the spec of an ApprovalRequest cannot be changed: answer with an ApprovalResponse"
type ApprovalRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ApprovalRequestSpec `json:"spec"`
	// +kubebuilder:default={state: pending}
	// +optional
	Status ApprovalRequestStatus `json:"status,omitempty"`
}

// SelfApproval says whether those who ask may answer themselves.
// +kubebuilder:validation:Enum=Forbid;Allow
type SelfApproval string

// Values of SelfApproval.
const (
	SelfApprovalForbid SelfApproval = "Forbid"
	SelfApprovalAllow  SelfApproval = "Allow"
)

// SharedApprovers says whether one answer may serve more than one policy.
// +kubebuilder:validation:Enum=Forbid;Allow
type SharedApprovers string

// Values of SharedApprovers.
const (
	SharedApproversForbid SharedApprovers = "Forbid"
	SharedApproversAllow  SharedApprovers = "Allow"
)

// AssertedAnswers says whether answers count whose responder is another's word.
// +kubebuilder:validation:Enum=Allow;Forbid
type AssertedAnswers string

// Values of AssertedAnswers.
const (
	AssertedAnswersAllow  AssertedAnswers = "Allow"
	AssertedAnswersForbid AssertedAnswers = "Forbid"
)

// PolicyOrder says whether policies are asked at once or one after the other.
// +kubebuilder:validation:Enum=Any;Sequential
type PolicyOrder string

// Values of PolicyOrder.
const (
	OrderAny        PolicyOrder = "Any"
	OrderSequential PolicyOrder = "Sequential"
)

// ApprovalRequestSpec is who must answer, and the question.
type ApprovalRequestSpec struct {
	// policies must all be met.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.name == p.name))",message="each policy needs a name of its own"
	// +listType=atomic
	Policies []ApprovalPolicy `json:"policies"`
	// +kubebuilder:default=Forbid
	// +optional
	SharedApprovers SharedApprovers `json:"sharedApprovers,omitempty"`
	// +kubebuilder:default=Any
	// +optional
	Order PolicyOrder `json:"order,omitempty"`
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Description string `json:"description,omitempty"`
	// +kubebuilder:default=Forbid
	// +optional
	SelfApproval SelfApproval `json:"selfApproval,omitempty"`
	// assertedAnswers says whether answers count of which the API server saw no credential of the responder's own, as with
	// impersonation, static tokens and, in older API servers, client certificates. A Revoke always counts, because it only
	// closes.
	// +kubebuilder:default=Allow
	// +optional
	AssertedAnswers AssertedAnswers `json:"assertedAnswers,omitempty"`
	// timeout is how long the check waits for answers.
	// +kubebuilder:default="168h0m0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// request is the question, written by the controller.
	// +optional
	Request *CheckRequest `json:"request,omitempty"`
}

// ApprovalPolicy is a number of answers from a set of approvers.
type ApprovalPolicy struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Approvers []Approver `json:"approvers"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	NumberOfApprovalsRequired int32 `json:"numberOfApprovalsRequired"`
}

// ApproverType is User or Group.
// +kubebuilder:validation:Enum=User;Group
type ApproverType string

// Types of approvers.
const (
	ApproverUser  ApproverType = "User"
	ApproverGroup ApproverType = "Group"
)

// Approver is a user or a group who may answer.
// +kubebuilder:validation:XValidation:rule="self.type != 'Group' || !self.name.startsWith('system:')",message="a group beginning with system: cannot approve, because everybody may be in it; name a group of your people"
type Approver struct {
	Type ApproverType `json:"type"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name"`
}

// ApprovalRequestStatus is written by the controller only.
type ApprovalRequestStatus struct {
	duckv1alpha1.CheckStatus `json:",inline"`

	// policies is the count of each policy.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Policies []PolicyStatus `json:"policies,omitempty"`
	// startedAt is when the controller first took the check up.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// revocation says who took the approval back, and as what.
	// +optional
	Revocation *CheckRevocation `json:"revocation,omitempty"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CheckRevocation says who took an approval back.
type CheckRevocation struct {
	// +kubebuilder:validation:MaxLength=4096
	Username string `json:"username"`
	// asserted tells that no credential of this user's own was seen: that it was him is another's word.
	// +optional
	Asserted bool `json:"asserted,omitempty"`
	// byOwner says that the revocation rests on the verb revoke.
	ByOwner bool        `json:"byOwner"`
	At      metav1.Time `json:"at"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Comment string `json:"comment,omitempty"`
}

// PolicyStatus is the count of one policy.
type PolicyStatus struct {
	// +kubebuilder:validation:MaxLength=63
	Name       string `json:"name"`
	Approvals  int32  `json:"approvals"`
	Rejections int32  `json:"rejections"`
	Met        bool   `json:"met"`
}

// ApprovalRequestList is a list of approval requests.
// +kubebuilder:object:root=true
type ApprovalRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ApprovalRequest `json:"items"`
}
