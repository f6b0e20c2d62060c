package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ObjectReference names a namespaced object. Objects are matched by group, kind and name; the version only
// says how the reference was written.
type ObjectReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*$`
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// uid is set by the server.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// GroupKind is what references are matched by, beside the name.
func (r *ObjectReference) GroupKind() schema.GroupKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind()
}

// SubjectKind is the kind of who uses an object.
// +kubebuilder:validation:Enum=User;ServiceAccount
type SubjectKind string

// Kinds of subjects.
const (
	SubjectUser           SubjectKind = "User"
	SubjectServiceAccount SubjectKind = "ServiceAccount"
)

// Subject is whose use is asked for.
type Subject struct {
	// apiGroup is rbac.authorization.k8s.io for users and empty for service accounts.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	APIGroup string      `json:"apiGroup,omitempty"`
	Kind     SubjectKind `json:"kind"`
	// namespace of a service account.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the service account, or the exact user name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	UID string `json:"uid,omitempty"`
}

// Identity is an authenticated caller as the API server saw it.
type Identity struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Username string `json:"username"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	UID string `json:"uid,omitempty"`
	// groups are those that matter for the answer, not every group of the caller.
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	Groups []string `json:"groups,omitempty"`
	// extra holds the credential id of the caller's token, when it had one.
	// +kubebuilder:validation:MaxProperties=8
	// +optional
	Extra map[string]ExtraValue `json:"extra,omitempty"`
}

// ExtraCredentialID is the key of Identity.Extra that holds the credential id of the caller's token.
const ExtraCredentialID = "authentication.kubernetes.io/credential-id"

// Asserted tells that no credential of the caller's own was seen: he was impersonated, or came with something that the API
// server gives no credential id for, such as a static token, a token without jti, or, in
// older versions, a client certificate. With impersonation the API server takes the credential id away, unless the impersonator sends one: the right
// to impersonate `userextras/authentication.kubernetes.io/credential-id` is a right to forge it, and is not for people.
func (i *Identity) Asserted() bool { return len(i.Extra[ExtraCredentialID]) == 0 }

// ExtraValue is a list of values of one key of a caller's extra information.
// +kubebuilder:validation:MaxItems=16
// +kubebuilder:validation:items:MaxLength=1024
type ExtraValue []string

// OperationClass says whether an operation changes the tool's state.
// +kubebuilder:validation:Enum=Read;Write
type OperationClass string

// Classes of operations.
const (
	OperationRead  OperationClass = "Read"
	OperationWrite OperationClass = "Write"
)

// OperationSelector selects operations. All given parts must match; absent means every operation that is
// not a read.
type OperationSelector struct {
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Operations []OperationClass `json:"operations,omitempty"`
	// +optional
	HTTP *HTTPSelector `json:"http,omitempty"`
}

// HTTPSelector selects HTTP requests by method and path.
type HTTPSelector struct {
	// methods are HTTP methods; absent means all.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[A-Z]{1,20}$`
	// +listType=set
	// +optional
	Methods []string `json:"methods,omitempty"`
	// paths are patterns against the tool's path: * is one segment, ** at the end any number.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:Pattern=`^/`
	// +listType=set
	// +optional
	Paths []string `json:"paths,omitempty"`
}

// CheckContext is what every check of any kind says of the question, in AnnotationContext.
type CheckContext struct {
	Object   ObjectReference    `json:"object"`
	Subject  Subject            `json:"subject"`
	Resource *ObjectReference   `json:"resource,omitempty"`
	Use      *OperationSelector `json:"use,omitempty"`
	Reason   string             `json:"reason,omitempty"`
	Rule     string             `json:"rule"`
	Until    *metav1.Time       `json:"until,omitempty"`
}

// CheckRequest is the question as the controller writes it into a check whose kind has a field for it: all
// that an approver needs, because approvers may not read the requester's namespace.
type CheckRequest struct {
	// ref names the request that asks.
	Ref RequestReference `json:"ref"`
	// object is what is to be used.
	Object ObjectReference `json:"object"`
	// subject is whose use is asked for.
	Subject Subject `json:"subject"`
	// requestedBy is who asked.
	RequestedBy Identity `json:"requestedBy"`
	// person is the user behind the run, or unknown.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Person string `json:"person,omitempty"`
	// use is what the object is asked for; absent means everything that is not a read.
	// +optional
	Use *OperationSelector `json:"use,omitempty"`
	// duration is how long the grant shall last.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Duration string `json:"duration,omitempty"`
	// reason is the requester's own text.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Reason string `json:"reason,omitempty"`
	// context lists the objects from the pod or run upwards, with the creator of each.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Context []ContextHop `json:"context,omitempty"`
	// pipeline names what the run executes.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Pipeline string `json:"pipeline,omitempty"`
	// parameters of the run; values of secret-like names are masked.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Parameters []Parameter `json:"parameters,omitempty"`
	// deadline is when an unanswered check is given up.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// rule is the rule that asks, as it stood then.
	Rule RuleSnapshot `json:"rule"`
	// excluded lists the users who may not answer because they are part of the question.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Excluded []string `json:"excluded,omitempty"`
	// unknownCreator says that the creator of some object of the context is not known, so that nobody can
	// be shown to be independent.
	// +optional
	UnknownCreator bool `json:"unknownCreator,omitempty"`
}

// RequestReference names a ResourceCheckRequest.
type RequestReference struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// ContextHop is one object of a run, with the creator that the API server recorded.
type ContextHop struct {
	Resource ObjectReference `json:"resource"`
	// createdBy is the exact user name, or unknown.
	// +kubebuilder:validation:MaxLength=4096
	CreatedBy string `json:"createdBy"`
	// proven says that the hop upwards from here is proven by the creator record.
	// +optional
	Proven bool `json:"proven,omitempty"`
}

// Parameter is one parameter of a run.
type Parameter struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// RuleSnapshot is a rule as it stood when a request took it up.
type RuleSnapshot struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	// +optional
	Spec ResourceCheckRuleSpec `json:"spec,omitempty"`
	// lastAuthor is who set the rule's spec, or unknown.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	LastAuthor string `json:"lastAuthor,omitempty"`
}

// UnknownUser stands where no creator record can be relied on.
const UnknownUser = "unknown"
