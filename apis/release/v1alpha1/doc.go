// Package v1alpha1 holds the Release family, compatible field by field with the public Konflux CRDs as far as attribution
// and managed pipelines go, so that manifests written for those apply unchanged.
// +kubebuilder:object:generate=true
// +groupName=appstudio.redhat.com
package v1alpha1
