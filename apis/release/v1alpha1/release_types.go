package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Release asks that a snapshot be released by a plan. Who answers for it stands in status.attribution.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=countersign"
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rel,categories=countersign
// +kubebuilder:printcolumn:name="Snapshot",type=string,JSONPath=`.spec.snapshot`
// +kubebuilder:printcolumn:name="ReleasePlan",type=string,JSONPath=`.spec.releasePlan`
// +kubebuilder:printcolumn:name="Author",type=string,JSONPath=`.status.attribution.author`
// +kubebuilder:printcolumn:name="Verified",type=boolean,JSONPath=`.status.attribution.verified`
// +kubebuilder:printcolumn:name="Release status",type=string,JSONPath=`.status.conditions[?(@.type=="Released")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Author (authorization)",type=string,priority=1,JSONPath=`.status.authorization.author`
// +kubebuilder:printcolumn:name="Verified (authorization)",type=boolean,priority=1,JSONPath=`.status.authorization.verified`
type Release struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec may be left empty, as public samples do; such a Release fails its validation and says what is missing.
	// +kubebuilder:default={}
	Spec ReleaseSpec `json:"spec"`
	// +optional
	Status ReleaseStatus `json:"status,omitempty"`
}

// ReleaseSpec says what is released, and by which plan.
// +kubebuilder:validation:XValidation:rule="has(self.snapshot) == has(oldSelf.snapshot) && (!has(self.snapshot) || self.snapshot == oldSelf.snapshot)",message="the snapshot of a Release cannot be changed: create another Release"
// +kubebuilder:validation:XValidation:rule="has(self.releasePlan) == has(oldSelf.releasePlan) && (!has(self.releasePlan) || self.releasePlan == oldSelf.releasePlan)",message="the plan of a Release cannot be changed: create another Release"
type ReleaseSpec struct {
	// snapshot names what is released.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Snapshot string `json:"snapshot,omitempty"`
	// releasePlan names a ReleasePlan in the namespace of the Release.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	ReleasePlan string `json:"releasePlan,omitempty"`
	// data is handed to the pipeline as it is.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Data *runtime.RawExtension `json:"data,omitempty"`
	// gracePeriodDays is how long the Release should be kept.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GracePeriodDays int32 `json:"gracePeriodDays,omitempty"`
}

// ReleaseStatus is written by holders of the verb decide only.
type ReleaseStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// attribution is who answers for the Release.
	// +optional
	Attribution *Attribution `json:"attribution,omitempty"`
	// authorization is the older wording of attribution; set instead of it where the vocabulary says so.
	// +optional
	Authorization *Authorization `json:"authorization,omitempty"`
	// request names the ResourceCheckRequest that gates the Release, in its namespace.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Request string `json:"request,omitempty"`
	// automated tells that a program made the Release.
	// +optional
	Automated bool `json:"automated,omitempty"`
	// target is the namespace that the Release goes to.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Target string `json:"target,omitempty"`
	// managedProcessing is the pipeline run that the admission names.
	// +optional
	ManagedProcessing *PipelineInfo `json:"managedProcessing,omitempty"`
	// validation says when the Release was found valid or not.
	// +optional
	Validation *ValidationInfo `json:"validation,omitempty"`
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Attribution is the person who answers for a Release.
type Attribution struct {
	// author is the exact user name.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Author string `json:"author,omitempty"`
	// standingAttribution tells that the author stands on the plan, not on the Release.
	// +optional
	StandingAttribution bool `json:"standingAttribution,omitempty"`
	// verified tells that the directory knew the author as a person.
	// +optional
	Verified bool `json:"verified,omitempty"`
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
}

// Authorization is Attribution in its older wording.
type Authorization struct {
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Author string `json:"author,omitempty"`
	// +optional
	StandingAuthorization bool `json:"standingAuthorization,omitempty"`
	// +optional
	Verified bool `json:"verified,omitempty"`
	// +optional
	VerifiedAt *metav1.Time `json:"verifiedAt,omitempty"`
}

// PipelineInfo is the state of one pipeline run of a Release.
type PipelineInfo struct {
	// pipelineRun is its namespace and name, joined by a slash.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	PipelineRun string `json:"pipelineRun,omitempty"`
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// ValidationInfo is the state of the validation.
type ValidationInfo struct {
	// failedPostValidation tells that the Release was valid first and is not any more.
	// +optional
	FailedPostValidation bool `json:"failedPostValidation,omitempty"`
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// ReleaseList is a list of releases.
// +kubebuilder:object:root=true
type ReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Release `json:"items"`
}

// Conditions of a Release, and the reasons that are not those of a request.
const (
	ConditionValidated                = "Validated"
	ConditionManagedPipelineProcessed = "ManagedPipelineProcessed"
	ConditionReleased                 = "Released"

	ReasonSucceeded       = "Succeeded"
	ReasonFailed          = "Failed"
	ReasonProgressing     = "Progressing"
	ReasonSkipped         = "Skipped"
	ReasonValidationError = "ValidationError"
)

// ConditionStandingAttributionValid tells on a ReleasePlan whether its standing author is a known person now.
const ConditionStandingAttributionValid = "StandingAttributionValid"

// ConditionMatched tells on a ReleasePlan and a ReleasePlanAdmission whether it has its counterpart.
const ConditionMatched = "Matched"

// Reasons of ConditionStandingAttributionValid.
const (
	ReasonVerified             = "Verified"
	ReasonNoStandingAuthor     = "NoStandingAuthor"
	ReasonProposed             = "Proposed"
	ReasonAuthorUnknown        = "AuthorUnknown"
	ReasonAttributionExpired   = "AttributionExpired"
	ReasonDirectoryUnavailable = "DirectoryUnavailable"
)
