package v1alpha1

import (
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TimeWindowCheck approves inside a weekly time window and waits before it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=twcheck,categories=countersign
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.timeZone`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.notAfter`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="the spec of a check cannot be changed: change the rule"
type TimeWindowCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TimeWindowCheckSpec `json:"spec"`
	// +kubebuilder:default={state: pending}
	// +optional
	Status TimeWindowCheckStatus `json:"status,omitempty"`
}

// TimeWindowCheckSpec is when the object may be used.
type TimeWindowCheckSpec struct {
	// timeZone is an IANA name, e.g. Europe/Berlin.
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// windows are alternatives: the check approves inside any of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Windows []TimeWindow `json:"windows"`
	// holidays are dates, in the time zone, on which no window opens.
	// +kubebuilder:validation:MaxItems=366
	// +kubebuilder:validation:items:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`
	// +listType=set
	// +optional
	Holidays []string `json:"holidays,omitempty"`
	// request is the question, written by the controller.
	// +optional
	Request *CheckRequest `json:"request,omitempty"`
}

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// TimeWindow is a span on some days; a to before from means that it ends on the next day. They cannot be equal.
type TimeWindow struct {
	// weekdays on which the window opens; absent means every day.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	// +listType=set
	// +optional
	Weekdays []Weekday `json:"weekdays,omitempty"`
	// from is the local time HH:MM at which the window opens.
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	From string `json:"from"`
	// to is the local time HH:MM at which the window closes; 24:00 is the end of the day.
	// +kubebuilder:validation:Pattern=`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	To string `json:"to"`
}

// TimeWindowCheckStatus is written by the controller only.
type TimeWindowCheckStatus struct {
	duckv1alpha1.CheckStatus `json:",inline"`
	// opensAt is when the next window opens, while the check waits.
	// +optional
	OpensAt *metav1.Time `json:"opensAt,omitempty"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TimeWindowCheckList is a list of time window checks.
// +kubebuilder:object:root=true
type TimeWindowCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []TimeWindowCheck `json:"items"`
}
