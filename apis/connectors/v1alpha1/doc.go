// Package v1alpha1 holds the Connector, a tool that is used through the proxy.
// +kubebuilder:object:generate=true
// +groupName=connectors.alaudadevops.io
package v1alpha1
