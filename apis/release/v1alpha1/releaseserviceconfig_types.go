package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReleaseServiceConfig configures release-service, of which nothing runs here: it is kept, so that manifests which have one
// apply unchanged, and has no effect.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=countersign"
// +kubebuilder:resource:shortName=rsc,categories=countersign
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReleaseServiceConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is kept as it is, whatever its fields are, and has no effect.
	// +kubebuilder:default={}
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec"`
}

// ReleaseServiceConfigList is a list of configurations.
// +kubebuilder:object:root=true
type ReleaseServiceConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ReleaseServiceConfig `json:"items"`
}
