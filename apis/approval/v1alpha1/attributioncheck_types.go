package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// AttributionCheck answers whether somebody is accountable, and whether that is a real person whom the directory knows.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=attcheck,categories=countersign
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Author",type=string,JSONPath=`.status.author.username`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="Verified",type=boolean,JSONPath=`.status.verified`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="the spec of a check cannot be changed: change the rule"
type AttributionCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AttributionCheckSpec `json:"spec"`
	// +kubebuilder:default={state: pending}
	// +optional
	Status AttributionCheckStatus `json:"status,omitempty"`
}

// AttributionCheckSpec says whose author is looked for.
type AttributionCheckSpec struct {
	// resource is whose author is looked for: an object of the rule's namespace. Absent means the request's context: the
	// run, or the person who asks.
	// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__)",message="leave the namespace out: it is the rule's"
	// +optional
	Resource *ObjectReference `json:"resource,omitempty"`
	// standing is where a standing author may stand when a robot made the resource: a ReleasePlan of the rule's
	// namespace. Absent means the protected object itself, if it is a ReleasePlan.
	// +kubebuilder:validation:XValidation:rule="self.kind == 'ReleasePlan' && self.apiVersion.startsWith('appstudio.redhat.com/')",message="somebody can only stand for a ReleasePlan of appstudio.redhat.com"
	// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__)",message="leave the namespace out: it is the rule's"
	// +optional
	Standing *ObjectReference `json:"standing,omitempty"`
	// requireHuman refuses an author whom the directory does not know as a person. When it is false, any recorded author
	// is enough, and the directory is not asked.
	// +kubebuilder:default=true
	// +optional
	RequireHuman *bool `json:"requireHuman,omitempty"`
	// timeout is how long the check waits for the directory.
	// +kubebuilder:default="168h0m0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// request is the question, written by the controller.
	// +optional
	Request *CheckRequest `json:"request,omitempty"`
}

// AttributionSource says where an author stands.
// +kubebuilder:validation:Enum=Direct;Standing
type AttributionSource string

// Sources of an author.
const (
	SourceDirect   AttributionSource = "Direct"
	SourceStanding AttributionSource = "Standing"
)

// AttributionCheckStatus is written by the controller only.
type AttributionCheckStatus struct {
	duckv1alpha1.CheckStatus `json:",inline"`
	// author is who is accountable, as far as known.
	// +optional
	Author *Author `json:"author,omitempty"`
	// source says whether the author made the resource himself.
	// +optional
	Source AttributionSource `json:"source,omitempty"`
	// standing is where a standing author stands.
	// +optional
	Standing *StandingReference `json:"standing,omitempty"`
	// verified tells that the directory knew the author as a person.
	// +optional
	Verified bool `json:"verified,omitempty"`
	// verifiedAt is when the directory's answer was observed.
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Author is an accountable user.
type Author struct {
	// username is the exact user name.
	// +kubebuilder:validation:MaxLength=4096
	Username string `json:"username"`
	// uid is the directory's own identifier of the person.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	UID string `json:"uid,omitempty"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Email string `json:"email,omitempty"`
}

// StandingReference is the object on which somebody stands as the author.
type StandingReference struct {
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// +optional
	AcceptedAt *metav1.Time `json:"acceptedAt,omitempty"`
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}

// Reasons of attribution, in status.reason and in the conditions of what waits for it.
const (
	// ReasonAttributed: a known person is accountable.
	ReasonAttributed = "Attributed"
	// ReasonNoAuthor: nobody is recorded as the author.
	ReasonNoAuthor = "NoAuthor"
	// ReasonOnlyRobot: only a program is behind it, and no person stands for that.
	ReasonOnlyRobot = "OnlyRobot"
	// ReasonAuthorUnknown: the directory does not know the author, or he has left.
	ReasonAuthorUnknown = "AuthorUnknown"
	// ReasonStandingChanged: what the author stood for is not what it was.
	ReasonStandingChanged = "StandingChanged"
	// ReasonStandingExpired: the standing attribution has run out.
	ReasonStandingExpired = "StandingExpired"
	// ReasonDirectoryUnavailable: the directory does not answer; the check waits.
	ReasonDirectoryUnavailable = "DirectoryUnavailable"
)

// AttributionCheckList is a list of attribution checks.
// +kubebuilder:object:root=true
type AttributionCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AttributionCheck `json:"items"`
}
