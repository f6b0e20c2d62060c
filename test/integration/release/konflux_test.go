package release

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// installs is what a kustomization installs, as kind/name.
func installs(t *testing.T, folder string) map[string]string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "../../../bin/kubectl", "kustomize", "../../../config/"+folder).Output()
	require.NoError(t, err)
	found := map[string]string{}
	for _, document := range documents(string(output)) {
		var object struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		found[object.Kind+"/"+object.Metadata.Namespace+"/"+object.Metadata.Name] = document
	}
	return found
}

// Beside Konflux everything is as elsewhere, but for the kinds that are Konflux' own and the policies about them.
func TestTheInstallationBesideKonflux(t *testing.T) {
	everything, beside := installs(t, "default"), installs(t, "konflux")
	left := []string{
		"CustomResourceDefinition//releaseplanadmissions.appstudio.redhat.com", "CustomResourceDefinition//releaseplans.appstudio.redhat.com",
		"CustomResourceDefinition//releases.appstudio.redhat.com", "CustomResourceDefinition//releasestrategies.appstudio.redhat.com",
		"CustomResourceDefinition//releaseserviceconfigs.appstudio.redhat.com",
		"ValidatingAdmissionPolicy//countersign-release-immutability", "ValidatingAdmissionPolicyBinding//countersign-release-immutability",
		"ValidatingAdmissionPolicy//countersign-release-status-guard", "ValidatingAdmissionPolicyBinding//countersign-release-status-guard",
	}
	const controller = "Deployment/countersign-system/countersign-controller"
	for _, name := range left {
		require.Contains(t, everything, name)
		delete(everything, name)
	}
	assert.Contains(t, beside[controller], "--release-vocabulary=appstudio")
	assert.Contains(t, beside[controller], "--automated-service-accounts=system:serviceaccount:integration-service:integration-service-controller-manager")
	delete(everything, controller)
	delete(beside, controller)
	assert.Equal(t, everything, beside)
}
