// Package v1alpha1 holds the Check duck type: what every kind of check must show in its status, whoever
// defines the kind.
// +kubebuilder:object:generate=true
package v1alpha1
