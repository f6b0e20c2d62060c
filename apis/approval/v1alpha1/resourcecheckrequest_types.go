package v1alpha1

import (
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ResourceCheckRequest carries one subject's wish to use an object in one context; its status holds the
// answer.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rcreq,categories=countersign
// +kubebuilder:printcolumn:name="Object",type=string,JSONPath=`.spec.objectRef.name`
// +kubebuilder:printcolumn:name="Subject",type=string,JSONPath=`.spec.context.subject.name`
// +kubebuilder:printcolumn:name="Credential",type=string,JSONPath=`.spec.requestedBy.extra.authentication\.kubernetes\.io/credential-id[*]`,description="Credential of who asked; without one, who that was is another's word (asserted)."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.validity.notAfter`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceCheckRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceCheckRequestSpec `json:"spec"`
	// +optional
	Status ResourceCheckRequestStatus `json:"status,omitempty"`
}

// ResourceCheckRequestSpec cannot be changed after creation; only revoked may go from absent to set.
type ResourceCheckRequestSpec struct {
	// objectRef is what is to be used; its uid is set by the server.
	ObjectRef ObjectReference `json:"objectRef"`
	// context is whose use it is and what the approval is reused for; set or verified by the server.
	// +optional
	Context RequestContext `json:"context,omitempty"`
	// requestedBy is who created the request, set by the server.
	// +optional
	RequestedBy *Identity `json:"requestedBy,omitempty"`
	// use is what the object is asked for; absent means everything that is not a read.
	// +optional
	Use *OperationSelector `json:"use,omitempty"`
	// +optional
	TimeRange *TimeRange `json:"timeRange,omitempty"`
	// reason is shown to approvers as the requester's words; required of people.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Reason string `json:"reason,omitempty"`
	// revoked ends the request for good.
	// +optional
	Revoked *Revocation `json:"revoked,omitempty"`
}

// RequestContext is whose use it is, and what the approval is reused for.
type RequestContext struct {
	// subject defaults to the caller, or to the service account of the named run.
	// +optional
	Subject *Subject `json:"subject,omitempty"`
	// token narrows a person's request to one token; on a pod's request it is evidence only.
	// +optional
	Token *TokenReference `json:"token,omitempty"`
	// pod is the pod whose token was used, set by the server.
	// +optional
	Pod *PodReference `json:"pod,omitempty"`
	// resource is the run that the approval is reused for.
	// +optional
	Resource *ObjectReference `json:"resource,omitempty"`
}

// TokenReference names one token by its jti (RFC 7519 section 4.1.7).
type TokenReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	JTI string `json:"jti"`
}

// PodReference names one pod.
type PodReference struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
}

// TimeRange bounds when the grant may hold.
// +kubebuilder:validation:XValidation:rule="!has(self.after) || !has(self.before) || timestamp(self.after) < timestamp(self.before)",message="timeRange.after must lie before timeRange.before"
type TimeRange struct {
	// duration is how long the grant shall last once it is given.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// after is the earliest moment of use, in UTC.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	After *metav1.Time `json:"after,omitempty"`
	// before is the last moment of use, in UTC.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	Before *metav1.Time `json:"before,omitempty"`
}

// Revocation ends a request; by and at are set by the server.
type Revocation struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	By string `json:"by,omitempty"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +optional
	At *metav1.Time `json:"at,omitempty"`
}

// ResourceCheckRequestStatus is written by the controller only.
type ResourceCheckRequestStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// fingerprint is the canonical identity of object, subject and context.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// object is the protected object as it stood at the snapshot.
	// +optional
	Object *ObjectSnapshot `json:"object,omitempty"`
	// follows names the equal live request that already asks; its Ready is shown here.
	// +optional
	Follows *RequestReference `json:"follows,omitempty"`
	// askers lists who else asked for the same.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=set
	// +optional
	Askers []string `json:"askers,omitempty"`
	// rules are those that this request asks, as they stood at the snapshot.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Rules []RuleSnapshot `json:"rules,omitempty"`
	// requestRefs name the checks, by rule.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	RequestRefs []CheckReference `json:"requestRefs,omitempty"`
	// results are the answers, by rule.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Results []CheckResult `json:"results,omitempty"`
	// superseded keeps former results, newest last; they never count again.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Superseded []SupersededResult `json:"superseded,omitempty"`
	// validity is fixed when every check has approved and can only become shorter.
	// +optional
	Validity *Validity `json:"validity,omitempty"`
	// ended is set once; nothing changes after it.
	// +optional
	Ended *Ended `json:"ended,omitempty"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ObjectSnapshot is the identity of an object's content.
type ObjectSnapshot struct {
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
}

// CheckReference names the check made for a rule.
type CheckReference struct {
	// name of the rule.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// objectName is the name of the check.
	// +kubebuilder:validation:MaxLength=253
	ObjectName string `json:"objectName"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
	// specDigest is the digest of the spec that the create call returned, without the kind's answers.
	// +kubebuilder:validation:MaxLength=128
	SpecDigest string `json:"specDigest"`
}

// CheckResult is what one rule's check answered.
type CheckResult struct {
	// name of the rule.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid and generation are those of the rule that was asked.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID        types.UID               `json:"uid"`
	Generation int64                   `json:"generation"`
	State      duckv1alpha1.CheckState `json:"state"`
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	DecidedAt *metav1.Time `json:"decidedAt,omitempty"`
	// notAfter is the end of a check that was asked anew after the request had been granted, or whose kind
	// ends by itself.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	DecidedBy []duckv1alpha1.CheckDecision `json:"decidedBy,omitempty"`
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	WaitingFor []duckv1alpha1.CheckWaiting `json:"waitingFor,omitempty"`
}

// SupersededResult is a former result with the reason why it no longer counts.
type SupersededResult struct {
	CheckResult `json:",inline"`
	// +kubebuilder:validation:MaxLength=64
	Reason string      `json:"reason"`
	At     metav1.Time `json:"at"`
	// check is the check that gave the result.
	// +optional
	Check *CheckReference `json:"check,omitempty"`
}

// Validity is when the grant holds: from notBefore until, and without, notAfter.
type Validity struct {
	NotBefore metav1.Time `json:"notBefore"`
	NotAfter  metav1.Time `json:"notAfter"`
}

// Ended says when and why a request came to its end.
type Ended struct {
	At metav1.Time `json:"at"`
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message is one sentence for people.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// holdUntil keeps new requests of this fingerprint back after an owner revoked.
	// +optional
	HoldUntil *metav1.Time `json:"holdUntil,omitempty"`
}

// ResourceCheckRequestList is a list of requests.
// +kubebuilder:object:root=true
type ResourceCheckRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceCheckRequest `json:"items"`
}
