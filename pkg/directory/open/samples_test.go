package open

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// shipped is the folder of what is installed.
const shipped = "../../../config"

// TestSamplesOpen opens every sample as shipped, with its files where the test has them.
func TestSamplesOpen(t *testing.T) {
	mounted := t.TempDir()
	for _, name := range []string{"password", "client-secret", "token"} {
		require.NoError(t, os.WriteFile(filepath.Join(mounted, name), []byte("secret\n"), 0o600))
	}
	for _, name := range []string{"static", "ldap", "keycloak", "scim", "openshift"} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(shipped, "samples/directory", name+".yaml"))
			require.NoError(t, err)
			moved := strings.NewReplacer("/etc/countersign/directory-secret", mounted, "  caFile:", "  #").Replace(string(content))
			_, err = Open(config(t, moved), openShift())
			require.NoError(t, err)
		})
	}
}

func TestSampleIsInstalledByOneLine(t *testing.T) {
	all := built(t, "../samples/directory")
	var deployment appsv1.Deployment
	one(t, all, "Deployment", "countersign-controller", &deployment)
	pod := deployment.Spec.Template.Spec
	assert.Contains(t, pod.Containers[0].Args, "--directory-config=/etc/countersign/directory/directory.yaml")
	assert.Contains(t, pod.Containers[0].Args, "--leader-elect")
	require.Len(t, pod.Volumes, 3)
	c := started(t, pod, func(name string) map[string]string {
		var mounted corev1.ConfigMap
		one(t, all, "ConfigMap", name, &mounted)
		return mounted.Data
	})
	answer, err := c.Lookup(t.Context(), "release-manager@example.com")
	require.NoError(t, err)
	assert.Equal(t, "Rosa Release", answer.Person.DisplayName)
	_, err = c.Lookup(t.Context(), "former@example.com")
	require.EqualError(t, err, "the account is disabled")
}

// started opens the directory as the controller would, in the pod as the kubelet would make it from the ConfigMaps.
func started(t *testing.T, pod corev1.PodSpec, configMap func(name string) map[string]string) *directory.Cached {
	t.Helper()
	mounts := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounts[mount.Name] = mount.MountPath
	}
	root := t.TempDir()
	for _, volume := range pod.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		dir := filepath.Join(root, mounts[volume.Name])
		require.NoError(t, os.MkdirAll(dir, 0o700))
		for key, content := range configMap(volume.ConfigMap.Name) {
			content = strings.ReplaceAll(content, "/etc/countersign", root+"/etc/countersign")
			require.NoError(t, os.WriteFile(filepath.Join(dir, key), []byte(content), 0o600))
		}
	}
	c, err := Open(filepath.Join(root, "/etc/countersign/directory/directory.yaml"), Deps{})
	require.NoError(t, err)
	return c
}

// TestDocumentedConfigMapWorksByHand does what the how-to says to the Deployment of config/default.
func TestDocumentedConfigMapWorksByHand(t *testing.T) {
	content, err := os.ReadFile("../../../docs/how-to/directory.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(content), "### By a ConfigMap\n")
	require.True(t, found)
	patches := regexp.MustCompile(`(?s) -p '(.*?)'\n`).FindAllStringSubmatch(section, -1)
	require.Len(t, patches, 2)
	config := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(section)
	require.NotNil(t, config)

	var deployment appsv1.Deployment
	one(t, built(t, "../components/directory-openshift"), "Deployment", "countersign-controller", &deployment)
	original, err := json.Marshal(deployment)
	require.NoError(t, err)
	mounted, err := strategicpatch.StrategicMergePatch(original, []byte(patches[0][1]), deployment)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(mounted, &deployment))
	var flag []struct{ Op, Path, Value string }
	require.NoError(t, json.Unmarshal([]byte(patches[1][1]), &flag))
	require.Len(t, flag, 1)
	require.Equal(t, "add /spec/template/spec/containers/0/args/-", flag[0].Op+" "+flag[0].Path)
	require.NotEmpty(t, deployment.Spec.Template.Spec.Containers[0].Args, "or there is nothing to add to")
	pod := deployment.Spec.Template.Spec
	assert.Equal(t, "controller", pod.Containers[0].Name)
	assert.Equal(t, "--directory-config=/etc/countersign/directory/directory.yaml", flag[0].Value)

	c := started(t, pod, func(name string) map[string]string {
		return map[string]map[string]string{
			"countersign-people": {"people.yaml": people}, "countersign-directory": {"directory.yaml": config[1]},
		}[name]
	})
	_, err = c.Lookup(t.Context(), "alice")
	require.NoError(t, err)
}

