package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindConnector is the kind's name.
const KindConnector = "Connector"

// APIsSubresource is the virtual subresource that conveys the use of a connector; VerbRead and VerbWrite are
// its verbs.
const (
	APIsSubresource = "apis"
	VerbRead        = "read"
	VerbWrite       = "write"
	VerbExplain     = "explain"
)

// Secret types that the proxy can inject, beside kubernetes.io/basic-auth.
const (
	// SecretTypeBearerToken holds the token under the key "token".
	SecretTypeBearerToken corev1.SecretType = "connectors.cpaas.io/bearer-token"
	// SecretTypeHeaders holds one header a key: the key is the header's name.
	SecretTypeHeaders corev1.SecretType = "connectors.alaudadevops.io/headers"
)

// Names of parameters that the proxy reads.
const (
	// ParamTokenRealms lists the URLs of token services that the registry may name.
	ParamTokenRealms = "tokenRealms"
)

// Connector is a tool behind the proxy.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=conn,categories=countersign
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.connectorClassName`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 61",message="a connector's name must be a DNS label of at most 61 characters, because its host name is c-<name>"
type Connector struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ConnectorSpec `json:"spec"`
	// +optional
	Status ConnectorStatus `json:"status,omitempty"`
}

// ConnectorSpec is where the tool is, how to log in, and what counts as a write.
type ConnectorSpec struct {
	// connectorClassName is git, oci, harbor, k8s, or any other name for a plain HTTP tool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ConnectorClassName string `json:"connectorClassName"`
	// address is the tool's base URL.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != '' && !self.contains('@') && !self.contains('?') && !self.contains('#')",message="address must be an http or https URL with a host and without user, query or fragment"
	Address string `json:"address"`
	// addressExtensions are further targets, reached under /-ext/<name>/.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	AddressExtensions []AddressExtension `json:"addressExtensions,omitempty"`
	// +optional
	Auth *ConnectorAuth `json:"auth,omitempty"`
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Params []ConnectorParam `json:"params,omitempty"`
	// caCertSecretRef names a Secret of this namespace whose key ca.crt verifies the tool's certificate.
	// +optional
	CACertSecretRef *SecretReference `json:"caCertSecretRef,omitempty"`
	// operations classify requests beyond the built-in table: they may raise anything to Write, and lower
	// to Read only what the table does not know.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Operations []ConnectorOperation `json:"operations,omitempty"`
	// requireChecks closes every write that no rule covers.
	// +optional
	RequireChecks bool `json:"requireChecks,omitempty"`
	// contextScope says how far up an approval reaches.
	// +kubebuilder:default=Run
	// +optional
	ContextScope ContextScope `json:"contextScope,omitempty"`
	// allowUnboundServiceAccounts lets service accounts ask with tokens that belong to no pod.
	// +optional
	AllowUnboundServiceAccounts bool `json:"allowUnboundServiceAccounts,omitempty"`
}

// ContextScope says how far up from the pod an approval reaches.
// +kubebuilder:validation:Enum=Run;Task;Pod
type ContextScope string

// Values of ContextScope.
const (
	ContextScopeRun  ContextScope = "Run"
	ContextScopeTask ContextScope = "Task"
	ContextScopePod  ContextScope = "Pod"
)

// AddressExtension is a further address of the same tool.
type AddressExtension struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != '' && !self.contains('@') && !self.contains('?') && !self.contains('#')",message="address must be an http or https URL with a host and without user, query or fragment"
	Address string `json:"address"`
}

// ConnectorAuth is how the proxy logs in.
type ConnectorAuth struct {
	// name of the way to log in, e.g. basicAuth; the Secret's type decides.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Params []ConnectorParam `json:"params,omitempty"`
}

// SecretReference names a Secret of the connector's namespace.
type SecretReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace may be given, but must be the connector's own.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ConnectorParam is a named value.
type ConnectorParam struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
}

// ConnectorOperation classifies requests.
type ConnectorOperation struct {
	// +kubebuilder:validation:Enum=Read;Write
	Class string `json:"class"`
	// methods are HTTP methods; absent means all.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[A-Z]{1,20}$`
	// +listType=set
	// +optional
	Methods []string `json:"methods,omitempty"`
	// paths are patterns: * is one segment, ** at the end any number; absent means all.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:Pattern=`^/`
	// +listType=set
	// +optional
	Paths []string `json:"paths,omitempty"`
}

// ConnectorStatus is written by the controller only.
type ConnectorStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	Proxy *ConnectorProxy `json:"proxy,omitempty"`
	// identity is the user name that the tool knows the connector's credentials by, when it can be asked.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Identity string `json:"identity,omitempty"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConnectorProxy is where the connector is reached.
type ConnectorProxy struct {
	// +optional
	HTTPAddress *ConnectorAddress `json:"httpAddress,omitempty"`
}

// ConnectorAddress is a URL.
type ConnectorAddress struct {
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
}

// ConnectorList is a list of connectors.
// +kubebuilder:object:root=true
type ConnectorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Connector `json:"items"`
}
