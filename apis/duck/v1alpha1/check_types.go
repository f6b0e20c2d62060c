package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis/duck/ducktypes"
)

// CheckState is the answer of a check. Absent means pending, a value outside this list means error.
// +kubebuilder:validation:Enum=pending;approved;rejected;error;cancelled
type CheckState string

// States of a check. Error is not final: the check may still answer.
const (
	CheckPending   CheckState = "pending"
	CheckApproved  CheckState = "approved"
	CheckRejected  CheckState = "rejected"
	CheckError     CheckState = "error"
	CheckCancelled CheckState = "cancelled"
)

// Reasons beside a cancelled state.
const (
	CheckReasonTimedOut     = "TimedOut"
	CheckReasonRevoked      = "Revoked"
	CheckReasonWindowClosed = "WindowClosed"
	CheckReasonRequestEnded = "RequestEnded"
)

// Check is the duck type: any kind whose status holds these fields can guard an object.
// +kubebuilder:object:root=true
type Check struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status CheckStatus `json:"status,omitempty"`
}

// CheckStatus is the part of a check's status that consumers read. Only state is required of a kind.
type CheckStatus struct {
	// state is the answer; absent means pending.
	// +kubebuilder:default=pending
	// +optional
	State CheckState `json:"state,omitempty"`

	// reason is a CamelCase word beside a state that needs one, e.g. TimedOut beside cancelled.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is one sentence for people.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`

	// observedGeneration is the generation of the spec that the state answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// decidedBy lists who answered, oldest first.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	DecidedBy []CheckDecision `json:"decidedBy,omitempty"`

	// waitingFor lists whose answer is still missing.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	WaitingFor []CheckWaiting `json:"waitingFor,omitempty"`

	// grantFor shortens how long the approval holds, counted from the moment the whole request is granted.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	GrantFor *metav1.Duration `json:"grantFor,omitempty"`

	// notAfter is the moment at which the approval ends by itself.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// CheckDecision is one answer.
type CheckDecision struct {
	// username is the exact user name of who answered.
	// +kubebuilder:validation:MaxLength=4096
	Username string `json:"username"`

	// decision is what was answered: Approve, Reject or Revoke for people; free for other kinds.
	// +kubebuilder:validation:MaxLength=64
	Decision string `json:"decision"`

	// time is when the answer was recorded.
	// +optional
	Time metav1.Time `json:"time,omitempty"`

	// asserted tells that no credential of the responder's own was seen, as with impersonation and client
	// certificates: that it was him is another's word.
	// +optional
	Asserted bool `json:"asserted,omitempty"`

	// comment is the responder's own text.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Comment string `json:"comment,omitempty"`
}

// WaitingKind says what a check waits for.
// +kubebuilder:validation:Enum=User;Group;Other
type WaitingKind string

// Kinds of who or what a check waits for.
const (
	WaitingForUser  WaitingKind = "User"
	WaitingForGroup WaitingKind = "Group"
	WaitingForOther WaitingKind = "Other"
)

// CheckWaiting is somebody or something whose answer is missing.
type CheckWaiting struct {
	// kind is User, Group or Other.
	Kind WaitingKind `json:"kind"`

	// name of the user or group, or a short text for Other.
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`

	// missing is how many answers are missing from here; 0 means unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Missing int32 `json:"missing,omitempty"`
}

// CheckList is a list of checks of one kind.
// +kubebuilder:object:root=true
type CheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Check `json:"items"`
}

var (
	_ ducktypes.Populatable   = (*Check)(nil)
	_ ducktypes.Implementable = (*CheckStatus)(nil)
)

// GetFullType implements ducktypes.Implementable.
func (*CheckStatus) GetFullType() ducktypes.Populatable { return &Check{} }

// Populate implements ducktypes.Populatable.
func (c *Check) Populate() {
	c.Status = CheckStatus{
		State:              CheckApproved,
		Message:            "approved by owner1",
		ObservedGeneration: 1,
		DecidedBy:          []CheckDecision{{Username: "owner1", Decision: "Approve", Comment: "fine"}},
		WaitingFor:         []CheckWaiting{{Kind: WaitingForGroup, Name: "owners", Missing: 1}},
	}
}

// GetListType implements apis.Listable of knative.dev/pkg.
func (*Check) GetListType() runtime.Object { return &CheckList{} }