// TestProxyIsGivenTheSameDirectory holds that the component whois mounts into the proxy what the controller has.
func TestProxyIsGivenTheSameDirectory(t *testing.T) {
	all := built(t, "../samples/directory, ../components/whois")
	var controller, proxy appsv1.Deployment
	one(t, all, "Deployment", "countersign-controller", &controller)
	one(t, all, "Deployment", "countersign-proxy", &proxy)
	assert.Contains(t, proxy.Spec.Template.Spec.Containers[0].Args, "--directory-config=/etc/countersign/directory/directory.yaml")
	mounts := proxy.Spec.Template.Spec.Containers[0].VolumeMounts
	for _, mount := range controller.Spec.Template.Spec.Containers[0].VolumeMounts {
		assert.Contains(t, mounts, mount)
	}
	for _, volume := range controller.Spec.Template.Spec.Volumes {
		assert.Contains(t, proxy.Spec.Template.Spec.Volumes, volume, "under the name that changes with the content")
	}

	one(t, built(t, "../samples/directory"), "Deployment", "countersign-proxy", &proxy)
	assert.NotContains(t, proxy.Spec.Template.Spec.Containers[0].Args, "--directory-config=/etc/countersign/directory/directory.yaml")
}

// TestS17_OpenShiftsUsersAreReadByNameOnly holds what the component lets the controller do.
func TestS17_OpenShiftsUsersAreReadByNameOnly(t *testing.T) {
	var role rbacv1.ClusterRole
	one(t, built(t, "../components/directory-openshift"), "ClusterRole", "countersign-directory-openshift", &role)
	assert.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{"user.openshift.io"}, Resources: []string{"users"}, Verbs: []string{"get"}}}, role.Rules)
}

// built is everything with one component more.
func built(t *testing.T, component string) resmap.ResMap {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	require.NoError(t, fs.WalkDir(os.DirFS(shipped), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(filepath.Join(shipped, path))
		if err != nil {
			return err
		}
		return memory.WriteFile("/config/"+path, content)
	}))
	mine := "resources: [../default]\ncomponents: [" + component + "]\n"
	require.NoError(t, memory.WriteFile("/config/mine/kustomization.yaml", []byte(mine)))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/config/mine")
	require.NoError(t, err)
	return resources
}

func one(t *testing.T, all resmap.ResMap, kind, name string, into any) {
	t.Helper()
	for _, resource := range all.Resources() {
		if resource.GetKind() == kind && resource.GetName() == name {
			content, err := resource.AsYAML()
			require.NoError(t, err)
			require.NoError(t, yaml.Unmarshal(content, into))
			return
		}
	}
	require.Failf(t, "not installed", "%s %s", kind, name)
}

// TestDocumentedConfigurationsAreValid reads the examples of the how-to as the controller would.
func TestDocumentedConfigurationsAreValid(t *testing.T) {
	content, err := os.ReadFile("../../../docs/how-to/directory.md")
	require.NoError(t, err)
	types := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(content), -1) {
		if !strings.HasPrefix(block[1], "type:") && !strings.HasPrefix(block[1], "cache:") {
			continue
		}
		c, err := decode([]byte(block[1]))
		require.NoError(t, err, block[1])
		types[c.Type] = true
		if c.Type != "" {
			_, err = c.choose()
			require.NoError(t, err)
			continue
		}
		options, err := c.Cache.options()
		require.NoError(t, err)
		assert.Equal(t, directory.Options{
			Positive: directory.DefaultPositive, Negative: directory.DefaultNegative, MaxStale: -1, Entries: directory.DefaultEntries,
			Timeout: directory.DefaultTimeout, Retries: directory.DefaultRetries, Backoff: directory.DefaultBackoff,
			Concurrency: directory.DefaultConcurrency, RetryAfter: directory.DefaultRetryAfter,
			Breaker: directory.Breaker{Failures: directory.DefaultFailures, Open: directory.DefaultOpen},
		}, options, "the how-to tells the defaults")
	}
	assert.Len(t, types, 6, "every type, and the cache")
}
