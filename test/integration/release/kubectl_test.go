package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// kubectl runs the program as somebody, and returns what it said.
func (w *world) kubectl(as string, args ...string) (string, error) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "kubeconfig")
	content, err := cluster.Kubeconfig("test", cluster.Admin())
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(file, content, 0o600))
	args = append([]string{"--kubeconfig", file, "-n", w.namespace, "--as", as, "--as-group", "system:authenticated"}, args...)
	output, err := exec.CommandContext(w.t.Context(), "../../../bin/kubectl", args...).CombinedOutput()
	return string(output), err
}

func (w *world) must(as string, args ...string) string {
	w.t.Helper()
	output, err := w.kubectl(as, args...)
	require.NoError(w.t, err, output)
	return output
}

func TestPublicSamplesApplyUnchanged(t *testing.T) {
	for _, apply := range [][]string{{"apply"}, {"apply", "--server-side"}, {"create"}} {
		w := newWorld(t)
		// No role of ours conveys ReleaseServiceConfigs: they are their operator's.
		w.mayAll(alice)
		w.mayAll(bob)
		w.must(alice, append(apply, "-k", "testdata/samples")...)
		r := w.release("release-sample")
		got := w.record(reread(w, r))
		assert.Equal(t, alice, got.author, apply)
		assert.Equal(t, record{}, w.record(reread(w, w.plan("releaseplan-sample"))), "a plan that asks for nobody")
		w.must(alice, "get", "releaseplanadmission/releaseplanadmission-sample", "releaseserviceconfig/releaseserviceconfig-sample")
		if apply[0] == "apply" {
			w.must(bob, append(apply, "--force-conflicts="+map[bool]string{true: "true", false: "false"}[len(apply) > 1], "-k", "testdata/samples")...)
			assert.Equal(t, got, w.record(reread(w, r)), apply)
		}
	}
}

// What configures release-service is kept, whatever it says, and read by nobody.
func TestAServiceConfigIsKeptAsItIs(t *testing.T) {
	w := newWorld(t)
	spec := map[string]any{
		"debug": true, "defaultTimeouts": map[string]any{"pipeline": "1h0m0s"},
		"EmptyDirOverrides": []any{map[string]any{"url": "https://git.example.com/a", "revision": "main", "pathInRepo": "pipeline.yaml"}},
	}
	config := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	config.SetGroupVersionKind(releasev1alpha1.GroupVersion.WithKind(releasev1alpha1.KindReleaseServiceConfig))
	config.SetNamespace(w.namespace)
	config.SetName("release-service-config")
	w.create(w.admin, config)
	assert.Equal(t, spec, reread(w, config).Object["spec"])
}

func TestTheOlderWordingIsShownOnRequest(t *testing.T) {
	w := newWorld(t)
	r := w.release("release")
	w.create(w.user(alice), r)
	r.Status.Authorization = &releasev1alpha1.Authorization{Author: alice, Verified: true}
	require.NoError(t, w.admin.Status().Update(t.Context(), r))
	assert.NotContains(t, w.must(alice, "get", "releases"), alice)
	assert.Regexp(t, `(?m)^release .*`+alice+` +true$`, w.must(alice, "get", "releases", "-o", "wide"))
}

func TestApplyingOldFilesKeepsTheRecord(t *testing.T) {
	ways := map[string][]string{
		"apply": {"apply", "-f"}, "replace": {"replace", "-f"}, "server-side apply": {"apply", "--server-side", "--force-conflicts", "-f"},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(alice, "apply", "-f", "testdata/plan.yaml")
			w.must(bob, "apply", "-f", "testdata/release.yaml")
			p, r := w.plan("plan"), w.release("release")
			w.stands(p, alice)
			before := map[client.Object]record{p: w.record(reread(w, p)), r: w.record(reread(w, r))}
			for _, by := range []string{alice, bob, robot} {
				w.must(by, append(way, "testdata/plan.yaml")...)
				w.must(by, append(way, "testdata/release.yaml")...)
				assert.Equal(t, before[p], w.record(reread(w, p)), by)
				assert.Equal(t, before[r], w.record(reread(w, r)), by)
			}
		})
	}
}

func TestForgingWithKubectlHasNoEffect(t *testing.T) {
	w := newWorld(t)
	w.must(alice, "apply", "-f", "testdata/plan.yaml")
	w.must(bob, "apply", "-f", "testdata/release.yaml")
	p, r := w.plan("plan"), w.release("release")
	plan, release := w.record(reread(w, p)), w.record(reread(w, r))
	for _, object := range []string{"releaseplan/plan", "release/release"} {
		w.must(bob, "annotate", "--overwrite", object, "attribution.alaudadevops.io/author=ceo", "attribution.alaudadevops.io/standing={}")
		w.must(bob, "annotate", object, "attribution.alaudadevops.io/author-", "attribution.alaudadevops.io/standing-", "attribution.alaudadevops.io/automated-by-")
		w.must(bob, "label", "--overwrite", object, "release.rhtap.openshift.io/author=ceo", "release.rhtap.openshift.io/automated=true")
		w.must(bob, "label", object, "release.rhtap.openshift.io/author-")
		w.must(bob, "patch", object, "--type=merge", "-p", `{"metadata":{"annotations":null}}`)
	}
	assert.Equal(t, release, w.record(reread(w, r)))
	plan.automatedLabel = "true" // It says nothing on a plan.
	assert.Equal(t, plan, w.record(reread(w, p)))
	output, err := w.kubectl(bob, "annotate", "releaseplan/plan", "attribution.alaudadevops.io/accept=true")
	require.Error(t, err)
	assert.Contains(t, output, "that is "+alice+", not "+bob)
}
