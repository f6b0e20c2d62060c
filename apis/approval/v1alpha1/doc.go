// Package v1alpha1 holds the rules, requests and built-in checks of Countersign.
// +kubebuilder:object:generate=true
// +groupName=approval.alaudadevops.io
package v1alpha1
